/**
 * The Quota Counter's part in a restore of its workspace (workspace/restore-workspace.ts): it refuses calls during the
 * restore, reports its counts before and after, skips the numbers of lost rows, and keeps the losses for the books.
 */
import { ordinalsTaken } from "../domain/quota/quota.ts";
import type { SignalsByPeriod } from "../domain/restore.ts";
import { type LedgerState, closedPeriods, type Ledger } from "./ledger.ts";
import type { Outbox } from "./outbox.ts";
import type { CountedBefore, RestoredCounter } from "./protocol.ts";

/**
 * Losses of a billing period. Signals that were answered with 202 stay counted as accepted, which keeps the books balanced
 * (docs/operate.md).
 */
export interface Correction {
  periodStartMs: number;
  /** Accepted signals that the restored ledger does not count. */
  forgotten: number;
  /** Accepted signals that neither the outbox nor the Signal Store has. */
  lost: number;
}

export class CounterRestore {
  readonly #storage: DurableObjectStorage;
  readonly #ledger: LedgerState;
  readonly #outbox: Outbox;
  #closedUntilMs = 0;

  constructor(storage: DurableObjectStorage, ledger: LedgerState, outbox: Outbox) {
    this.#storage = storage;
    this.#ledger = ledger;
    this.#outbox = outbox;
    storage.sql.exec(`CREATE TABLE IF NOT EXISTS corrections (
      period_start INTEGER PRIMARY KEY, forgotten INTEGER NOT NULL, lost INTEGER NOT NULL)`);
  }

  /**
   * Whether calls are refused. A restart and the end of the period both reopen the counter, so no failed restore closes it
   * for good.
   */
  get isClosed(): boolean {
    return Date.now() < this.#closedUntilMs;
  }

  /** Refuses calls until then. @returns the number of signals that wait for the Signal Store. */
  close(untilMs: number): number {
    this.#closedUntilMs = untilMs;
    return this.#outbox.unsettled();
  }

  open(): void {
    this.#closedUntilMs = 0;
  }

  /** @throws unless calls are refused; otherwise the counts would be outdated at once. */
  before(): CountedBefore {
    this.expectClosed();
    const { current } = this.#ledger;
    const accepted = this.#ordinals(current);
    const corrections = this.#storage.sql.exec<{ period_start: number; forgotten: number }>(
      "SELECT period_start, forgotten FROM corrections",
    );
    for (const { period_start: start, forgotten } of corrections) accepted[start] = (accepted[start] ?? 0) + forgotten;
    return { highestRow: (current?.nextRow ?? 1) - 1, accepted };
  }

  /** @throws unless calls are refused; otherwise the signals of new calls would be lost without being counted. */
  expectClosed(): void {
    if (!this.isClosed) throw new Error("The Quota Counter takes calls.");
  }

  /**
   * Returns the restored counts as they were before new calls; later rows get numbers above `highestRow`. Repeating it
   * returns the same counts, because no row is settled before the restore ends.
   */
  after(highestRow: number, nowMs: number): RestoredCounter {
    this.#ledger.update(nowMs, (ledger) => {
      ledger.nextRow = Math.max(ledger.nextRow, highestRow + 1);
      return { save: true };
    });
    const accepted = this.#ordinals(this.#ledger.current);
    const unsettled = this.#outbox.unsettledRows();
    for (const { row, periodStartMs, signals, isResent } of unsettled) {
      if (row > highestRow && !isResent) accepted[periodStartMs] = (accepted[periodStartMs] ?? 0) - signals;
    }
    return { accepted, unsettled: unsettled.filter(({ row }) => row <= highestRow) };
  }

  /** Stores the losses of all restores and accepts calls again. */
  correct(corrections: readonly Correction[]): void {
    const { sql } = this.#storage;
    this.#storage.transactionSync(() => {
      sql.exec("DELETE FROM corrections");
      for (const { periodStartMs, forgotten, lost } of corrections) {
        sql.exec("INSERT INTO corrections VALUES (?, ?, ?)", periodStartMs, forgotten, lost);
      }
    });
    this.open();
  }

  /** Sums of the corrections over all periods, or of one period. */
  corrections(periodStartMs?: number): Omit<Correction, "periodStartMs"> {
    return this.#storage.sql
      .exec<{ forgotten: number; lost: number }>(
        "SELECT total(forgotten) AS forgotten, total(lost) AS lost FROM corrections WHERE period_start = ifnull(?, period_start)",
        periodStartMs ?? null,
      )
      .one();
  }

  /** Signals with ordinals, by billing period. */
  #ordinals(ledger: Readonly<Ledger> | null): SignalsByPeriod {
    const periods = [...closedPeriods(this.#storage.sql), ...(ledger === null ? [] : [ledger])];
    return Object.fromEntries(periods.map((period) => [period.periodStartMs, ordinalsTaken(period)]));
  }
}
