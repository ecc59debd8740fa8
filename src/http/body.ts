/** Reading a request's body once, with a cap on what it decompresses to. */
import type { BodyRefusal } from "../domain/keys/refusal.ts";
import type { Result } from "../domain/result.ts";
import { ok, refuse } from "../domain/result.ts";
import { zlib } from "../platform/node.ts";

/** Up to this size the platform's own way is the fastest; of larger bodies it keeps a copy. */
const AT_ONCE_MAX_BYTES = 262_144;
/** Bytes of a larger body that are read at a time. */
const PART_BYTES = 262_144;

/** The body as UTF-8 bytes, in one piece; a byte order mark is left out. */
export async function readBody(request: Request, maxBytes: number): Promise<Result<Uint8Array, BodyRefusal>> {
  const encoding = request.headers.get("content-encoding")?.trim().toLowerCase() ?? "identity";
  const gzip = encoding === "gzip" || encoding === "x-gzip";
  if (!gzip && encoding !== "identity" && encoding !== "") {
    const detail = "The body's Content-Encoding is not supported. Send it plain or with Content-Encoding: gzip.";
    return refuse({ code: "content_encoding_unsupported", detail });
  }
  try {
    const received = await readBytes(request, maxBytes);
    const bytes = received !== null && gzip ? gunzip(received, maxBytes) : received;
    if (bytes !== null) return ok(withoutMark(bytes));
    const detail = `The body is larger than ${maxBytes} bytes after decompression. Send fewer signals per request.`;
    return refuse({ code: "body_too_large", detail });
  } catch {
    const detail = gzip ? "The body is labelled gzip and could not be decompressed." : "The body could not be read.";
    return refuse({ code: "body_unreadable", detail });
  }
}

/** The body as it was sent; null: more than `maxBytes`. */
async function readBytes(request: Request, maxBytes: number): Promise<Uint8Array | null> {
  const header = request.headers.get("content-length");
  const declared = header === null ? null : Number(header);
  if (declared !== null && declared > maxBytes) return null;
  // HTTP keeps a declared length: the fast way needs no cap of its own.
  if (declared !== null && declared <= AT_ONCE_MAX_BYTES) return new Uint8Array(await request.arrayBuffer());
  if (request.body === null) return new Uint8Array();
  return readInParts(request.body, maxBytes);
}

/**
 * Reads into one buffer: parts of their own would stand in memory beside the whole. It grows in its place with what has
 * come, for a sender may declare much and send nothing. Null: more than `maxBytes`.
 */
async function readInParts(body: ReadableStream, maxBytes: number): Promise<Uint8Array | null> {
  const reader = body.getReader({ mode: "byob" });
  let whole: ArrayBuffer | null = null;
  let part = new ArrayBuffer(PART_BYTES);
  for (;;) {
    // oxlint-disable-next-line no-await-in-loop
    const { value = new Uint8Array() } = await reader.readAtLeast(PART_BYTES, new Uint8Array(part));
    const isLast = value.byteLength < PART_BYTES;
    if (whole === null && isLast) return value;
    whole ??= new ArrayBuffer(0, { maxByteLength: maxBytes });
    const filled = whole.byteLength;
    if (filled + value.byteLength > maxBytes) {
      // oxlint-disable-next-line no-await-in-loop
      await reader.cancel();
      return null;
    }
    whole.resize(filled + value.byteLength);
    new Uint8Array(whole, filled).set(value);
    if (isLast) return new Uint8Array(whole, 0, whole.byteLength);
    // The reader has the part while it fills it, and gives it back.
    part = value.buffer;
  }
}

/** Unpacks by Node's gunzip: the platform's stream refuses several members, as log shippers append them. Null: too large. */
function gunzip(compressed: Uint8Array, maxBytes: number): Uint8Array | null {
  try {
    // A small body that unpacks to gigabytes is given up at the limit.
    return zlib().gunzipSync(compressed, { maxOutputLength: maxBytes });
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

function withoutMark(bytes: Uint8Array): Uint8Array {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes;
}
