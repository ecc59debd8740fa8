/**
 * Which levels of usage are news: each once a billing period, and once more where the signal limit, or what goes beyond it,
 * was changed so that it was no longer reached and then is again.
 */
import type { UsageLevelReached } from "../events/workspace-event.ts";
import { ordinalsTaken, quotaCeiling } from "./quota.ts";
import type { QuotaPlan, VerdictCounts } from "./quota.ts";

/** Usage in percent of the signal limit at which an admin is told; in order. */
export const USAGE_NOTICE_PERCENT = [80, 100, 200] as const;

export type UsageLevel = (typeof USAGE_NOTICE_PERCENT)[number];

export interface UsageStanding extends QuotaPlan, Omit<VerdictCounts, "rejected"> {}

const LEVELS = [
  ...USAGE_NOTICE_PERCENT.map((percent) => `${percent}` as const),
  "first_refusal",
] as const satisfies readonly UsageLevelReached[];

export interface UsageMoment {
  /** What has been told of the period: a bit for each level, in the order of LEVELS; 0: nothing. */
  notified: number;
  now: UsageStanding;
  /** Whether a signal has just been refused for the limit. */
  hasRefused: boolean;
}

/** What is told of the period from then on, and what of that is news. */
export function usageNews({ notified, now, hasRefused }: UsageMoment): { notified: number; news: UsageLevelReached[] } {
  const used = ordinalsTaken(now);
  const ceiling = quotaCeiling(now);
  const isFull = ceiling !== null && used >= ceiling;
  const news: UsageLevelReached[] = [];
  let after = 0;
  for (const [index, level] of LEVELS.entries()) {
    const bit = 1 << index;
    const wasTold = (notified & bit) !== 0;
    const percent = USAGE_NOTICE_PERCENT[index];
    const isSo = percent === undefined ? hasRefused || (wasTold && isFull) : isReached(used, percent, now.signalLimit);
    if (!isSo) continue;
    after |= bit;
    if (!wasTold) news.push(level);
  }
  return { notified: after, news };
}

function isReached(used: number, percent: number, signalLimit: number): boolean {
  return used > 0 && used * 100 >= signalLimit * percent;
}

/**
 * The highest of USAGE_NOTICE_PERCENT that is reached; null below all of them. At 100 every signal so far was processed
 * (§8.2: up to and including the limit), and the next one will not be.
 */
export function usageLevel(used: number, signalLimit: number): UsageLevel | null {
  return USAGE_NOTICE_PERCENT.findLast((percent) => used * 100 >= signalLimit * percent) ?? null;
}
