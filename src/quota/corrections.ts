/**
 * What restores of the workspace have lost (docs/operate.md), by billing period. The counts of the ledger are those of the
 * backup; these numbers make the books balance: signals that were answered with 202 stay counted as accepted.
 */
import type { SignalsByPeriod } from "../domain/restore.ts";

/** Signals of a billing period. */
export interface Correction {
  periodStartMs: number;
  /** Accepted signals that the ledger has forgotten. */
  forgotten: number;
  /** Accepted signals that neither the outbox nor the Signal Store has. */
  lost: number;
}

export class Corrections {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(`CREATE TABLE IF NOT EXISTS corrections (
      period_start INTEGER PRIMARY KEY, forgotten INTEGER NOT NULL, lost INTEGER NOT NULL)`);
  }

  /** Writes all corrections in place of those that are there. Runs in a transaction. */
  write(corrections: readonly Correction[]): void {
    this.#sql.exec("DELETE FROM corrections");
    for (const { periodStartMs, forgotten, lost } of corrections) {
      this.#sql.exec("INSERT INTO corrections VALUES (?, ?, ?)", periodStartMs, forgotten, lost);
    }
  }

  /** The sums of all periods, or of one. */
  sums(periodStartMs?: number): Omit<Correction, "periodStartMs"> {
    return this.#sql
      .exec<{ forgotten: number; lost: number }>(
        "SELECT total(forgotten) AS forgotten, total(lost) AS lost FROM corrections WHERE period_start = ifnull(?, period_start)",
        periodStartMs ?? null,
      )
      .one();
  }

  /** `ordinals`, with what the ledger has forgotten. */
  accepted(ordinals: SignalsByPeriod): SignalsByPeriod {
    const rows = this.#sql.exec<{ period_start: number; forgotten: number }>(
      "SELECT period_start, forgotten FROM corrections",
    );
    const accepted = { ...ordinals };
    for (const { period_start: start, forgotten } of rows) accepted[start] = (accepted[start] ?? 0) + forgotten;
    return accepted;
  }
}
