/** Calls of a key by day (see day-counts.ts), of one kind. */
import type { DayCounts } from "../quota/day-counts.ts";

export interface CallDays {
  calls: DayCounts;
  /** Days on which there may have been more: how often that may have happened. */
  lost: DayCounts;
}
