/**
 * Signals that go through the queue once more (design §6, §8): held ones that are released, dead letters that are
 * replayed. They come back into the outbox with their ids, and take no new ordinals.
 */
import { overageOfRelease, roomToRelease } from "../domain/quota/quota.ts";
import type { LedgerState } from "./ledger-state.ts";
import type { Ledger } from "./ledger.ts";
import { RowPacker } from "./pack.ts";
import type { PackedRow } from "./pack.ts";
import type { ReleaseResult, SignalAgain } from "./protocol.ts";

export interface SignalsAgainOptions {
  state: LedgerState;
  isOutboxFull: () => boolean;
}

export class SignalsAgain {
  readonly #sql: SqlStorage;
  readonly #options: SignalsAgainOptions;

  constructor(sql: SqlStorage, options: SignalsAgainOptions) {
    this.#sql = sql;
    this.#options = options;
    // The signals that this period's releases have counted: a release that was interrupted may be asked for again.
    sql.exec("CREATE TABLE IF NOT EXISTS released (id TEXT PRIMARY KEY, period_start INTEGER NOT NULL) WITHOUT ROWID");
  }

  /** Makes as many of these held signals accepted as now fit: none while the outbox is full. */
  release(signals: SignalAgain[], nowMs: number): ReleaseResult {
    const { state, isOutboxFull } = this.#options;
    if (isOutboxFull()) return { released: 0, full: true };
    let released: SignalAgain[] = [];
    let full = true;
    state.update(nowMs, (ledger) => {
      released = this.#takeFitting(ledger, signals);
      full = roomToRelease(ledger) === 0;
      return { rows: rowsAgain(ledger, released, nowMs) };
    });
    return { released: released.length, full };
  }

  /** Returns how many dead letters it has sent again: all, or none while the outbox is full. */
  replay(signals: SignalAgain[], nowMs: number): number {
    const { state, isOutboxFull } = this.#options;
    if (isOutboxFull()) return 0;
    state.update(nowMs, (ledger) => ({ rows: rowsAgain(ledger, signals, nowMs) }));
    return signals.length;
  }

  /** Makes the first held signals that fit accepted ones; returns these. Runs in the transaction of the ledger's change. */
  #takeFitting(ledger: Ledger, signals: SignalAgain[]): SignalAgain[] {
    const [any] = this.#sql.exec<{ period_start: number }>("SELECT period_start FROM released LIMIT 1").toArray();
    // All rows of the table are of one period, so that any of them tells whether it is over.
    if (any !== undefined && any.period_start < ledger.periodStartMs) this.#sql.exec("DELETE FROM released");
    const counted = this.#counted(signals);
    const fitting = signals
      .filter((signal) => signal.periodStartMs === ledger.periodStartMs && !counted.has(signal.id))
      .slice(0, roomToRelease(ledger));
    for (const { id, periodStartMs } of fitting) {
      this.#sql.exec("INSERT INTO released VALUES (?, ?)", id, periodStartMs);
    }
    ledger.overage += overageOfRelease(ledger, fitting.length);
    ledger.held -= fitting.length;
    ledger.accepted += fitting.length;
    return fitting;
  }

  /** Ids of those signals that an earlier release has counted. */
  #counted(signals: SignalAgain[]): ReadonlySet<string> {
    const known = this.#sql.exec<{ id: string }>(
      "SELECT id FROM released WHERE id IN (SELECT value FROM json_each(?))",
      JSON.stringify(signals.map((signal) => signal.id)),
    );
    return new Set(known.toArray().map((row) => row.id));
  }
}

/** The signals as outbox rows. */
function rowsAgain(ledger: Ledger, signals: SignalAgain[], nowMs: number): PackedRow[] {
  const rows: PackedRow[] = [];
  // The books are kept per period: a row belongs to one.
  for (const [periodStartMs, ofPeriod] of Map.groupBy(signals, (signal) => signal.periodStartMs)) {
    const header = {
      at: nowMs,
      period_start: periodStartMs,
      period_end: ledger.periodEndMs,
      limit: ledger.signalLimit,
    };
    const packer = new RowPacker(header, ledger.nextRow + rows.length, 0, true);
    for (const { text, bytes } of ofPeriod) packer.add([{ text, bytes, count: 1 }], 1, 0);
    rows.push(...packer.rows());
  }
  return rows;
}
