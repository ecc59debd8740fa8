/** The store's side of the books, as it answers them. */
import { eq, sql } from "drizzle-orm";
import type { DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import type { StoreTotals } from "./protocol.ts";
import { totals } from "./schema.ts";

export function readTotals(db: DrizzleSqliteDODatabase, periodStartMs: number | undefined): StoreTotals {
  const sum = (column: SQLiteColumn) => sql<number>`coalesce(sum(${column}), 0)`;
  const row = db
    .select({
      processed: sum(totals.processed),
      duplicates: sum(totals.duplicates),
      held: sum(totals.held),
      purged: sum(totals.purged),
      deadLettered: sum(totals.deadLettered),
    })
    .from(totals)
    .where(periodStartMs === undefined ? undefined : eq(totals.periodStart, periodStartMs))
    .get();
  return row ?? { processed: 0, duplicates: 0, held: 0, purged: 0, deadLettered: 0 };
}
