/** Numbers, times and addresses as the pages show them. */
import { DAY_MS } from "../../domain/duration.ts";
import { readTokenActor } from "../../domain/keys/api-token.ts";
import { counted, grouped } from "../../domain/text.ts";

// Always a number: "yesterday" would be wrong for 47 hours ago.
const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "always" });
/** Each unit with the least time, after rounding, that is said in it: up to 90 days are days. */
const UNITS = [
  ["year", 365 * DAY_MS, 2 * 365 * DAY_MS],
  ["month", 30 * DAY_MS, 91 * DAY_MS],
  ["day", DAY_MS, DAY_MS],
  ["hour", 3_600_000, 3_600_000],
  ["minute", 60_000, 60_000],
] as const;
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const DATE = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeZone: "UTC" });
const TIME = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: "UTC" });
const EXACT = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium", timeZone: "UTC" });

/** Such as `3 minutes ago`, `in 2 days`, `just now`. */
export function ago(ms: number, nowMs: number): string {
  const apart = ms - nowMs;
  for (const [unit, unitMs, leastMs] of UNITS) {
    const rounded = Math.round(apart / unitMs);
    if (Math.abs(rounded) * unitMs >= leastMs) return RELATIVE.format(rounded, unit);
  }
  return apart > 0 ? "in less than a minute" : "just now";
}

/** Such as `Nov 21, 2026, 10:35:12 AM UTC`. */
export function exactTime(ms: number): string {
  return `${EXACT.format(ms)} UTC`;
}

/** In UTC, such as `Nov 21, 2026`. */
export function day(ms: number): string {
  return DATE.format(ms);
}

/** In UTC, such as `23:06:54.100`. */
export function clock(ms: number): string {
  return new Date(ms).toISOString().slice(11, 23);
}

/** Time between two steps, such as `+1.07 s` or `+3 min`. */
export function later(ms: number): string {
  if (ms < 120_000) return `+${(ms / 1_000).toFixed(2)} s`;
  if (ms < 2 * 3_600_000) return `+${Math.round(ms / 60_000)} min`;
  return ms < 2 * DAY_MS ? `+${Math.round(ms / 3_600_000)} h` : `+${Math.round(ms / DAY_MS)} days`;
}

/** In UTC, such as `10:35`. */
export function timeOfDay(ms: number): string {
  return TIME.format(ms);
}

export { counted, grouped };

/** Such as `the last day` or `the last 30 days`. */
export function theLast(count: number, noun: string): string {
  return count === 1 ? `the last ${noun}` : `the last ${counted(count, noun)}`;
}

/** Such as `€12.50`; less than a cent has as many digits as it takes to see it. */
export function money(amount: number, currency: string): string {
  const digits = amount > 0 && amount < 0.01 ? { maximumSignificantDigits: 2 } : {};
  return new Intl.NumberFormat("en", { style: "currency", currency, ...digits }).format(amount);
}

/** Such as `12.3K`. */
export function compact(value: number): string {
  return COMPACT.format(value);
}

export function sentence(message: string): string {
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}

/** Such as `+20` or `-5`. */
export function signed(points: number): string {
  return points > 0 ? `+${grouped(points)}` : grouped(points);
}

/** The author of a change, within a sentence: a member's email, the deployer's own systems, or an API token. */
export function authorName(actor: string): string {
  const token = readTokenActor(actor);
  if (token !== null) return `the API token “${token.name}”`;
  return actor === "operator" ? "the operator" : actor;
}

/** A text that is no JSON stays as it is. */
export function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
