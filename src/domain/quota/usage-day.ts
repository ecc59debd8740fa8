/**
 * Usage by day: a billing period's counts as they stood at the end of each UTC day. A day on which nothing came has no
 * entry; it ends as the one before it did.
 */

import { DAY_MS } from "../duration.ts";
import { NO_VERDICTS, ordinalsTaken, verdictCounts, type VerdictCounts } from "./quota.ts";

/** The counts at the end of a day. The day in which one period ends and the next begins has an entry for each. */
export interface UsageDay extends VerdictCounts {
  periodStartMs: number;
  /** Midnight at which the day began, UTC. */
  dayMs: number;
}

/** Counts of a period that goes on; `dayMs` is the day of the last signal counted. */
export type Counting = UsageDay;

export function utcDay(ms: number): number {
  return Math.floor(ms / DAY_MS) * DAY_MS;
}

/** The day that is counted now. A clock that goes back does not open an ended day again. */
export function countingDay(dayMs: number, nowMs: number): number {
  return Math.max(dayMs, utcDay(nowMs));
}

/** The entry to be written now: null on the same day, and where nothing has been counted. */
export function endedDay(counting: Counting, nowMs: number): UsageDay | null {
  return counting.dayMs < utcDay(nowMs) ? lastDay(counting) : null;
}

/** The last entry of a period that closes; null when it was idle. */
export function lastDay(counting: Counting): UsageDay | null {
  const { periodStartMs, dayMs } = counting;
  const isIdle = ordinalsTaken(counting) + counting.rejected === 0;
  return isIdle ? null : { ...verdictCounts(counting), periodStartMs, dayMs };
}

/** A point of a period's curve. */
export interface CurvePoint extends VerdictCounts {
  atMs: number;
}

/**
 * A period's curve: nothing at its start, then the end of each day, idle ones too, and where it stands now.
 *
 * @param days in order; those of other periods are ignored.
 * @param now the counts at `nowMs`.
 */
export function usageCurve(
  days: readonly UsageDay[],
  periodStartMs: number,
  now: VerdictCounts & { nowMs: number },
): CurvePoint[] {
  const ends = new Map(days.filter((day) => day.periodStartMs === periodStartMs).map((day) => [day.dayMs, day]));
  let last: VerdictCounts = NO_VERDICTS;
  const point = (atMs: number, counts: VerdictCounts): CurvePoint => ({ atMs, ...verdictCounts(counts) });
  const curve = [point(periodStartMs, last)];
  for (let dayMs = utcDay(periodStartMs); dayMs + DAY_MS <= now.nowMs; dayMs += DAY_MS) {
    last = ends.get(dayMs) ?? last;
    curve.push(point(dayMs + DAY_MS, last));
  }
  curve.push(point(now.nowMs, now));
  return curve;
}

/**
 * Signals that took an ordinal (accepted and held) on each day from `fromMs`, up to and without `toMs`.
 *
 * @param days in order; of each period that reaches into these days, all entries.
 */
export function signalsPerDay(days: readonly UsageDay[], fromMs: number, toMs: number): number[] {
  const perDay = Array.from({ length: Math.max(0, (toMs - fromMs) / DAY_MS) }, () => 0);
  let before = { periodStartMs: Number.NaN, used: 0 };
  for (const day of days) {
    const { periodStartMs, dayMs } = day;
    const used = ordinalsTaken(day);
    const added = used - (before.periodStartMs === periodStartMs ? before.used : 0);
    const index = (dayMs - fromMs) / DAY_MS;
    if (index >= 0 && index < perDay.length) perDay[index] = (perDay[index] ?? 0) + added;
    before = { periodStartMs, used };
  }
  return perDay;
}
