/**
 * Node's modules, loaded on first use. Even in a lazily loaded module a static import would load them at start-up, which
 * takes longer than the rest of an isolate's start.
 */
import type * as Zlib from "node:zlib";

/** Synchronous compression. */
export function zlib(): typeof Zlib {
  return process.getBuiltinModule("node:zlib");
}
