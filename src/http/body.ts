/** Reading a request's body once, with a cap on what it decompresses to, and on what large bodies take together. */
import type { Described } from "../domain/keys/echo.ts";
import type { BodyRefusal, Unavailable } from "../domain/keys/refusal.ts";
import { refuse } from "../domain/result.ts";
import { RETRY_MIN_SECONDS } from "../limits.ts";
import { zlib } from "../platform/node.ts";
import { within } from "../platform/time-limit.ts";
import { LARGE_BODY_SILENT_MS, LargeBody } from "./large-bodies.ts";

/** Up to this size the platform's own way is the fastest; of larger bodies it keeps a copy. */
const AT_ONCE_MAX_BYTES = 262_144;
/** Bytes that are read before parts are: a sender that stops short of them, and waits, takes hardly any memory. */
const FIRST_BYTES = 16_384;
/** Bytes of a larger body that are read at a time. */
const PART_BYTES = 262_144;

type BodyProblem = BodyRefusal | (Unavailable & Described);

export type ReadBody =
  | {
      ok: true;
      /** The body as UTF-8 bytes, in one piece; a byte order mark is left out. */
      bytes: Uint8Array;
      /** The place of the bytes among the large bodies, to be let go of when they are needed no more. */
      place: LargeBody;
    }
  | { ok: false; refusal: BodyProblem };

/** Why there are no bytes. */
type Unread = "too_large" | "no_room" | "unreadable";

const NO_ROOM =
  "Nothing was stored: too many large bodies came at once. Send the same request again after Retry-After seconds.";

/** The place of a body that is small by what it declares: it takes none. */
const NO_PLACE = new LargeBody();

export async function readBody(request: Request, maxBytes: number): Promise<ReadBody> {
  const encoding = request.headers.get("content-encoding")?.trim().toLowerCase() ?? "identity";
  const gzip = encoding === "gzip" || encoding === "x-gzip";
  if (!gzip && encoding !== "identity" && encoding !== "") {
    const detail = "The body's Content-Encoding is not supported. Send it plain or with Content-Encoding: gzip.";
    return refuse({ code: "content_encoding_unsupported", detail });
  }
  const header = request.headers.get("content-length");
  const declared = header === null ? null : Number(header);
  // HTTP keeps a declared length: the fast way needs no cap of its own.
  const isSmall = declared !== null && declared <= AT_ONCE_MAX_BYTES;
  const place = isSmall && !gzip ? NO_PLACE : new LargeBody();
  let read: Uint8Array | Unread;
  try {
    read = isSmall
      ? new Uint8Array(await request.arrayBuffer())
      : await readLarge(request.body, { declared, maxBytes, place });
    if (gzip && typeof read !== "string") read = gunzip(read, { maxBytes, place });
  } catch {
    read = "unreadable";
  }
  if (typeof read !== "string") return { ok: true, bytes: withoutMark(read), place };
  place.letGo();
  return refuse(refusalOf(read, { gzip, maxBytes }));
}

interface Bounds {
  maxBytes: number;
  place: LargeBody;
}

/** The body as it was sent. */
async function readLarge(
  body: ReadableStream | null,
  { declared, ...bounds }: Bounds & { declared: number | null },
): Promise<Uint8Array | Unread> {
  if (declared !== null && declared > bounds.maxBytes) return "too_large";
  if (declared !== null && declared > bounds.place.room(Date.now())) return "no_room";
  if (body === null) return new Uint8Array();
  const reader = body.getReader({ mode: "byob" });
  const first = await readPart(reader, new ArrayBuffer(FIRST_BYTES));
  if (first.byteLength < FIRST_BYTES) return first;
  try {
    const read = await readInParts(reader, first, bounds);
    if (typeof read === "string") await reader.cancel();
    return read;
  } catch (error) {
    // What has stalled may never hear of it.
    void reader.cancel().catch(() => undefined);
    throw error;
  }
}

/**
 * Reads into one buffer: parts of their own would stand in memory beside the whole. It grows in its place with what has
 * come, for a sender may declare much and send nothing.
 */
async function readInParts(
  reader: ReadableStreamBYOBReader,
  first: Uint8Array,
  { maxBytes, place }: Bounds,
): Promise<Uint8Array | Unread> {
  const whole = new ArrayBuffer(first.byteLength, { maxByteLength: maxBytes });
  new Uint8Array(whole).set(first);
  let part = new ArrayBuffer(PART_BYTES);
  for (;;) {
    const filled = whole.byteLength;
    if (!place.hold(filled + PART_BYTES, Date.now())) return "no_room";
    // oxlint-disable-next-line no-await-in-loop
    const next = await within(LARGE_BODY_SILENT_MS, readPart(reader, part));
    if (filled + next.byteLength > maxBytes) return "too_large";
    whole.resize(filled + next.byteLength);
    new Uint8Array(whole, filled).set(next);
    if (next.byteLength < PART_BYTES) return new Uint8Array(whole, 0, whole.byteLength);
    // The reader has the part while it fills it, and gives it back.
    part = next.buffer;
  }
}

/** Fills a part; it is filled in part where the body ends. */
async function readPart(reader: ReadableStreamBYOBReader, part: ArrayBuffer): Promise<Uint8Array<ArrayBuffer>> {
  const { value = new Uint8Array() } = await reader.readAtLeast(part.byteLength, new Uint8Array(part));
  return value;
}

/** Unpacks by Node's gunzip: the platform's stream refuses several members, as log shippers append them. */
function gunzip(compressed: Uint8Array, { maxBytes, place }: Bounds): Uint8Array | Unread {
  const room = Math.max(AT_ONCE_MAX_BYTES, place.room(Date.now()));
  try {
    // A small body that unpacks to gigabytes is given up at the limit.
    const bytes = zlib().gunzipSync(compressed, { maxOutputLength: Math.min(maxBytes, room) });
    if (bytes.byteLength > AT_ONCE_MAX_BYTES) place.hold(bytes.byteLength, Date.now());
    else place.letGo();
    return bytes;
  } catch (error) {
    if (error instanceof RangeError) return room < maxBytes ? "no_room" : "too_large";
    throw error;
  }
}

function refusalOf(unread: Unread, { gzip, maxBytes }: { gzip: boolean; maxBytes: number }): BodyProblem {
  if (unread === "no_room") return { code: "unavailable", retryAfterMs: RETRY_MIN_SECONDS * 1_000, detail: NO_ROOM };
  if (unread === "too_large") {
    const detail = `The body is larger than ${maxBytes} bytes after decompression. Send fewer signals per request.`;
    return { code: "body_too_large", detail };
  }
  const detail = gzip ? "The body is labelled gzip and could not be decompressed." : "The body could not be read.";
  return { code: "body_unreadable", detail };
}

function withoutMark(bytes: Uint8Array): Uint8Array {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes;
}
