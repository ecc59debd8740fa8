/** Texts as zstd frames. */
import type * as Zlib from "node:zlib";

/** A static import would make the start of an isolate twice as long. */
function zlib(): typeof Zlib {
  return process.getBuiltinModule("node:zlib");
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
/** A higher level is slower and saves hardly anything. */
const ZSTD_LEVEL = 1;

export function compress(text: string): Uint8Array {
  const { constants, zstdCompressSync } = zlib();
  return zstdCompressSync(encoder.encode(text), { params: { [constants.ZSTD_c_compressionLevel]: ZSTD_LEVEL } });
}

export function decompress(bytes: ArrayBuffer | Uint8Array): string {
  return decoder.decode(zlib().zstdDecompressSync(new Uint8Array(bytes)));
}
