/** UTC days, and counts by day. */
import { DAYS_COUNTED } from "../limits.ts";

/** A UTC day; all UTC days have the same length. */
export const DAY_MS = 24 * 3_600_000;

/** The number of a UTC day since 1970. */
export function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

/** The first moment of a UTC day. */
export function utcDay(ms: number): number {
  return Math.floor(ms / DAY_MS) * DAY_MS;
}

// Counts by day for the latest days, in a form small enough for the row that they belong to.

/**
 * The latest day with a count, that count, and the counts of the days before it, down to the earliest above zero:
 * `20767,4,0,12`. Empty: no counts.
 */
export type DayCounts = string;

/** Keeps DAYS_COUNTED days up to the latest with a count. No count falls below zero. */
export function addToDays(days: DayCounts, changes: ReadonlyMap<number, number>): DayCounts {
  const [before, counts] = parse(days);
  const first = Math.min(before - counts.length + 1, ...changes.keys());
  const sum = (day: number) => Math.max(0, (counts[before - day] ?? 0) + (changes.get(day) ?? 0));
  let latest = Math.max(before, ...changes.keys());
  while (latest >= first && sum(latest) === 0) latest--;
  if (latest < first) return "";
  const kept = Array.from({ length: Math.min(DAYS_COUNTED, latest - first + 1) }, (_, ago) => sum(latest - ago));
  return [latest, ...kept.slice(0, kept.findLastIndex((count) => count > 0) + 1)].join(",");
}

/** The counts of `length` days up to `today`, the oldest first. */
export function latestDays(days: DayCounts, today: number, length: number): number[] {
  const [latest, counts] = parse(days);
  return Array.from({ length }, (_, index) => counts[latest - (today - length + 1 + index)] ?? 0);
}

function parse(days: DayCounts): [latest: number, counts: number[]] {
  const [latest = 0, ...counts] = days.split(",").map(Number);
  return [latest, counts];
}

/** Whether a time that is at most `mostMs` ahead is still to come. If it is further ahead, the clock was set back, and nothing waits for it. */
export function isBefore(untilMs: number, nowMs: number, mostMs: number): boolean {
  return nowMs < untilMs && untilMs - nowMs <= mostMs;
}
