/** How often something happened on each of the latest days: small enough to be kept in the row that it is about. */
import { DAYS_COUNTED } from "../limits.ts";
import { DAY_MS } from "./duration.ts";

/** Day (see `dayOf`) → count, days without any left out. */
export type DayCounts = Record<string, number>;

/** Days since 1970, in UTC. */
export function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

/** Counts with `changes` added, of DAYS_COUNTED days up to the latest that has any. None falls below zero. */
export function addToDays(days: DayCounts, changes: ReadonlyMap<number, number>): DayCounts {
  const sums = new Map(Object.entries(days).map(([day, count]) => [Number(day), count] as const));
  for (const [day, by] of changes) sums.set(day, (sums.get(day) ?? 0) + by);
  const counted = [...sums].filter(([, count]) => count > 0);
  const latest = Math.max(...counted.map(([day]) => day));
  return Object.fromEntries(counted.filter(([day]) => day > latest - DAYS_COUNTED));
}

/** The counts of `length` days up to `today`, the oldest first. */
export function latestDays(days: DayCounts, today: number, length: number): number[] {
  return Array.from({ length }, (_, index) => days[today - length + 1 + index] ?? 0);
}
