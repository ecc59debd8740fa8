/**
 * Node's modules, loaded when they are first used. Imported, even by a module that is itself loaded late, they would be
 * loaded with the Worker: more work than all else that an isolate does before it takes its first signal.
 */
import type * as Zlib from "node:zlib";

/** Compression that answers at once. */
export function zlib(): typeof Zlib {
  return process.getBuiltinModule("node:zlib");
}
