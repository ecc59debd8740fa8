/** Dead letters, as the store answers them. */
import type { DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import { newestFirst, parsed, toPage } from "./queries/list-page.ts";
import type { DeadLetter, Page, PageOf } from "./protocol.ts";
import { signals } from "./schema.ts";
import { hasStatus } from "./trace.ts";

export function listDeadLetters(db: DrizzleSqliteDODatabase, page: Page): PageOf<DeadLetter> {
  return toPage(
    newestFirst(db.select().from(signals).$dynamic(), signals.seq, page, hasStatus("dead")).all(),
    page,
    (row) => row.seq,
    (row) => ({
      id: row.id,
      reason: row.deadReason ?? "",
      receivedAtMs: row.receivedAt,
      deadAtMs: row.recordedAt,
      payload: parsed(row.payload),
    }),
  );
}
