/** Design §8.2: duplicate detection. The caller hashes the text, and the store keeps the window. */
import { DUPLICATE_WINDOW_WITH_ID_MS, DUPLICATE_WINDOW_WITHOUT_ID_MS } from "../../limits.ts";
import { isJsonObject } from "../json/dot-path.ts";
import { isAbsent, type JsonObject } from "../json/json-value.ts";
import type { NormalisedSignal } from "./signal.ts";

/** Top-level fields that a CDP sets anew with every delivery of the same event. */
export const DELIVERY_FIELDS: ReadonlySet<string> = new Set(["sentAt", "receivedAt", "_metadata"]);

/**
 * The same JSON text for the same value: keys sorted by UTF-16 code units, no white space. Recursive, because no payload
 * is deeper than SIGNAL_MAX_DEPTH.
 *
 * @param value the result of JSON.parse or `asWritten`.
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
  if (value instanceof WrittenNumber) return value.decimal;
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
  payload: JsonObject;
  /** The payload as sent. */
  text: string;
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
  const { payload, text, normalised, pathSource, idempotencyKey } = candidate;
  if (idempotencyKey !== undefined) return idempotencyDuplicateKey(idempotencyKey);
  if (!normalised.hasOwnId && (!namesSomebody(normalised) || isIdentifyWithoutTime(normalised, payload))) return null;
  return {
    text: `payload\n${JSON.stringify(pathSource ?? null)}\n${canonicalJson(asWritten(payload, text), DELIVERY_FIELDS)}`,
    windowMs: normalised.hasOwnId ? DUPLICATE_WINDOW_WITH_ID_MS : DUPLICATE_WINDOW_WITHOUT_ID_MS,
  };
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

/**
 * A number that JSON.parse has rounded. JSON.parse makes the same number of 9007199254740993 and 9007199254740992, which
 * are two ids.
 */
class WrittenNumber {
  /** The number as sent, in the form of `decimalOf`. */
  readonly decimal: string;

  constructor(decimal: string) {
    this.decimal = decimal;
  }
}

/** Only numbers of more than 15 digits can have been rounded. */
const LONG = /[\d.]{16}/;

/** Replaces each rounded number of the payload by a WrittenNumber. Parses the text again only if it has long numbers. */
export function asWritten(payload: unknown, text: string): unknown {
  if (!LONG.test(text)) return payload;
  return JSON.parse(text, (_, value: unknown, context?: { source?: string }) => {
    const source = context?.source;
    if (typeof value !== "number" || source === undefined || !LONG.test(source)) return value;
    const sent = decimalOf(source);
    return sent === decimalOf(String(value)) ? value : new WrittenNumber(sent);
  });
}

/** The same text for the same number, however it was written: `123e2` for 12300 and for 1.23e4. */
function decimalOf(number: string): string {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(number) ?? [];
  const digits = (whole + fraction).replace(/^0+/, "");
  // A loop, because /0+$/ would retry at each zero of a long run.
  let end = digits.length;
  while (digits[end - 1] === "0") end--;
  if (end === 0) return "0";
  return `${sign}${digits.slice(0, end)}e${Number(exponent) - fraction.length + digits.length - end}`;
}
