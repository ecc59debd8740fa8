/**
 * When a signal occurred, from its payload (design §8.6). The time of receipt decides quota, duplicates, identity and retention; the time
 * of occurrence decides first and last seen, curves, the day of a once-a-day rule, and when points lapse.
 */
import { isJsonObject } from "../json/dot-path.ts";
import { isAbsent, type JsonObject } from "../json/json-value.ts";
import { cdpCallType } from "./normalise.ts";

/** The field that the time came from. `received`: no field has a usable time. Append only: stored lines hold the index. */
export const OCCURRED_FROM = ["received", "timestamp", "originalTimestamp", "occurred_at"] as const;
export type OccurredFrom = (typeof OCCURRED_FROM)[number];

/** Of a CDP call, and of other signals. */
const CDP_TIME_FIELDS = ["timestamp", "originalTimestamp"] as const;
const TIME_FIELDS = [...CDP_TIME_FIELDS, "occurred_at"] as const;

export interface Occurred {
  /** Milliseconds since 1970, never after the receipt. */
  ms: number;
  from: OccurredFrom;
}

/** An earlier time is a mistake of the sender, such as a missing time that was written as 0. */
const EARLIEST_MS = Date.UTC(2000, 0, 1);
/** A lower number is in seconds: as milliseconds it would be in 1973 or before. */
const LOWEST_MS = 1e11;
const DATE_TIME = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2})?)(?:[.,](\d+))? ?(Z|[+-]\d{2}:?\d{2})?)?$/i;
const DIGITS = /^\d{9,16}(?:\.\d+)?$/;

/**
 * The first usable time: `timestamp`; else `originalTimestamp`, corrected by the clock difference that the CDP measured; else
 * `occurred_at` of a universal signal; else the receipt. A time after the receipt counts as the receipt.
 */
export function occurredAt(payload: JsonObject, receivedAtMs: number): Occurred {
  for (const from of timeFieldsOf(payload)) {
    const ms = from === "originalTimestamp" ? correctedTime(payload) : readTime(payload[from]);
    if (ms !== null && ms >= EARLIEST_MS) return { ms: Math.min(ms, receivedAtMs), from };
  }
  return { ms: receivedAtMs, from: "received" };
}

/** The fields that may hold the time, the first choice first. */
function timeFieldsOf(payload: JsonObject): readonly OccurredFrom[] {
  return cdpCallType(payload) === undefined ? TIME_FIELDS : CDP_TIME_FIELDS;
}

/** The sender's clock may be wrong: the CDP stamped `receivedAt` when the sender's clock said `sentAt`. */
function correctedTime({ originalTimestamp, receivedAt, sentAt }: JsonObject): number | null {
  const original = readTime(originalTimestamp);
  const [received, sent] = [readTime(receivedAt), readTime(sentAt)];
  return original === null || received === null || sent === null ? original : original + received - sent;
}

/** Reads ISO 8601 (without an offset: UTC), or a number of milliseconds or seconds since 1970. Null: unreadable. */
export function readTime(value: unknown): number | null {
  if (isAbsent(value)) return null;
  if (typeof value === "number") return timeOfNumber(value);
  if (typeof value !== "string") return null;
  const text = value.trim();
  return DIGITS.test(text) ? timeOfNumber(Number(text)) : timeOfText(text);
}

function timeOfNumber(value: number): number | null {
  const ms = Math.floor(value < LOWEST_MS ? value * 1_000 : value);
  return Number.isSafeInteger(ms) ? ms : null;
}

function timeOfText(text: string): number | null {
  const [, year = "", month = "", day = "", clock = "00:00", fraction = "0", zone = "Z"] = DATE_TIME.exec(text) ?? [];
  // Date.parse makes March 1 of February 30.
  if (new Date(Date.UTC(Number(year), Number(month) - 1, Number(day))).getUTCDate() !== Number(day)) return null;
  const seconds = clock.length === 5 ? `${clock}:00` : clock;
  const offset = zone.length === 5 ? `${zone.slice(0, 3)}:${zone.slice(3)}` : zone.toUpperCase();
  const ms = Date.parse(`${year}-${month}-${day}T${seconds}.${fraction.slice(0, 3).padEnd(3, "0")}${offset}`);
  return Number.isNaN(ms) ? null : ms;
}

/** Explains in a sentence why a time of a payload is not used. Null: the first time is used, or there is none. */
export function timeProblemOf(payload: unknown): string | null {
  if (!isJsonObject(payload)) return null;
  const name = timeFieldsOf(payload).find((field) => !isAbsent(payload[field]));
  if (name === undefined) return null;
  const ms = readTime(payload[name]);
  if (ms === null) return `Its \`${name}\` cannot be read: send ISO 8601, or milliseconds since 1970.`;
  return ms < EARLIEST_MS ? `Its \`${name}\` is before the year 2000, so it is not used.` : null;
}
