/** The store's side of the books, how full it is, and what goes wrong in it. */
import type { FailingJob } from "../../domain/health/alarm.ts";

/** The store's side of the books. */
export interface StoreTotals {
  processed: number;
  duplicates: number;
  held: number;
  purged: number;
  deadLettered: number;
}

/** How full the store is, and what goes wrong in it. */
export interface StoreHealth {
  totals: StoreTotals;
  /** When the latest dead letter was recorded, in milliseconds since 1970; null when there is none. */
  deadLetterMs: number | null;
  failingJobs: FailingJob[];
  bytes: number;
  /** The size of the database from which on the store records nothing. */
  maxBytes: number;
  /** How far back signals with an id of their own are compared; less than the window while memory is short. */
  duplicatesCoveredMs: number;
}
