/** When a billing period's usage will reach the limit if signals go on coming as they did lately (spec §8). */
import { DAY_MS } from "../duration.ts";
import { ordinalsTaken } from "./quota.ts";
import { signalsPerDay, utcDay, type UsageDay } from "./usage-day.ts";

/** Full days whose mean the forecast goes by: a week, as traffic has one. */
const FORECAST_DAYS = 7;

const HOUR_MS = 3_600_000;

/** How many signals come per day, and what that is the mean of. */
export interface Pace {
  perDay: number;
  /** Full days that the mean is of; 0: the pace is of all the time since counting began, and rough. */
  fullDays: number;
}

/**
 * The pace of the last FORECAST_DAYS full days, idle ones too, or of as many as there are. The day of the first signal is no
 * full day: nobody knows when it began. With no full day, it is the pace since that day. Null: that is less than an hour.
 *
 * @param days in order; all of the current period and of the one before it.
 * @param firstDayMs the day of the first signal; null: today.
 * @param now.used accepted and held in the current period.
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

/** How many signals the billing period ends with at this pace: a whole number, rounded to two digits. */
export function expected(perDay: number, now: { nowMs: number; periodEndMs: number; used: number }): number {
  const signals = now.used + (perDay * Math.max(0, now.periodEndMs - now.nowMs)) / DAY_MS;
  return Math.max(now.used, Math.round(Number(signals.toPrecision(2))));
}

/**
 * When `target` signals are reached: a time within the period, `reached` when they are already, null when it will not be
 * in this period.
 */
export function reaches(
  target: number,
  perDay: number,
  now: { nowMs: number; periodEndMs: number; used: number },
): number | "reached" | null {
  if (now.used >= target) return "reached";
  if (perDay <= 0) return null;
  const atMs = now.nowMs + ((target - now.used) / perDay) * DAY_MS;
  return atMs < now.periodEndMs ? Math.ceil(atMs) : null;
}
