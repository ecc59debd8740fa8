/** Reading a request's body once, with a cap on what it decompresses to, and on what large bodies take together. */
import type { Described } from "../domain/keys/echo.ts";
import type { BodyRefusal, Unavailable } from "../domain/keys/refusal.ts";
import { refuse } from "../domain/result.ts";
import { RETRY_MIN_SECONDS } from "../limits.ts";
import { zlib } from "../platform/node.ts";
import { TimeLimitExceeded, within } from "../platform/time-limit.ts";
import {
  LARGE_BODY_MIN_BYTES_PER_SECOND,
  LARGE_BODY_PART_BYTES,
  LARGE_BODY_PART_MS,
  LARGE_BODY_STORED_MS,
  LargeBody,
} from "./large-bodies.ts";

/** Up to this size `arrayBuffer` is the fastest way to read a body. Of larger bodies the platform keeps a copy. */
export const AT_ONCE_MAX_BYTES = 262_144;
/** Bytes that are read before parts are. Bodies of at most so many bytes take no room: most calls are smaller. */
const FIRST_BYTES = 16_384;
/** Time limit for a body of at most AT_ONCE_MAX_BYTES. */
export const SMALL_BODY_MS = 30_000;
/** Deflate compresses at most so well: a 258-byte match in two bits. */
const DEFLATE_MAX_RATIO = 1_032;

export type BodyProblem = BodyRefusal | (Unavailable & Described);

export interface ReadBodyOptions {
  /** What the body may have after decompression. */
  maxBytes: number;
  /** Whose share of the room for large bodies it takes from: a workspace's id, "operator", a member, or "strangers". */
  holder: string;
}

export type ReadBody =
  | {
      ok: true;
      /** The body as UTF-8 bytes, in one piece; a byte order mark is left out. */
      bytes: Uint8Array;
      /** The place of the bytes among the large bodies, to be let go of when they are needed no more. */
      place: LargeBody;
    }
  | {
      ok: false;
      refusal: BodyProblem;
      /** How many bytes were read and unpacked in vain. */
      bytes: number;
    };

/** Why there are no bytes. */
type Cause = "too_large" | "no_room" | "too_slow" | "unreadable";

interface Unread {
  cause: Cause;
  bytes: number;
}

const NO_ROOM =
  "Nothing was stored: too many large bodies came at once. Send the same request again after Retry-After seconds.";
const TOO_SLOW =
  `Nothing was stored: the body arrived at less than ${LARGE_BODY_MIN_BYTES_PER_SECOND} bytes a second, and was given up. Send ` +
  `it again, in smaller parts or compressed: a body of at most ${AT_ONCE_MAX_BYTES} bytes with a Content-Length has ${SMALL_BODY_MS / 1_000} seconds.`;

/** The place of a body that declares at most FIRST_BYTES: it takes none. */
const NO_PLACE = new LargeBody("");

/** Reads a body whole. The caller lets go of its place. */
export async function readBody(request: Request, { maxBytes, holder }: ReadBodyOptions): Promise<ReadBody> {
  const encoding = request.headers.get("content-encoding")?.trim().toLowerCase() ?? "identity";
  const gzip = encoding === "gzip" || encoding === "x-gzip";
  if (!gzip && encoding !== "identity" && encoding !== "") {
    const detail = "The body's Content-Encoding is not supported. Send it plain or with Content-Encoding: gzip.";
    return { ...refuse({ code: "content_encoding_unsupported", detail }), bytes: 0 };
  }
  const header = request.headers.get("content-length");
  const declared = header === null ? null : Number(header);
  // HTTP keeps a declared length: the fast way needs no cap of its own.
  const takesNoRoom = declared !== null && declared <= FIRST_BYTES;
  const place = takesNoRoom && !gzip ? NO_PLACE : new LargeBody(holder);
  let read: Uint8Array | Unread;
  try {
    if (declared !== null && declared > maxBytes) read = { cause: "too_large", bytes: 0 };
    else if (takesNoRoom) read = new Uint8Array(await request.arrayBuffer());
    else if (declared !== null && declared <= AT_ONCE_MAX_BYTES) read = await readAtOnce(request, declared, place);
    else read = await readLarge(request.body, { declared, maxBytes, place });
    if (gzip && read instanceof Uint8Array) read = gunzip(read, { maxBytes, place });
  } catch {
    read = { cause: "unreadable", bytes: 0 };
  }
  if (read instanceof Uint8Array) return { ok: true, bytes: withoutMark(read), place };
  place.letGo();
  return { ...refuse(refusalOf(read.cause, { gzip, maxBytes })), bytes: read.bytes };
}

interface Bounds {
  maxBytes: number;
  place: LargeBody;
}

/** Reads a body of at most AT_ONCE_MAX_BYTES. It takes room, because many that stall together would take all memory. */
async function readAtOnce(request: Request, declared: number, place: LargeBody): Promise<Uint8Array | Unread> {
  if (!place.hold(declared, Date.now(), LARGE_BODY_STORED_MS)) return { cause: "no_room", bytes: 0 };
  try {
    return new Uint8Array(await within(SMALL_BODY_MS, request.arrayBuffer()));
  } catch (error) {
    return { cause: error instanceof TimeLimitExceeded ? "too_slow" : "unreadable", bytes: 0 };
  }
}

/** The body as it was sent. */
async function readLarge(
  body: ReadableStream | null,
  { declared, ...bounds }: Bounds & { declared: number | null },
): Promise<Uint8Array | Unread> {
  if (declared !== null && declared > bounds.place.room(Date.now())) return { cause: "no_room", bytes: 0 };
  if (body === null) return new Uint8Array();
  const reader = body.getReader({ mode: "byob" });
  const first = await within(SMALL_BODY_MS, readPart(reader, new ArrayBuffer(FIRST_BYTES)));
  const isTooLarge = first.byteLength > bounds.maxBytes;
  if (first.byteLength < FIRST_BYTES && !isTooLarge) return first;
  const read: Uint8Array | Unread = isTooLarge
    ? { cause: "too_large", bytes: first.byteLength }
    : await readInParts(reader, first, bounds);
  // A stream that has stalled may never say that it is cancelled: nobody waits for that.
  if (!(read instanceof Uint8Array)) void reader.cancel().catch(() => undefined);
  return read;
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
  let part = new ArrayBuffer(LARGE_BODY_PART_BYTES);
  for (;;) {
    const filled = whole.byteLength;
    if (!place.hold(Math.min(filled + LARGE_BODY_PART_BYTES, maxBytes), Date.now()))
      return { cause: "no_room", bytes: filled };
    let next: Uint8Array<ArrayBuffer>;
    try {
      // oxlint-disable-next-line no-await-in-loop
      next = await within(LARGE_BODY_PART_MS, readPart(reader, part));
    } catch (error) {
      return { cause: error instanceof TimeLimitExceeded ? "too_slow" : "unreadable", bytes: filled };
    }
    if (filled + next.byteLength > maxBytes) return { cause: "too_large", bytes: filled + next.byteLength };
    whole.resize(filled + next.byteLength);
    new Uint8Array(whole, filled).set(next);
    if (next.byteLength < LARGE_BODY_PART_BYTES) {
      place.hold(whole.byteLength, Date.now(), LARGE_BODY_STORED_MS);
      return new Uint8Array(whole, 0, whole.byteLength);
    }
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
  // To unpack 16 MB for which there is no room would take as long as to take them.
  if (Math.min(maxBytes, lastMemberBytes(compressed)) > room) return { cause: "no_room", bytes: 0 };
  const maxOutputLength = Math.min(maxBytes, room);
  try {
    // A small body that unpacks to gigabytes is given up at the limit.
    const bytes = zlib().gunzipSync(compressed, { maxOutputLength });
    if (bytes.byteLength > AT_ONCE_MAX_BYTES) place.hold(bytes.byteLength, Date.now(), LARGE_BODY_STORED_MS);
    else place.letGo();
    return bytes;
  } catch (error) {
    if (!(error instanceof RangeError)) {
      // The error may come at the very end: the body is charged for all that it can have unpacked to.
      const unpacked = isGzip(compressed) ? DEFLATE_MAX_RATIO * compressed.byteLength : compressed.byteLength;
      return { cause: "unreadable", bytes: Math.min(maxOutputLength, unpacked) };
    }
    return { cause: room < maxBytes ? "no_room" : "too_large", bytes: maxOutputLength };
  }
}

/** Whether the body begins as gzip does; a body without this beginning is refused before anything is unpacked. */
function isGzip(body: Uint8Array): boolean {
  return body[0] === 0x1f && body[1] === 0x8b;
}

/** What the last member unpacks to, as its last four bytes say: gunzip refuses a member that says something else. */
function lastMemberBytes(compressed: Uint8Array): number {
  const { buffer, byteOffset, byteLength } = compressed;
  return byteLength < 4 ? 0 : new DataView(buffer, byteOffset, byteLength).getUint32(byteLength - 4, true);
}

function refusalOf(cause: Cause, { gzip, maxBytes }: { gzip: boolean; maxBytes: number }): BodyProblem {
  switch (cause) {
    case "no_room":
      return { code: "unavailable", retryAfterMs: RETRY_MIN_SECONDS * 1_000, detail: NO_ROOM };
    case "too_slow":
      return { code: "body_unreadable", detail: TOO_SLOW };
    case "too_large":
      return {
        code: "body_too_large",
        detail: `The body is larger than ${maxBytes} bytes after decompression. Send less per request.`,
      };
    case "unreadable":
      return {
        code: "body_unreadable",
        detail: gzip
          ? "The body is labelled gzip and could not be decompressed. Send it plain, or all of a valid gzip stream."
          : "The body could not be read: it broke off. Send it again.",
      };
  }
}

function withoutMark(bytes: Uint8Array): Uint8Array {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes;
}
