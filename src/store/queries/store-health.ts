/** How the store is. Pages of the database that were freed do not count: what is deleted makes room at once. */
import type { StoreHealth } from "../protocol/store-health.ts";
import { latestDeadLetterMs } from "../record/dead-letters.ts";
import { readTotals } from "../state/books.ts";
import type { StoreState } from "../state/store-state.ts";

export function storeHealth(
  { sql, originals, books }: StoreState,
  { failingJobs, maxBytes }: { failingJobs: Readonly<StoreHealth["failingJobs"]>; maxBytes: number },
): StoreHealth {
  return {
    totals: readTotals(books.totals, undefined),
    deadLetterMs: latestDeadLetterMs(sql),
    failingJobs: [...failingJobs],
    bytes: sql.databaseSize,
    maxBytes,
    duplicatesCoveredMs: originals.coveredMs(Date.now()),
  };
}
