/**
 * How many signals are not settled yet, by billing period. Counted once after a start, when somebody asks (all rows are
 * sent again then anyway), and kept in memory from then on: while the queue is down there may be very many rows.
 */
export class Unsettled {
  readonly #sql: SqlStorage;
  #byPeriod: Map<number, number> | null = null;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  add(periodStartMs: number, signals: number): void {
    this.#byPeriod?.set(periodStartMs, (this.#byPeriod.get(periodStartMs) ?? 0) + signals);
  }

  /** To be called when what was added has been rolled back: it is counted anew. */
  forget(): void {
    this.#byPeriod = null;
  }

  /** Signals that are not settled, in all or of one period. */
  signals(periodStartMs: number | undefined): number {
    const byPeriod = (this.#byPeriod ??= this.#count());
    if (periodStartMs !== undefined) return byPeriod.get(periodStartMs) ?? 0;
    return [...byPeriod.values()].reduce((sum, signals) => sum + signals, 0);
  }

  #count(): Map<number, number> {
    const rows = this.#sql.exec<{ period_start: number; count: number }>(
      "SELECT period_start, count FROM outbox WHERE bytes > 0 UNION ALL SELECT period_start, count FROM unreadable_rows",
    );
    const byPeriod = new Map<number, number>();
    for (const { period_start, count } of rows) byPeriod.set(period_start, (byPeriod.get(period_start) ?? 0) + count);
    return byPeriod;
  }
}
