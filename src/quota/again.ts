/**
 * Signals that go through the queue once more (design §6, §8): held ones that are released, dead letters that are
 * replayed. They come back into the outbox with their ids, and take no new ordinals.
 */
import { overageOfRelease, roomToRelease } from "../domain/quota/quota.ts";
import type { Ledger } from "./ledger.ts";
import { RowPacker } from "./pack.ts";
import type { PackedRow } from "./pack.ts";
import type { SignalAgain } from "./protocol.ts";

export function createReleasedTable(sql: SqlStorage): void {
  // The signals that this period's releases have counted: a release that was interrupted may be asked for again.
  sql.exec("CREATE TABLE IF NOT EXISTS released (id TEXT PRIMARY KEY, period_start INTEGER NOT NULL) WITHOUT ROWID");
}

/** Makes the first held signals that fit accepted ones; returns these. Runs inside the commit's transaction. */
export function release(sql: SqlStorage, ledger: Ledger, signals: SignalAgain[]): SignalAgain[] {
  const [any] = sql.exec<{ period_start: number }>("SELECT period_start FROM released LIMIT 1").toArray();
  // All rows of the table are of one period, so that any of them tells whether it is over.
  if (any !== undefined && any.period_start < ledger.periodStartMs) sql.exec("DELETE FROM released");
  const counted = new Set(
    [
      ...sql.exec<{ id: string }>(
        "SELECT id FROM released WHERE id IN (SELECT value FROM json_each(?))",
        JSON.stringify(signals.map((signal) => signal.id)),
      ),
    ].map((row) => row.id),
  );
  const fitting = signals
    .filter((signal) => signal.periodStartMs === ledger.periodStartMs && !counted.has(signal.id))
    .slice(0, roomToRelease(ledger));
  for (const { id, periodStartMs } of fitting) sql.exec("INSERT INTO released VALUES (?, ?)", id, periodStartMs);
  ledger.overage += overageOfRelease(ledger, fitting.length);
  ledger.held -= fitting.length;
  ledger.accepted += fitting.length;
  return fitting;
}

/** The signals as outbox rows. */
export function rowsAgain(ledger: Ledger, signals: SignalAgain[], nowMs: number): PackedRow[] {
  const rows: PackedRow[] = [];
  // The books are kept per period: a row belongs to one.
  for (const [periodStartMs, ofPeriod] of Map.groupBy(signals, (signal) => signal.periodStartMs)) {
    const header = {
      at: nowMs,
      period_start: periodStartMs,
      period_end: ledger.periodEndMs,
      limit: ledger.signalLimit,
    };
    const packer = new RowPacker(header, ledger.nextRow + rows.length, 0);
    for (const { text, bytes } of ofPeriod) packer.add([{ text, bytes, count: 1 }], 1, 0);
    rows.push(...packer.rows());
  }
  return rows;
}
