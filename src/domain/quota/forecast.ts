/** Forecast of when a billing period's usage reaches the limit, from the recent pace (spec §8). */
import { DAY_MS, utcDay } from "../duration.ts";
import { ordinalsTaken } from "./quota.ts";
import { signalsPerDay, type UsageDay } from "./usage-day.ts";

/** Full days that the forecast averages: a week, because traffic has a weekly pattern. */
const FORECAST_DAYS = 7;

const HOUR_MS = 3_600_000;

export interface Pace {
  perDay: number;
  /** Full days in the average; 0: a rough pace over the time since counting began. */
  fullDays: number;
}

/**
 * The pace of the last FORECAST_DAYS full days, or of as many as there are; without one, the pace since the day of the
 * first signal. That day is not full, because the time of the signal is unknown. Null: less than an hour.
 *
 * @param days in order; all of the current period and of the one before it.
 */
export function paceOf(
  days: readonly UsageDay[],
  firstDayMs: number | null,
  now: { nowMs: number; periodStartMs: number; used: number },
): Pace | null {
  const todayMs = utcDay(now.nowMs);
  const beganMs = firstDayMs ?? todayMs;
  const fullDays = signalsPerDay(days, Math.max(todayMs - FORECAST_DAYS * DAY_MS, beganMs + DAY_MS), todayMs);
  if (fullDays.length > 0) return { perDay: sumOf(fullDays) / fullDays.length, fullDays: fullDays.length };
  const [first] = days;
  const elapsedMs = now.nowMs - Math.max(beganMs, first?.periodStartMs ?? now.periodStartMs);
  if (elapsedMs < HOUR_MS) return null;
  const before = days.findLast(({ periodStartMs }) => periodStartMs === now.periodStartMs);
  const today = now.used - (before === undefined ? 0 : ordinalsTaken(before));
  const signals = sumOf(signalsPerDay(days, beganMs, todayMs)) + today;
  return { perDay: (signals * DAY_MS) / elapsedMs, fullDays: 0 };
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}

/** Expected signals at the end of the billing period at this pace, rounded to two digits. */
export function expectedUsage(perDay: number, now: { nowMs: number; periodEndMs: number; used: number }): number {
  const signals = now.used + (perDay * Math.max(0, now.periodEndMs - now.nowMs)) / DAY_MS;
  return Math.max(now.used, Math.round(Number(signals.toPrecision(2))));
}

/** Time at which usage reaches `target`; "reached" if it already has, null if not in this period. */
export function whenReached(
  target: number,
  perDay: number,
  now: { nowMs: number; periodEndMs: number; used: number },
): number | "reached" | null {
  if (now.used >= target) return "reached";
  if (perDay <= 0) return null;
  const atMs = now.nowMs + ((target - now.used) / perDay) * DAY_MS;
  return atMs < now.periodEndMs ? Math.ceil(atMs) : null;
}
