/** The text by which duplicates are found. The caller hashes the text, and the store keeps the window. */
import { DUPLICATE_WINDOW_WITH_ID_MS, DUPLICATE_WINDOW_WITHOUT_ID_MS } from "../../limits.ts";
import { isAbsent, isJsonObject, WrittenNumber, type JsonObject } from "../json/json-value.ts";
import type { NormalisedSignal } from "./signal.ts";

/** Top-level fields that a CDP sets anew with every delivery of the same event. */
export const DELIVERY_FIELDS: ReadonlySet<string> = new Set(["sentAt", "receivedAt", "_metadata"]);

/**
 * The same JSON text for the same value: keys sorted by UTF-16 code units, no white space. Recursive, because no payload
 * is deeper than SIGNAL_MAX_DEPTH.
 *
 * @param value the result of JSON.parse or `readPayload`.
 * @param without top-level fields to leave out.
 */
export function canonicalJson(value: unknown, without?: ReadonlySet<string>): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "number") return writeNumber(value);
  if (typeof value === "boolean") return value ? "true" : "false";
  let separator = "";
  if (Array.isArray(value)) {
    let elements = "[";
    for (const element of value) {
      elements += separator + canonicalJson(element);
      separator = ",";
    }
    return elements + "]";
  }
  if (value instanceof WrittenNumber) return typeof value.exact === "number" ? writeNumber(value.exact) : value.exact;
  if (!isJsonObject(value)) return "null";
  let members = "{";
  for (const key of Object.keys(value).sort()) {
    if (without?.has(key)) continue;
    members += separator + JSON.stringify(key) + ":" + canonicalJson(value[key]);
    separator = ",";
  }
  return members + "}";
}

/** JSON.parse turns 1e999 into `Infinity`, for which JSON.stringify would write `null`. */
function writeNumber(value: number): string {
  if (Number.isFinite(value)) return JSON.stringify(value);
  return value > 0 ? "1e999" : "-1e999";
}

interface DuplicateCandidate {
  /** As `readPayload` gives it. */
  payload: JsonObject;
  normalised: NormalisedSignal;
  pathSource: string | undefined;
  /** The request's `Idempotency-Key`, with the API key and the index in the batch. */
  idempotencyKey: string | undefined;
}

export interface DuplicateKey {
  text: string;
  windowMs: number;
}

/**
 * The text to hash, and the time for which the same hash means a duplicate; null: the signal is never a duplicate. The
 * first line of the text separates keys from payloads, so that neither can imitate the other.
 */
export function duplicateKey(candidate: DuplicateCandidate): DuplicateKey | null {
  const { payload, normalised, pathSource, idempotencyKey } = candidate;
  if (idempotencyKey !== undefined) return idempotencyDuplicateKey(idempotencyKey);
  if (!normalised.hasOwnId && (!namesSomebody(normalised) || isIdentifyWithoutTime(normalised, payload))) return null;
  return {
    text: `payload\n${JSON.stringify(pathSource ?? null)}\n${canonicalJson(payload, DELIVERY_FIELDS)}`,
    windowMs: normalised.hasOwnId ? DUPLICATE_WINDOW_WITH_ID_MS : DUPLICATE_WINDOW_WITHOUT_ID_MS,
  };
}

/**
 * A mapped id identifies a signal of one sender: vendors use one id for all events of a message (sent, opened, clicked).
 *
 * @param keyId the first key of the rotation chain, so that a rotation repeats no signal.
 */
export function mappedDuplicateKey(signal: { keyId: string; source: string; event: string; id: string }): DuplicateKey {
  const { keyId, source, event, id } = signal;
  return { text: `id\n${JSON.stringify([keyId, source, event, id])}`, windowMs: DUPLICATE_WINDOW_WITH_ID_MS };
}

/** Account updates have no other duplicate key. */
export function idempotencyDuplicateKey(idempotencyKey: string): DuplicateKey {
  return { text: `idempotency-key\n${idempotencyKey}`, windowMs: DUPLICATE_WINDOW_WITH_ID_MS };
}

function namesSomebody(signal: NormalisedSignal): boolean {
  return signal.email !== undefined || signal.userId !== undefined || signal.anonymousId !== undefined;
}

/** A repeated identify without a time may be meant: it may change back a trait, or a person's id. */
function isIdentifyWithoutTime({ kind }: NormalisedSignal, { originalTimestamp, timestamp }: JsonObject): boolean {
  return kind === "identify" && isAbsent(originalTimestamp) && isAbsent(timestamp);
}

/** Bytes of a content hash. In ten million signals a false match has a chance of 1 in 180,000. */
export const HASH_BYTES = 8;
/** The first bit of a hash says whether its duplicate window is long. */
export const LONG_WINDOW = 0x80;

const BASE64URL = { alphabet: "base64url" } as const;
const HASH_CHARACTERS = Math.ceil(HASH_BYTES / 3) * 4;

/** The stored bytes of a content hash. Bytes of a long window never equal bytes of a short window. */
export function hashBytes(contentHash: string, windowMs: number): Uint8Array {
  const bytes = Uint8Array.fromBase64(contentHash.slice(0, HASH_CHARACTERS), BASE64URL).slice(0, HASH_BYTES);
  const [first = 0] = bytes;
  bytes[0] = windowMs > DUPLICATE_WINDOW_WITHOUT_ID_MS ? first | LONG_WINDOW : first & ~LONG_WINDOW;
  return bytes;
}
