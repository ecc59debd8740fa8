/** Design §8.2: what makes two signals the same, as text to hash. The caller hashes; the store keeps the window. */
import { DUPLICATE_WINDOW_WITH_ID_MS, DUPLICATE_WINDOW_WITHOUT_ID_MS } from "../../limits.ts";
import { isJsonObject } from "../json/dot-path.ts";
import { isAbsent } from "./present-text.ts";
import type { JsonObject } from "../json/json-object.ts";
import type { NormalisedSignal } from "./signal.ts";
import { WrittenNumber, asWritten } from "../json/written-number.ts";

/** Top-level fields that a CDP sets anew with every delivery of the same event. */
const DELIVERY_FIELDS: ReadonlySet<string> = new Set(["sentAt", "receivedAt", "_metadata"]);

/**
 * JSON text that is the same for the same payload: keys sorted by UTF-16 code units, no white space, without the
 * top-level delivery fields. Recursive: the edge has refused what is deeper than SIGNAL_MAX_DEPTH.
 *
 * @param payload as JSON.parse makes it, or as it was written (written-number.ts).
 */
export function canonicalForm(payload: unknown): string {
  return write(payload, DELIVERY_FIELDS);
}

/** JSON text that is the same for the same value, with nothing left out. */
export function canonicalJson(value: unknown): string {
  return write(value, undefined);
}

function write(value: unknown, without: ReadonlySet<string> | undefined): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "number") return writeNumber(value);
  if (typeof value === "boolean") return value ? "true" : "false";
  let separator = "";
  if (Array.isArray(value)) {
    let elements = "[";
    for (const element of value) {
      elements += separator + write(element, undefined);
      separator = ",";
    }
    return elements + "]";
  }
  if (value instanceof WrittenNumber) return value.decimal;
  if (!isJsonObject(value)) return "null";
  let members = "{";
  for (const key of Object.keys(value).sort()) {
    if (without?.has(key)) continue;
    members += separator + JSON.stringify(key) + ":" + write(value[key], undefined);
    separator = ",";
  }
  return members + "}";
}

/** A number as JSON. JSON.parse makes `Infinity` of 1e999, of which JSON.stringify would make `null`. */
function writeNumber(value: number): string {
  if (Number.isFinite(value)) return JSON.stringify(value);
  return value > 0 ? "1e999" : "-1e999";
}

export interface DuplicateCandidate {
  payload: JsonObject;
  /** The payload as it was sent. */
  text: string;
  normalised: NormalisedSignal;
  pathSource: string | undefined;
  /** The request's `Idempotency-Key` together with the index in the batch. */
  idempotencyKey: string | undefined;
}

export interface DuplicateKey {
  /** What is to be hashed. */
  text: string;
  windowMs: number;
}

/**
 * What to hash, and for how long the same hash means a duplicate; null where the signal can be none. In this order:
 * idempotency key → id of its own → names nobody, or says again who somebody is (never a duplicate) → the same content
 * within minutes. The first line tells keys from payloads, so that neither can pass for the other.
 */
export function duplicateKey(candidate: DuplicateCandidate): DuplicateKey | null {
  const { payload, text, normalised, pathSource, idempotencyKey } = candidate;
  if (idempotencyKey !== undefined) return idempotencyDuplicateKey(idempotencyKey);
  if (!normalised.hasOwnId && (!namesSomebody(normalised) || isLatestWord(normalised, payload))) return null;
  return {
    text: `payload\n${JSON.stringify(pathSource ?? null)}\n${canonicalForm(asWritten(payload, text))}`,
    windowMs: normalised.hasOwnId ? DUPLICATE_WINDOW_WITH_ID_MS : DUPLICATE_WINDOW_WITHOUT_ID_MS,
  };
}

/** The duplicate key of a signal with an idempotency key, and of an account update, which can have no other. */
export function idempotencyDuplicateKey(idempotencyKey: string): DuplicateKey {
  return { text: `idempotency-key\n${idempotencyKey}`, windowMs: DUPLICATE_WINDOW_WITH_ID_MS };
}

function namesSomebody(signal: NormalisedSignal): boolean {
  return signal.email !== undefined || signal.userId !== undefined || signal.anonymousId !== undefined;
}

/**
 * Whether a call is an identify that tells no time. Such a one with the same content need not be the same call: an id that
 * was given to somebody else meanwhile, or a trait that was changed, is changed back by it. Done twice it does no harm.
 */
function isLatestWord({ kind }: NormalisedSignal, { originalTimestamp, timestamp }: JsonObject): boolean {
  return kind === "identify" && isAbsent(originalTimestamp) && isAbsent(timestamp);
}
