/**
 * Reads the body of a request, within the share of the caller's workspace (workspace-share.ts): open bodies, memory, unpacked
 * bytes, and one large body at work.
 */
import type { BodyRejection, Described, Unavailable } from "../domain/keys/rejection.ts";
import { type RequestRate, REQUEST_BODY_BYTES, requestsOfBody } from "../domain/quota/request-rate.ts";
import { reject } from "../domain/result.ts";
import { BODY_MAX_BYTES, RETRY_MIN_SECONDS } from "../limits.ts";
import { TimeLimitExceeded, within } from "../platform/time-limit.ts";
import {
  type Lease,
  bodyWaitMs,
  chargeBody,
  LARGE_BODY_BYTES,
  openBody,
  tooFast,
  turnOfLargeBody,
} from "./workspace-share.ts";

const LARGE_BODY_PART_BYTES = LARGE_BODY_BYTES;
/** Two of the largest bodies, one at work and one that waits for its turn, and the part that is being read. */
export const LARGE_BODIES_HOLDER_MAX_BYTES = 2 * BODY_MAX_BYTES + LARGE_BODY_PART_BYTES;
/** All large bodies together: with four of the largest at work, an isolate takes some 100 of its 128 MB. */
export const LARGE_BODIES_MAX_BYTES = 2 * LARGE_BODIES_HOLDER_MAX_BYTES;
/** Each holder may have this much, also while others use all of it: so no stalled sender keeps a batch of CDP events out. */
const LARGE_BODIES_ALWAYS_BYTES = 2 * LARGE_BODY_PART_BYTES;
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
    return Math.min(
      Math.max(LARGE_BODIES_MAX_BYTES - taken, LARGE_BODIES_ALWAYS_BYTES - takenByHolder),
      LARGE_BODIES_HOLDER_MAX_BYTES - takenByHolder,
    );
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

/** A body up to this size is read at once, if its length is known. */
const AT_ONCE_MAX_BYTES = LARGE_BODY_BYTES;
/** Read before a body of unknown length is split into parts. Most bodies are smaller and reserve no memory. */
const FIRST_BYTES = 16_384;
/** Time limit for a body of at most AT_ONCE_MAX_BYTES, and for the first AT_ONCE_MAX_BYTES of a body of unknown length. */
export const SMALL_BODY_MS = 30_000;

/** Deflate compresses at most so well: a 258-byte match in two bits. */
const DEFLATE_MAX_RATIO = 1_032;

export type BodyProblem = BodyRejection | (Unavailable & Described) | ReturnType<typeof tooFast>;

interface ReadBodyOptions {
  maxBytes: number;
  /** The workspace of the caller, see workspace-share.ts. */
  holder: string;
  rate: RequestRate;
  /** The API key of the call. */
  key?: string;
}

type ReadBody =
  | {
      ok: true;
      /** Without a byte order mark. */
      bytes: Uint8Array;
      /** Frees the memory and the turn of the body. The caller calls it after the body is stored or rejected. */
      release: () => void;
    }
  | {
      ok: false;
      rejection: BodyProblem;
      /** Read and unpacked in spite of the failure. */
      bytes: number;
    };

type Cause = "too_large" | "too_slow" | "unreadable" | keyof typeof OVERLOADED | { waitMs: number };

interface Unread {
  cause: Cause;
  bytes: number;
}

const OVERLOADED = {
  too_many_open: "too many requests of the key or the workspace were open whose bodies had not arrived",
  no_memory: "too many large bodies came at once",
  no_turn: `too many bodies of more than ${LARGE_BODY_BYTES} bytes of the workspace came at once`,
};
const TOO_SLOW =
  `Nothing was stored: the body arrived too slowly, and was given up. Its first ${AT_ONCE_MAX_BYTES} bytes have ` +
  `${SMALL_BODY_MS / 1_000} seconds, and a larger body needs ${LARGE_BODY_MIN_BYTES_PER_SECOND} bytes a second. Send it again, in ` +
  "smaller parts or compressed.";

export async function readBody(request: Request, options: ReadBodyOptions): Promise<ReadBody> {
  const encoding = request.headers.get("content-encoding")?.trim().toLowerCase() ?? "identity";
  const gzip = encoding === "gzip" || encoding === "x-gzip";
  if (!gzip && encoding !== "identity" && encoding !== "") {
    const detail = "The body's Content-Encoding is not supported. Send it plain or with Content-Encoding: gzip.";
    return { ...reject({ code: "content_encoding_unsupported", detail }), bytes: 0 };
  }
  const reading = new BodyReading(request, options);
  let read: Uint8Array | Unread;
  try {
    read = await reading.read(gzip);
  } catch (error) {
    read = { cause: error instanceof TimeLimitExceeded ? "too_slow" : "unreadable", bytes: 0 };
  }
  if (read instanceof Uint8Array) return { ok: true, bytes: withoutByteOrderMark(read), release: reading.release };
  reading.release();
  return { ...reject(rejectionOf(read, { gzip, maxBytes: options.maxBytes })), bytes: read.bytes };
}

class BodyReading {
  readonly #request: Request;
  readonly #options: ReadBodyOptions;
  readonly #reservation: MemoryReservation;
  #turn: Lease | null = null;

  constructor(request: Request, options: ReadBodyOptions) {
    this.#request = request;
    this.#options = options;
    this.#reservation = new MemoryReservation(options.holder);
  }

  readonly release = (): void => {
    this.#reservation.release();
    this.#turn?.release();
  };

  async read(gzip: boolean): Promise<Uint8Array | Unread> {
    const { maxBytes, holder, key } = this.#options;
    const header = this.#request.headers.get("content-length");
    // A header that is no number says nothing.
    const declared = header !== null && /^\d+$/.test(header) ? Number(header) : null;
    if (declared !== null && declared > maxBytes) return { cause: "too_large", bytes: 0 };
    // Rejects before the bytes arrive, if their number is known.
    const early = this.#tooFast(declared ?? 0);
    if (early !== null) return early;
    const nowMs = Date.now();
    const open = openBody(holder, key, nowMs, SMALL_BODY_MS + LARGE_BODY_PART_MS);
    if (open === null) return { cause: "too_many_open", bytes: 0 };
    let sent: Uint8Array | Unread;
    try {
      sent = await this.#receive(declared, nowMs);
    } finally {
      open.release();
    }
    if (!(sent instanceof Uint8Array)) {
      if (sent.cause === "too_large") this.#charge(sent.bytes, 0);
      return sent;
    }
    if (gzip) return this.#gunzip(sent);
    return (await this.#begin(sent.byteLength)) ?? sent;
  }

  /** @returns the problem if the workspace has sent more bytes than its share allows. */
  #tooFast(bytes: number): Unread | null {
    if (bytes <= REQUEST_BODY_BYTES) return null;
    const waitMs = bodyWaitMs(this.#options.holder, Date.now(), this.#options.rate);
    return waitMs === 0 ? null : { cause: { waitMs }, bytes };
  }

  /**
   * Charges the bytes before they are unpacked or parsed. A large body waits for its turn.
   * @param bytes decompressed. @returns the problem; null: none.
   */
  async #begin(bytes: number): Promise<Unread | null> {
    const early = this.#tooFast(bytes);
    if (early !== null) return early;
    if (bytes > LARGE_BODY_BYTES && this.#turn === null) {
      this.#turn = await turnOfLargeBody(this.#options.holder, bytes);
      if (this.#turn === null) return { cause: "no_turn", bytes };
      const late = this.#tooFast(bytes);
      if (late !== null) return late;
    }
    this.#charge(bytes, 0);
    return null;
  }

  /** @param charged bytes that are charged already. */
  #charge(bytes: number, charged: number): void {
    const { holder, rate } = this.#options;
    chargeBody(holder, requestsOfBody(bytes) - requestsOfBody(charged), Date.now(), rate);
  }

  async #receive(declared: number | null, startedMs: number): Promise<Uint8Array | Unread> {
    const isAtOnce = declared !== null && declared <= AT_ONCE_MAX_BYTES;
    // Reserves memory, because many stalled bodies together would take all of it. A larger body reserves part by part.
    const hasRoom = isAtOnce
      ? declared <= FIRST_BYTES || this.#reservation.reserve(declared, startedMs, LARGE_BODY_STORED_MS)
      : declared === null || declared <= this.#reservation.available(startedMs);
    if (!hasRoom) return { cause: "no_memory", bytes: 0 };
    const { body } = this.#request;
    if (body === null || declared === 0) return new Uint8Array();
    // Not `arrayBuffer`, which locks the stream, so that a stalled one could not be cancelled.
    const reader = body.getReader({ mode: "byob" });
    let read: Uint8Array | Unread;
    try {
      const first = await within(SMALL_BODY_MS, readPart(reader, new ArrayBuffer(isAtOnce ? declared : FIRST_BYTES)));
      if (first.byteLength > this.#options.maxBytes) read = { cause: "too_large", bytes: first.byteLength };
      // HTTP enforces a declared length.
      else if (isAtOnce || first.byteLength < FIRST_BYTES) return first;
      else read = await this.#receiveMore(reader, first, declared === null ? startedMs + SMALL_BODY_MS : 0);
    } catch (error) {
      read = { cause: error instanceof TimeLimitExceeded ? "too_slow" : "unreadable", bytes: 0 };
    }
    // A stalled stream may never confirm its cancellation, so nothing waits for that.
    if (!(read instanceof Uint8Array)) void reader.cancel().catch(() => undefined);
    return read;
  }

  /**
   * Separate parts would take memory beside the whole. The buffer grows with the received bytes, because a sender may
   * declare much and send nothing.
   *
   * @param untilMs the first part has at least until then.
   */
  async #receiveMore(
    reader: ReadableStreamBYOBReader,
    first: Uint8Array,
    untilMs: number,
  ): Promise<Uint8Array | Unread> {
    const { maxBytes } = this.#options;
    const whole = new ArrayBuffer(first.byteLength, { maxByteLength: maxBytes });
    new Uint8Array(whole).set(first);
    let part = new ArrayBuffer(LARGE_BODY_PART_BYTES);
    for (let partMs = Math.max(LARGE_BODY_PART_MS, untilMs - Date.now()); ; partMs = LARGE_BODY_PART_MS) {
      const filled = whole.byteLength;
      if (!this.#reservation.reserve(Math.min(filled + LARGE_BODY_PART_BYTES, maxBytes), Date.now(), 2 * partMs))
        return { cause: "no_memory", bytes: filled };
      let next: Uint8Array<ArrayBuffer>;
      try {
        // oxlint-disable-next-line no-await-in-loop
        next = await within(partMs, readPart(reader, part));
      } catch (error) {
        return { cause: error instanceof TimeLimitExceeded ? "too_slow" : "unreadable", bytes: filled };
      }
      if (filled + next.byteLength > maxBytes) return { cause: "too_large", bytes: filled + next.byteLength };
      whole.resize(filled + next.byteLength);
      new Uint8Array(whole, filled).set(next);
      if (next.byteLength < LARGE_BODY_PART_BYTES) {
        this.#reservation.reserve(whole.byteLength, Date.now(), LARGE_BODY_STORED_MS);
        return new Uint8Array(whole, 0, whole.byteLength);
      }
      // The reader owns the part's buffer while it fills it.
      part = next.buffer;
    }
  }

  /** Node's gunzip, because the platform's stream rejects bodies of several members, which log shippers send. */
  async #gunzip(compressed: Uint8Array): Promise<Uint8Array | Unread> {
    const { maxBytes } = this.#options;
    if (!isGzip(compressed)) return { cause: "unreadable", bytes: compressed.byteLength };
    const { byteLength } = compressed;
    // A truncated body ends with random bytes instead of its size, so the size is limited to what gzip can reach.
    const declared = Math.min(
      maxBytes,
      DEFLATE_MAX_RATIO * byteLength,
      Math.max(lastMemberBytes(compressed), byteLength),
    );
    const tooLarge: Unread = { cause: "too_large", bytes: maxBytes };
    const limit = Math.min(maxBytes, Math.max(declared, AT_ONCE_MAX_BYTES));
    const unpacked = await this.#unpack(compressed, declared, limit);
    if (unpacked !== null || limit === maxBytes) return unpacked ?? tooLarge;
    // The declared size is of the last member, and there are several.
    return (await this.#unpack(compressed, maxBytes, maxBytes)) ?? tooLarge;
  }

  /**
   * Charges and reserves before unpacking: unpacking 8 MB only to reject them would take as much CPU as accepting them.
   *
   * @param bytes the expected size. @param maxOutputLength a small body may unpack to gigabytes. @returns null: it is larger.
   */
  async #unpack(compressed: Uint8Array, bytes: number, maxOutputLength: number): Promise<Uint8Array | Unread | null> {
    const isLarge = bytes > AT_ONCE_MAX_BYTES;
    if (isLarge && !this.#reservation.reserve(bytes, Date.now(), LARGE_BODY_STORED_MS))
      return { cause: "no_memory", bytes: compressed.byteLength };
    const problem = await this.#begin(bytes);
    if (problem !== null) return problem;
    try {
      // A static import would make the start of an isolate twice as long.
      const unpacked = process.getBuiltinModule("node:zlib").gunzipSync(compressed, { maxOutputLength });
      this.#charge(unpacked.byteLength, bytes);
      if (unpacked.byteLength <= AT_ONCE_MAX_BYTES) this.#reservation.release();
      return unpacked;
    } catch (error) {
      return error instanceof RangeError ? null : { cause: "unreadable", bytes };
    }
  }
}

async function readPart(reader: ReadableStreamBYOBReader, part: ArrayBuffer): Promise<Uint8Array<ArrayBuffer>> {
  const { value = new Uint8Array() } = await reader.readAtLeast(part.byteLength, new Uint8Array(part));
  return value;
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

function rejectionOf({ cause, bytes }: Unread, { gzip, maxBytes }: { gzip: boolean; maxBytes: number }): BodyProblem {
  if (typeof cause === "object") return tooFast(cause.waitMs, requestsOfBody(bytes));
  switch (cause) {
    case "too_many_open":
    case "no_memory":
    case "no_turn":
      return {
        code: "unavailable",
        retryAfterMs: RETRY_MIN_SECONDS * 1_000,
        detail: `Nothing was stored: ${OVERLOADED[cause]}. Send the same request again after Retry-After seconds.`,
      };
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
