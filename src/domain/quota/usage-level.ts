/** How much of the plan's signal limit is used, as far as an admin has to be told (spec §8.2–§8.4). */

/** Usage in percent of the signal limit at which an admin is told; in order. */
export const USAGE_NOTICE_PERCENT = [80, 100, 200] as const;

export type UsageLevel = (typeof USAGE_NOTICE_PERCENT)[number];

/**
 * The highest of USAGE_NOTICE_PERCENT that is reached; null below all of them. At 100 every signal so far was processed
 * (§8.2: up to and including the limit), and the next one will not be.
 */
export function usageLevel(used: number, signalLimit: number): UsageLevel | null {
  return USAGE_NOTICE_PERCENT.findLast((percent) => used * 100 >= signalLimit * percent) ?? null;
}
