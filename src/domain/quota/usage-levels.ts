/**
 * Notices about usage (spec §8.2–§8.4). Each level is announced once per billing period. It is announced again only
 * if a change of the limit or of overages made it unreached in between.
 */
import { ordinalsTaken, quotaCeiling, type AdmittedVerdict, type QuotaPlan } from "./quota.ts";

/** Usage levels in percent of the signal limit that are announced, ascending. */
const USAGE_NOTICE_PERCENT = [80, 100, 200] as const;

type UsageLevel = (typeof USAGE_NOTICE_PERCENT)[number];

export interface UsageStanding extends QuotaPlan, Record<AdmittedVerdict, number> {}

/** Percent of the signal limit, or the first rejection of the period because of the limit. */
export type UsageLevelReached = `${UsageLevel}` | "first_rejection";

const LEVELS: readonly UsageLevelReached[] = [
  ...USAGE_NOTICE_PERCENT.map((percent) => `${percent}` as const),
  "first_rejection",
];

/** @param notified levels already announced in the period: a bit for each, in the order of LEVELS. */
export function newUsageLevels({
  notified,
  now,
  hasRejected,
}: {
  notified: number;
  now: UsageStanding;
  hasRejected: boolean;
}): {
  notified: number;
  levels: UsageLevelReached[];
} {
  const used = ordinalsTaken(now);
  const ceiling = quotaCeiling(now);
  const isFull = ceiling !== null && used >= ceiling;
  const levels: UsageLevelReached[] = [];
  let after = 0;
  for (const [index, level] of LEVELS.entries()) {
    const bit = 1 << index;
    const wasAnnounced = (notified & bit) !== 0;
    const percent = USAGE_NOTICE_PERCENT[index];
    const isReached = percent !== undefined && used > 0 && used * 100 >= now.signalLimit * percent;
    const holds = isReached || (percent === undefined && (hasRejected || (wasAnnounced && isFull)));
    if (!holds) continue;
    after |= bit;
    if (!wasAnnounced) levels.push(level);
  }
  return { notified: after, levels };
}

/** The highest of USAGE_NOTICE_PERCENT that is reached; null below all of them. 100: the limit is used up. */
export function usageLevel(used: number, signalLimit: number): UsageLevel | null {
  return USAGE_NOTICE_PERCENT.findLast((percent) => used * 100 >= signalLimit * percent) ?? null;
}
