/** The counts of a billing period at the end of each UTC day. An idle day has no entry: its counts are those before. */
import { DAY_MS, utcDay } from "../duration.ts";
import { addVerdicts, eachVerdict, NO_VERDICTS, ordinalsTaken, verdictCounts, type VerdictCounts } from "./quota.ts";

/** The counts at the end of a day. A day in which one period ends and the next begins has an entry for each. */
export interface UsageDay extends VerdictCounts {
  periodStartMs: number;
  dayMs: number;
}

/** Null: the period was idle. */
export function entryOf(counting: UsageDay): UsageDay | null {
  const { periodStartMs, dayMs } = counting;
  const counts = verdictCounts(counting);
  return Object.values(counts).every((count) => count === 0) ? null : { ...counts, periodStartMs, dayMs };
}

export interface CurvePoint extends VerdictCounts {
  atMs: number;
}

/** A period's counts: zero at its start, at the end of each day, idle ones included, and now. @param days in order. */
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
 * Counts of each day from `fromMs` (inclusive) to `toMs` (exclusive), each a day's first moment. A release of held signals
 * lowers the held count of its day; such a count is shown as 0.
 *
 * @param days in order; all entries of each period that overlaps these days, and the present counts as the last entry.
 */
export function verdictsPerDay(days: readonly UsageDay[], fromMs: number, toMs: number): CurvePoint[] {
  return increases(days, fromMs, toMs, 0);
}

/** Accepted and held signals on each day until `toMs`. @param days in order; whole periods that overlap these days. */
export function signalsPerDay(days: readonly UsageDay[], fromMs: number, toMs: number): number[] {
  return increases(days, fromMs, toMs, -Infinity).map(ordinalsTaken);
}

/** @param least a smaller increase counts as this much. */
function increases(days: readonly UsageDay[], fromMs: number, toMs: number, least: number): CurvePoint[] {
  const perDay = Array.from({ length: Math.max(0, (toMs - fromMs) / DAY_MS) }, (_, index) => {
    return { atMs: fromMs + index * DAY_MS, ...NO_VERDICTS };
  });
  for (const [index, day] of days.entries()) {
    const before = days[index - 1];
    const start = before?.periodStartMs === day.periodStartMs ? before : NO_VERDICTS;
    const increase = eachVerdict((verdict) => Math.max(least, day[verdict] - start[verdict]));
    const counts = perDay[(day.dayMs - fromMs) / DAY_MS];
    if (counts !== undefined) addVerdicts(counts, increase);
  }
  return perDay;
}
