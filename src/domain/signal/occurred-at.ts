/**
 * When a signal occurred, from its payload. The time of receipt decides quota, duplicates, identity and retention; the time
 * of occurrence decides first and last seen, curves, the day of a once-a-day rule, and when points lapse.
 */
import { isJsonObject, isAbsent, WrittenNumber, type JsonObject } from "../json/json-value.ts";
import { cdpCallType } from "./normalise.ts";

/** The field that the time came from. `received`: no field has a usable time. Append only: stored lines hold the index. */
export const OCCURRED_FROM = ["received", "timestamp", "originalTimestamp", "occurred_at"] as const;
export type OccurredFrom = (typeof OCCURRED_FROM)[number];

/** The fields that may hold the time of a CDP call. */
const CDP_TIME_FIELDS = ["timestamp", "originalTimestamp"] as const;
/** The fields that may hold the time of another signal. */
const TIME_FIELDS = [...CDP_TIME_FIELDS, "occurred_at"] as const;

export interface Occurred {
  /** Milliseconds since 1970, never after the receipt. */
  ms: number;
  from: OccurredFrom;
}

/** An earlier time is a mistake of the sender, such as a missing time that was written as 0. */
const EARLIEST_MS = Date.UTC(2000, 0, 1);
/** A sender's clock may be ahead by this much. A later time is a mistake. */
const AHEAD_MAX_MS = 10 * 60_000;
/** The units of a number since 1970: the first whose limit is above the number. As milliseconds, a time in seconds would be in 1973. */
const UNITS: readonly (readonly [below: number, perMs: number])[] = [
  [1e11, 1e-3],
  [1e14, 1],
  [1e17, 1e3],
  [1e20, 1e6],
];
/** ISO 8601 in its extended and its basic form. The offset may have hours alone, as PostgreSQL writes it. */
const OFFSET = String.raw` ?(Z|[+-]\d{2}(?::?\d{2})?)?`;
const EXTENDED = new RegExp(
  String.raw`^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):?(\d{2})?(?::?(\d{2}))?(?:[.,](\d+))?${OFFSET})?$`,
  "i",
);
const BASIC = new RegExp(String.raw`^(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})?(\d{2})?(?:[.,](\d+))?${OFFSET}$`, "i");
const DIGITS = /^\d{9,19}(?:\.\d+)?$/;

/**
 * The first usable time: `timestamp`; else `originalTimestamp`, corrected by the clock difference that the CDP measured; else
 * `occurred_at` of a universal signal; else the receipt. A time a little after the receipt counts as the receipt.
 */
export function occurredAt(payload: JsonObject, receivedAtMs: number): Occurred {
  for (const from of timeFieldsOf(payload)) {
    const ms = from === "originalTimestamp" ? correctedTime(payload) : readTime(payload[from]);
    if (ms !== null && problemOf(ms, receivedAtMs) === null) return { ms: Math.min(ms, receivedAtMs), from };
  }
  return { ms: receivedAtMs, from: "received" };
}

/** Why a time cannot be used; null: it can. */
function problemOf(ms: number, receivedAtMs: number): string | null {
  if (ms < EARLIEST_MS) return "is before the year 2000";
  return ms > receivedAtMs + AHEAD_MAX_MS ? "is more than ten minutes after the receipt" : null;
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

/** Reads ISO 8601 (without an offset: UTC), or a number of seconds, milli-, micro- or nanoseconds since 1970. Null: unreadable. */
export function readTime(value: unknown): number | null {
  if (isAbsent(value)) return null;
  if (typeof value === "number") return timeOfNumber(value);
  if (value instanceof WrittenNumber) return timeOfNumber(value.rounded);
  if (typeof value !== "string") return null;
  const text = value.trim();
  return DIGITS.test(text) ? timeOfNumber(Number(text)) : timeOfText(text);
}

function timeOfNumber(value: number): number | null {
  const unit = UNITS.find(([below]) => value < below);
  const ms = unit === undefined ? Number.NaN : Math.floor(value / unit[1]);
  return Number.isSafeInteger(ms) ? ms : null;
}

function timeOfText(text: string): number | null {
  const [, year = "", month = "", day = "", hours = "00", minutes = "00", seconds = "00", fraction = "0", zone = "Z"] =
    EXTENDED.exec(text) ?? BASIC.exec(text) ?? [];
  // Date.parse makes March 1 of February 30.
  if (new Date(Date.UTC(Number(year), Number(month) - 1, Number(day))).getUTCDate() !== Number(day)) return null;
  const [hour, minute] = [zone.slice(0, 3), zone.slice(3).replace(":", "") || "00"];
  const offset = zone.length === 1 ? "Z" : `${hour}:${minute}`;
  // A leap second.
  const second = seconds === "60" ? "59" : seconds;
  const clock = `${hours}:${minutes}:${second}.${fraction.slice(0, 3).padEnd(3, "0")}`;
  const ms = Date.parse(`${year}-${month}-${day}T${clock}${offset}`);
  return Number.isNaN(ms) ? null : ms;
}

/** Explains in a sentence why a time of a payload is not used. Null: the first time is used, or there is none. */
export function timeProblemOf(payload: unknown, receivedAtMs: number): string | null {
  if (!isJsonObject(payload)) return null;
  const name = timeFieldsOf(payload).find((field) => !isAbsent(payload[field]));
  if (name === undefined) return null;
  const ms = readTime(payload[name]);
  if (ms === null) return `Its \`${name}\` cannot be read: send ISO 8601, or milliseconds since 1970.`;
  const problem = problemOf(ms, receivedAtMs);
  return problem === null ? null : `Its \`${name}\` ${problem}, so it is not used.`;
}
