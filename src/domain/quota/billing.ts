/** Billing periods: calendar months from a workspace's anchor, in UTC, and what closing one does (spec §8.5). */
import { OVERAGE_STREAK_LIMIT } from "../../limits.ts";

/** Plan and billing of a workspace, as `configure` sets it (design §6). */
export interface QuotaConfig {
  /** The plan's signal limit (the allowance) per billing period. */
  signalLimit: number;
  /** Only paid plans can lose the extra room (spec §8.5). */
  paid: boolean;
  /** Whether signals beyond the limit are accepted and metered (pay-as-you-go). */
  overages: boolean;
  /** Billing periods are calendar months from this time on. Fixed by the first `configure`. */
  anchorMs: number;
  /**
   * Version of the configuration, and the time since which it holds, in milliseconds since 1970. D1 raises it with every
   * change to `max(old + 1, now)`.
   */
  configVersion: number;
}

/** A billing period, its start inclusive, its end exclusive; milliseconds since 1970. */
export interface BillingPeriod {
  startMs: number;
  endMs: number;
}

/**
 * The period that holds `nowMs`. Each begins at the anchor's time of day, on the anchor's day of the month, or on the
 * month's last day where the month has no such day: 31 January, 28 February, 31 March.
 */
export function billingPeriodAt(anchorMs: number, nowMs: number): BillingPeriod {
  const anchor = new Date(anchorMs);
  const now = new Date(nowMs);
  const months = (now.getUTCFullYear() - anchor.getUTCFullYear()) * 12 + (now.getUTCMonth() - anchor.getUTCMonth());
  const start = monthsAfter(anchor, months);
  return start <= nowMs
    ? { startMs: start, endMs: monthsAfter(anchor, months + 1) }
    : { startMs: monthsAfter(anchor, months - 1), endMs: start };
}

/** The anchor, so many months later: counted from the anchor itself, so that a short month does not shorten later ones. */
function monthsAfter(anchor: Date, months: number): number {
  const month = anchor.getUTCMonth() + months;
  const lastDay = new Date(Date.UTC(anchor.getUTCFullYear(), month + 1, 0)).getUTCDate();
  const timeOfDay = anchor.getTime() - Date.UTC(anchor.getUTCFullYear(), anchor.getUTCMonth(), anchor.getUTCDate());
  return Date.UTC(anchor.getUTCFullYear(), month, Math.min(anchor.getUTCDate(), lastDay)) + timeOfDay;
}

/** What the end of a period is judged by. */
export interface PeriodEnd {
  /** Ordinals given out in the period: accepted and held signals together. */
  count: number;
  signalLimit: number;
  paid: boolean;
  overages: boolean;
}

export interface Streak {
  /** Consecutive closed periods over the allowance. */
  streak: number;
  /** Whether there is extra room no more, for good: no upgrade and no quiet month brings it back. */
  extraRoomRemoved: boolean;
}

/** The streak after a period: over the allowance, on a paid plan, with overages off → one more; else → none (spec §8.5). */
export function closePeriod(before: Streak, period: PeriodEnd): Streak {
  const over = period.count > period.signalLimit && period.paid && !period.overages;
  const streak = over ? before.streak + 1 : 0;
  return { streak, extraRoomRemoved: before.extraRoomRemoved || streak >= OVERAGE_STREAK_LIMIT };
}

/** What a plan's overages cost, where its operator tells. Nothing is billed by this service. */
export interface OveragePrice {
  /** The price of 1,000 overages, in units of the currency. */
  perThousand: number;
  /** ISO 4217, such as `EUR`. */
  currency: string;
}

/** What so many overages cost, in units of the currency. */
export function overageCost(overages: number, { perThousand }: OveragePrice): number {
  return (Math.max(0, overages) * perThousand) / 1_000;
}
