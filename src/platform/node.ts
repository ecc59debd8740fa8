/**
 * Node's modules, loaded when they are first used. Imported, even by a module that is itself loaded late, they would be
 * loaded with the Worker: more work than all else that an isolate does before it takes its first signal.
 */
import type { Hash } from "node:crypto";
import type * as Zlib from "node:zlib";

/** SHA-256 of the text's UTF-8 bytes, to be digested. */
export function sha256(text: string): Hash {
  return process.getBuiltinModule("node:crypto").createHash("sha256").update(text);
}

/** Compression that answers at once. */
export function zlib(): typeof Zlib {
  return process.getBuiltinModule("node:zlib");
}
