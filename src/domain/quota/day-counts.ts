/** Counts by day for the latest days, in a form small enough for the row that they belong to. */
import { DAYS_COUNTED } from "../../limits.ts";
import { DAY_MS } from "../duration.ts";

/**
 * The latest day with a count (see `dayOf`), its count, and the counts of the preceding days down to the first with a
 * count: `20767,4,0,12`. Empty: no counts.
 */
export type DayCounts = string;

export function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

/** Adds `changes` and keeps DAYS_COUNTED days up to the latest with a count. No count falls below zero. */
export function addToDays(days: DayCounts, changes: ReadonlyMap<number, number>): DayCounts {
  return addToLatest(days, changes) ?? addToAny(days, changes);
}

/** Fifty times as fast as `addToAny`, for the usual batch: only the latest day changes. Null: another day changes. */
function addToLatest(days: DayCounts, changes: ReadonlyMap<number, number>): DayCounts | null {
  const [change] = changes;
  if (change === undefined || changes.size > 1) return null;
  const latest = `${change[0]},`;
  if (!days.startsWith(latest)) return null;
  const comma = days.indexOf(",", latest.length);
  const end = comma === -1 ? days.length : comma;
  const count = Number(days.slice(latest.length, end)) + change[1];
  return count > 0 ? `${latest}${count}${days.slice(end)}` : null;
}

function addToAny(days: DayCounts, changes: ReadonlyMap<number, number>): DayCounts {
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
