/** Points that lapse: a mapping rule can say for how many days its points count. */
import { dayOf } from "../quota/day-counts.ts";
import type { PointsLastDays } from "./mapping-rule.ts";

/**
 * The UTC day, counted since 1970, at whose start the points lapse. They still count on the whole day that is `lastDays` after
 * the day of the signal.
 *
 * @param occurredMs when the signal occurred.
 */
export function lapseDayOf(occurredMs: number, lastDays: PointsLastDays): number {
  return dayOf(occurredMs) + lastDays + 1;
}
