import type { BodyRefusal, Described, Unavailable } from "../domain/keys/refusal.ts";
import { refuse } from "../domain/result.ts";
import { BULK_MAX_BYTES, RETRY_MIN_SECONDS } from "../limits.ts";
import { zlib } from "../platform/node.ts";
import { TimeLimitExceeded, within } from "../platform/time-limit.ts";

const LARGE_BODY_PART_BYTES = 262_144;
/** The largest bulk import, and the part of it that is being read. */
export const LARGE_BODIES_HOLDER_MAX_BYTES = BULK_MAX_BYTES + LARGE_BODY_PART_BYTES;
/** All large bodies together: with two of the largest bulk imports an isolate takes 100 of its 128 MB. */
export const LARGE_BODIES_MAX_BYTES = 2 * LARGE_BODIES_HOLDER_MAX_BYTES;
/** A slow sender must not occupy memory for long. Each part is measured alone, so a fast sender may not stall later. */
const LARGE_BODY_MIN_BYTES_PER_SECOND = 50_000;
/** About five seconds, enough for a connection that loses packets. */
export const LARGE_BODY_PART_MS = Math.ceil((1_000 * LARGE_BODY_PART_BYTES) / LARGE_BODY_MIN_BYTES_PER_SECOND);
/** Time limit for storing a body that has arrived. Afterwards the memory of a call that the platform ended is free. */
export const LARGE_BODY_STORED_MS = 60_000;

/** Calls of an isolate share it, so it is plain data without promises. */
const reservations = new Set<MemoryReservation>();

export class MemoryReservation {
  readonly #holder: string;
  #bytes = 0;
  #untilMs = 0;

  /** @param holder a workspace id, "operator", a member, or "strangers". */
  constructor(holder: string) {
    this.#holder = holder;
  }

  /** The number of bytes that this body may have in all. */
  available(nowMs: number): number {
    let taken = 0;
    let takenByHolder = 0;
    for (const reservation of reservations) {
      if (nowMs > reservation.#untilMs) {
        reservations.delete(reservation);
      } else if (reservation !== this) {
        taken += reservation.#bytes;
        if (reservation.#holder === this.#holder) takenByHolder += reservation.#bytes;
      }
    }
    return Math.min(LARGE_BODIES_MAX_BYTES - taken, LARGE_BODIES_HOLDER_MAX_BYTES - takenByHolder);
  }

  /**
   * @param bytes of the body in all. @param forMs the memory counts as free after this time. @returns false: too little
   * is free.
   */
  reserve(bytes: number, nowMs: number, forMs = 2 * LARGE_BODY_PART_MS): boolean {
    if (bytes > this.available(nowMs)) return false;
    this.#bytes = bytes;
    this.#untilMs = nowMs + forMs;
    reservations.add(this);
    return true;
  }

  release(): void {
    reservations.delete(this);
  }
}

/** `arrayBuffer` is fastest, but the platform keeps a copy of larger bodies. */
const AT_ONCE_MAX_BYTES = 262_144;
/** Read before the body is split into parts. Most bodies are smaller and reserve no memory. */
const FIRST_BYTES = 16_384;
/** Time limit for a body of at most AT_ONCE_MAX_BYTES. */
export const SMALL_BODY_MS = 30_000;
/** Deflate compresses at most so well: a 258-byte match in two bits. */
const DEFLATE_MAX_RATIO = 1_032;

export type BodyProblem = BodyRefusal | (Unavailable & Described);

interface ReadBodyOptions {
  maxBytes: number;
  /** Shares LARGE_BODIES_HOLDER_MAX_BYTES, see MemoryReservation. */
  holder: string;
}

type ReadBody =
  | {
      ok: true;
      /** Without a byte order mark. */
      bytes: Uint8Array;
      /** The caller releases it. */
      reservation: MemoryReservation;
    }
  | {
      ok: false;
      refusal: BodyProblem;
      /** Read and unpacked in spite of the failure. */
      bytes: number;
    };

type Cause = "too_large" | "no_memory" | "too_slow" | "unreadable";

interface Unread {
  cause: Cause;
  bytes: number;
}

const NO_MEMORY =
  "Nothing was stored: too many large bodies came at once. Send the same request again after Retry-After seconds.";
const TOO_SLOW =
  `Nothing was stored: the body arrived at less than ${LARGE_BODY_MIN_BYTES_PER_SECOND} bytes a second, and was given up. Send ` +
  `it again, in smaller parts or compressed: a body of at most ${AT_ONCE_MAX_BYTES} bytes with a Content-Length has ${SMALL_BODY_MS / 1_000} seconds.`;

export async function readBody(request: Request, { maxBytes, holder }: ReadBodyOptions): Promise<ReadBody> {
  const encoding = request.headers.get("content-encoding")?.trim().toLowerCase() ?? "identity";
  const gzip = encoding === "gzip" || encoding === "x-gzip";
  if (!gzip && encoding !== "identity" && encoding !== "") {
    const detail = "The body's Content-Encoding is not supported. Send it plain or with Content-Encoding: gzip.";
    return { ...refuse({ code: "content_encoding_unsupported", detail }), bytes: 0 };
  }
  const header = request.headers.get("content-length");
  const declared = header === null ? null : Number(header);
  // HTTP enforces a declared length.
  const isSmall = declared !== null && declared <= FIRST_BYTES;
  const reservation = new MemoryReservation(holder);
  let read: Uint8Array | Unread;
  try {
    if (declared !== null && declared > maxBytes) read = { cause: "too_large", bytes: 0 };
    else if (isSmall) read = new Uint8Array(await request.arrayBuffer());
    else if (declared !== null && declared <= AT_ONCE_MAX_BYTES)
      read = await readAtOnce(request, declared, reservation);
    else read = await readLarge(request.body, { declared, maxBytes, reservation });
    if (gzip && read instanceof Uint8Array) read = gunzip(read, { maxBytes, reservation });
  } catch {
    read = { cause: "unreadable", bytes: 0 };
  }
  if (read instanceof Uint8Array) return { ok: true, bytes: withoutByteOrderMark(read), reservation };
  reservation.release();
  return { ...refuse(refusalOf(read.cause, { gzip, maxBytes })), bytes: read.bytes };
}

interface Bounds {
  maxBytes: number;
  reservation: MemoryReservation;
}

/** Reserves memory, because many stalled bodies together would take all of it. */
async function readAtOnce(
  request: Request,
  declared: number,
  reservation: MemoryReservation,
): Promise<Uint8Array | Unread> {
  if (!reservation.reserve(declared, Date.now(), LARGE_BODY_STORED_MS)) return { cause: "no_memory", bytes: 0 };
  try {
    return new Uint8Array(await within(SMALL_BODY_MS, request.arrayBuffer()));
  } catch (error) {
    return { cause: error instanceof TimeLimitExceeded ? "too_slow" : "unreadable", bytes: 0 };
  }
}

async function readLarge(
  body: ReadableStream | null,
  { declared, ...bounds }: Bounds & { declared: number | null },
): Promise<Uint8Array | Unread> {
  if (declared !== null && declared > bounds.reservation.available(Date.now())) return { cause: "no_memory", bytes: 0 };
  if (body === null) return new Uint8Array();
  const reader = body.getReader({ mode: "byob" });
  const first = await within(SMALL_BODY_MS, readPart(reader, new ArrayBuffer(FIRST_BYTES)));
  const isTooLarge = first.byteLength > bounds.maxBytes;
  if (first.byteLength < FIRST_BYTES && !isTooLarge) return first;
  const read: Uint8Array | Unread = isTooLarge
    ? { cause: "too_large", bytes: first.byteLength }
    : await readInParts(reader, first, bounds);
  // A stalled stream may never confirm its cancellation, so nothing waits for that.
  if (!(read instanceof Uint8Array)) void reader.cancel().catch(() => undefined);
  return read;
}

/**
 * Separate parts would take memory beside the whole. The buffer grows with the received bytes, because a sender may
 * declare much and send nothing.
 */
async function readInParts(
  reader: ReadableStreamBYOBReader,
  first: Uint8Array,
  { maxBytes, reservation }: Bounds,
): Promise<Uint8Array | Unread> {
  const whole = new ArrayBuffer(first.byteLength, { maxByteLength: maxBytes });
  new Uint8Array(whole).set(first);
  let part = new ArrayBuffer(LARGE_BODY_PART_BYTES);
  for (;;) {
    const filled = whole.byteLength;
    if (!reservation.reserve(Math.min(filled + LARGE_BODY_PART_BYTES, maxBytes), Date.now()))
      return { cause: "no_memory", bytes: filled };
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
      reservation.reserve(whole.byteLength, Date.now(), LARGE_BODY_STORED_MS);
      return new Uint8Array(whole, 0, whole.byteLength);
    }
    // The reader owns the part's buffer while it fills it.
    part = next.buffer;
  }
}

async function readPart(reader: ReadableStreamBYOBReader, part: ArrayBuffer): Promise<Uint8Array<ArrayBuffer>> {
  const { value = new Uint8Array() } = await reader.readAtLeast(part.byteLength, new Uint8Array(part));
  return value;
}

/** Node's gunzip, because the platform's stream rejects bodies of several members, which log shippers send. */
function gunzip(compressed: Uint8Array, { maxBytes, reservation }: Bounds): Uint8Array | Unread {
  const free = Math.max(AT_ONCE_MAX_BYTES, reservation.available(Date.now()));
  // Unpacking 16 MB only to refuse them would take as much CPU as accepting them.
  if (Math.min(maxBytes, lastMemberBytes(compressed)) > free) return { cause: "no_memory", bytes: 0 };
  const maxOutputLength = Math.min(maxBytes, free);
  try {
    // Stops at the limit: a small body may unpack to gigabytes.
    const bytes = zlib().gunzipSync(compressed, { maxOutputLength });
    if (bytes.byteLength > AT_ONCE_MAX_BYTES) reservation.reserve(bytes.byteLength, Date.now(), LARGE_BODY_STORED_MS);
    else reservation.release();
    return bytes;
  } catch (error) {
    if (!(error instanceof RangeError)) {
      // The error may occur at the very end, so the maximum is charged.
      const unpacked = isGzip(compressed) ? DEFLATE_MAX_RATIO * compressed.byteLength : compressed.byteLength;
      return { cause: "unreadable", bytes: Math.min(maxOutputLength, unpacked) };
    }
    return { cause: free < maxBytes ? "no_memory" : "too_large", bytes: maxOutputLength };
  }
}

/** Checks the magic bytes. */
function isGzip(body: Uint8Array): boolean {
  return body[0] === 0x1f && body[1] === 0x8b;
}

/** The size is declared in the last four bytes. gunzip rejects a member with another size. */
function lastMemberBytes(compressed: Uint8Array): number {
  const { buffer, byteOffset, byteLength } = compressed;
  return byteLength < 4 ? 0 : new DataView(buffer, byteOffset, byteLength).getUint32(byteLength - 4, true);
}

function refusalOf(cause: Cause, { gzip, maxBytes }: { gzip: boolean; maxBytes: number }): BodyProblem {
  switch (cause) {
    case "no_memory":
      return { code: "unavailable", retryAfterMs: RETRY_MIN_SECONDS * 1_000, detail: NO_MEMORY };
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

function withoutByteOrderMark(bytes: Uint8Array): Uint8Array {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes;
}
