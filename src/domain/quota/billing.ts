/** Plan and billing of a workspace: periods, their end (spec §8.5) and the price of overages. */
import { OVERAGE_STREAK_LIMIT } from "../../limits.ts";

export interface QuotaTerms {
  signalLimit: number;
  /** Only paid plans can lose the extra room (spec §8.5). */
  paid: boolean;
  overages: boolean;
  /** Also the time from which the terms apply: D1 sets `max(old + 1, now)` with every change. */
  configVersion: number;
}

export interface QuotaConfig extends QuotaTerms {
  /** Billing periods are calendar months from this time on. The first `configure` fixes it. */
  anchorMs: number;
}

interface BillingPeriod {
  startMs: number;
  endMs: number;
}

/**
 * The period that contains `nowMs`. Each period begins at the anchor's day of the month and time of day. A month
 * without that day uses its last day: 31 January, 28 February, 31 March.
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

/** Counts from the anchor, so that a short month does not shorten later ones. */
function monthsAfter(anchor: Date, months: number): number {
  const month = anchor.getUTCMonth() + months;
  const lastDay = new Date(Date.UTC(anchor.getUTCFullYear(), month + 1, 0)).getUTCDate();
  const timeOfDay = anchor.getTime() - Date.UTC(anchor.getUTCFullYear(), anchor.getUTCMonth(), anchor.getUTCDate());
  return Date.UTC(anchor.getUTCFullYear(), month, Math.min(anchor.getUTCDate(), lastDay)) + timeOfDay;
}

export interface PeriodEnd {
  count: number;
  signalLimit: number;
  paid: boolean;
  overages: boolean;
}

export interface Streak {
  streak: number;
  /** Whether the extra room is gone. This is permanent: neither an upgrade nor a quiet month brings it back. */
  extraRoomRemoved: boolean;
}

/** Spec §8.5: a period over the allowance of a paid plan without overages extends the streak. */
export function closePeriod(before: Streak, period: PeriodEnd): Streak {
  const over = period.count > period.signalLimit && period.paid && !period.overages;
  const streak = over ? before.streak + 1 : 0;
  return { streak, extraRoomRemoved: before.extraRoomRemoved || streak >= OVERAGE_STREAK_LIMIT };
}

/** Price of a plan's overages, if the operator has configured it. Only shown: this service bills nothing. */
export interface OveragePrice {
  perThousand: number;
  /** ISO 4217, such as `EUR`. */
  currency: string;
}

export function overageCost(overages: number, { perThousand }: OveragePrice): number {
  return (Math.max(0, overages) * perThousand) / 1_000;
}
