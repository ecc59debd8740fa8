/** Calls of a key by day (see day-counts.ts), of one kind. */
import type { DayCounts } from "../quota/day-counts.ts";

export interface CallDays {
  calls: DayCounts;
  /** How often calls may have gone uncounted, on days on which there may have been more. */
  lost: DayCounts;
}
