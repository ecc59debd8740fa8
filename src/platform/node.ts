/**
 * Zlib on first use: a static import, even of a lazily loaded module, would make the start of an isolate twice as long.
 */
import type * as Zlib from "node:zlib";

export function zlib(): typeof Zlib {
  return process.getBuiltinModule("node:zlib");
}
