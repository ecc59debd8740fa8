/** When a billing period's usage will reach the limit if signals go on coming as they did lately (spec §8). */
import { DAY_MS } from "../duration.ts";
import { signalsPerDay, utcDay, type UsageDay } from "./usage-day.ts";

/** Full days whose mean the forecast goes by: a week, as traffic has one. */
const FORECAST_DAYS = 7;

const HOUR_MS = 3_600_000;

/** How many signals come per day, and what that is the mean of. */
export interface Pace {
  perDay: number;
  /** Full days that the mean is of; 0: the pace is of today alone, and rough. */
  fullDays: number;
}

/**
 * The pace of the last FORECAST_DAYS full days, idle ones too, or of as many as there are; with none, that of today's
 * signals as they would go on. Null: less than an hour of today is all there is.
 *
 * @param days in order; all of the current period and of the one before it.
 * @param now.used accepted and held in the current period.
 * @param firstDayMs when counting began; null: today.
 */
export function paceOf(
  days: readonly UsageDay[],
  firstDayMs: number | null,
  now: { nowMs: number; periodStartMs: number; used: number },
): Pace | null {
  const todayMs = utcDay(now.nowMs);
  const fromMs = Math.max(todayMs - FORECAST_DAYS * DAY_MS, firstDayMs ?? todayMs);
  const perDay = signalsPerDay(days, fromMs, todayMs);
  if (perDay.length > 0)
    return { perDay: perDay.reduce((sum, signals) => sum + signals, 0) / perDay.length, fullDays: perDay.length };
  const elapsedMs = now.nowMs - Math.max(todayMs, now.periodStartMs);
  return elapsedMs < HOUR_MS ? null : { perDay: (now.used * DAY_MS) / elapsedMs, fullDays: 0 };
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
