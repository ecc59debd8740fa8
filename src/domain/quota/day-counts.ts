/** Counts by day for the latest days, in a form small enough for the row that they belong to. */
import { DAYS_COUNTED } from "../../limits.ts";
import { DAY_MS } from "../duration.ts";

/**
 * The latest day with a count (see `dayOf`), its count, and the counts of the preceding days down to the first with a
 * count: `20767,4,0,12`. Empty: no counts.
 */
export type DayCounts = string;

/** Days since 1970, in UTC. */
export function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

/** Adds `changes` and keeps DAYS_COUNTED days up to the latest with a count. No count falls below zero. */
export function addToDays(days: DayCounts, changes: ReadonlyMap<number, number>): DayCounts {
  return addToLatest(days, changes) ?? addToAny(days, changes);
}

/** Shortcut for most batches: changes only the latest day. Null: another day changes too. */
function addToLatest(days: DayCounts, changes: ReadonlyMap<number, number>): DayCounts | null {
  const [change] = changes;
  if (change === undefined || changes.size > 1) return null;
  const latest = `${change[0]},`;
  if (!days.startsWith(latest)) return null;
  const before = days.indexOf(",", latest.length);
  const end = before === -1 ? days.length : before;
  const count = Number(days.slice(latest.length, end)) + change[1];
  return count > 0 ? `${latest}${count}${days.slice(end)}` : null;
}

function addToAny(days: DayCounts, changes: ReadonlyMap<number, number>): DayCounts {
  const [storedLatest, stored] = parse(days);
  const sum = (day: number) => (stored[storedLatest - day] ?? 0) + (changes.get(day) ?? 0);
  const all = [...stored.map((_, ago) => storedLatest - ago), ...changes.keys()];
  const latest = Math.max(...all.filter((day) => sum(day) > 0));
  if (latest === -Infinity) return "";
  const counts = Array.from({ length: DAYS_COUNTED }, (_, ago) => Math.max(0, sum(latest - ago)));
  return `${latest},${counts.join(",")}`.replace(/(,0)+$/, "");
}

/** The counts of `length` days up to `today`, the oldest first. */
export function latestDays(days: DayCounts, today: number, length: number): number[] {
  const [latest, counts] = parse(days);
  return Array.from({ length }, (_, index) => counts[latest - (today - length + 1 + index)] ?? 0);
}

/** The latest day, and the counts from that day backwards. */
function parse(days: DayCounts): [latest: number, counts: number[]] {
  const [latest = 0, ...counts] = days.split(",").map(Number);
  return [latest, counts];
}
