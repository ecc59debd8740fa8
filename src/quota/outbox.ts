/**
 * The outbox: signals that are counted and not yet confirmed by the Signal Store. One row per commit, at most one queue
 * message long, so that rows are settled whole. Sending never takes one out; only `settle` does.
 *
 * The last row holds the ledger's counts (see ledger.ts) and stays when it is settled, but blank: without its signals. The
 * next commit writes over it, under a number of its own. So a signal that comes alone costs a row when it comes and a row
 * when it is settled, and nothing else.
 */
import { renumberedRow } from "../wire/message.ts";
import { Fill } from "./fill.ts";
import type { Counts } from "./ledger.ts";
import { MessagePacker, SEND_BATCH_MAX_BYTES } from "./pack.ts";
import type { PackedMessage, PackedRow } from "./pack.ts";
import type { UnsettledRow } from "./protocol.ts";
import { Unsettled } from "./unsettled.ts";

/** Rows that are in memory while they get new numbers. */
const RENUMBER_ROWS = 100;

const INSERT = `INSERT INTO outbox (row, at, period_start, count, bytes, accepted, held, rejected, overage, admitted, body)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;
const OVERWRITE = `UPDATE outbox SET row = ?, at = ?, period_start = ?, count = ?, bytes = ?, accepted = ?, held = ?,
    rejected = ?, overage = ?, admitted = ?, body = ?
  WHERE row = ?`;

/** What of a row has been settled. */
type Taken = { period_start: number; count: number };

/** Which rows to send: those after a number, admitted up to a time, as many as fit so many messages. */
export interface SendRange {
  afterRow: number;
  admittedUntil: number;
  maxMessages: number;
}

export class Outbox {
  readonly #sql: SqlStorage;
  readonly #unsettled: Unsettled;
  /** The number of the last row, once it is settled and blank. */
  #blankRow: number | null = null;
  readonly #fill: Fill;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.#fill = new Fill(() => sql.databaseSize);
    // `body` comes last: what only counts or looks for old rows does not read it. A blank row has no bytes.
    sql.exec(`CREATE TABLE IF NOT EXISTS outbox (
      row INTEGER PRIMARY KEY, at INTEGER NOT NULL, period_start INTEGER NOT NULL, count INTEGER NOT NULL,
      bytes INTEGER NOT NULL, accepted INTEGER NOT NULL, held INTEGER NOT NULL, rejected INTEGER NOT NULL,
      overage INTEGER NOT NULL, admitted INTEGER NOT NULL, body TEXT NOT NULL)`);
    this.#unsettled = new Unsettled(sql);
    this.#findBlankRow();
  }

  /** The ledger's counts as the last row has them. */
  lastCounts(): (Counts & { row: number }) | null {
    const last = this.#sql.exec<{ row: number } & Record<keyof Counts, number>>(
      "SELECT row, accepted, held, rejected, overage, admitted FROM outbox ORDER BY row DESC LIMIT 1",
    );
    return last.toArray()[0] ?? null;
  }

  /** Writes rows to the outbox: one row written for each. */
  write(rows: PackedRow[], { accepted, held, rejected, overage, admitted }: Counts): void {
    for (const { row, at, periodStart, count, bytes, text } of rows) {
      const values = [row, at, periodStart, count, bytes, accepted, held, rejected, overage, admitted, text];
      if (this.#blankRow === null) this.#sql.exec(INSERT, ...values);
      else this.#sql.exec(OVERWRITE, ...values, this.#blankRow);
      this.#blankRow = null;
      this.#fill.written(bytes);
      this.#unsettled.add(periodStart, count);
    }
  }

  /** To be called when what was written has been rolled back. */
  rolledBack(): void {
    this.#unsettled.forget();
    this.#findBlankRow();
  }

  /**
   * Takes out rows that the store has confirmed; repeating it is harmless. Says whether any was still there.
   *
   * @param lastRow the number before the one that the ledger expects next.
   */
  settle(rows: readonly number[], lastRow: number): boolean {
    const deleted = this.#took(
      this.#sql.exec<Taken>(
        `DELETE FROM outbox WHERE row IN (SELECT value FROM json_each(?)) AND row <> ? AND bytes > 0
         RETURNING period_start, count`,
        JSON.stringify(rows),
        lastRow,
      ),
    );
    if (!rows.includes(lastRow) || this.#blankRow === lastRow) return deleted;
    const blanked = this.#took(
      this.#sql.exec<Taken>(
        "UPDATE outbox SET bytes = 0, body = '' WHERE row = ? RETURNING period_start, count",
        lastRow,
      ),
    );
    if (blanked) this.#blankRow = lastRow;
    return deleted || blanked;
  }

  /** Counts what one statement has settled, since the next one may fail. Says whether that was anything. */
  #took(settled: Iterable<Taken>): boolean {
    let any = false;
    for (const { period_start, count } of settled) {
      this.#unsettled.add(period_start, -count);
      any = true;
    }
    return any;
  }

  /** One `sendBatch` of rows in the range, read from the table. */
  messages(range: SendRange): PackedMessage[] {
    const packer = new MessagePacker();
    const found = this.#sql.exec<{ row: number; at: number; bytes: number; body: string }>(
      "SELECT row, at, bytes, body FROM outbox WHERE row > ? AND bytes > 0 ORDER BY row LIMIT 1000",
      range.afterRow,
    );
    for (const { row, at, bytes, body } of found) {
      // Rows are in order of their time: those that follow are later still, and there may be very many. Those that were
      // renumbered are not: they wait until the ones before them are as old.
      if (at > range.admittedUntil || packer.bytes > SEND_BATCH_MAX_BYTES) break;
      packer.add({ row, bytes, text: body });
    }
    return packer.take("all", range.maxMessages, SEND_BATCH_MAX_BYTES);
  }

  /**
   * Numbers these of the unsettled rows anew from `firstRow` on, which is behind them all, in the same order. Returns how
   * many. The ledger is to be saved with it. Their times are then earlier than those of rows before them, which only puts
   * off when they are sent again.
   */
  renumber(numbers: readonly number[], firstRow: number): number {
    // A blank row would no longer be the last one; what it holds of the ledger is saved with that.
    this.#sql.exec("DELETE FROM outbox WHERE row = ?", this.#blankRow ?? 0);
    this.#blankRow = null;
    const sorted = [...numbers].sort((one, other) => one - other);
    let nextRow = firstRow;
    while (sorted.length > 0) {
      // Rows are read RENUMBER_ROWS at a time, for each is up to a message long.
      const rows = this.#sql
        .exec<{ row: number; body: string }>(
          "SELECT row, body FROM outbox WHERE row IN (SELECT value FROM json_each(?)) AND bytes > 0 ORDER BY row",
          JSON.stringify(sorted.splice(0, RENUMBER_ROWS)),
        )
        .toArray();
      for (const { row, body } of rows) {
        const renumbered = renumberedRow(body, nextRow);
        this.#sql.exec("UPDATE outbox SET row = ?, body = ? WHERE row = ?", nextRow++, renumbered, row);
      }
    }
    return nextRow - firstRow;
  }

  /** Numbers, times and signals of all rows that are not settled. */
  unsettledRows(): UnsettledRow[] {
    return this.#sql
      .exec<{ row: number; at: number; count: number }>(
        "SELECT row, at, count FROM outbox WHERE bytes > 0 ORDER BY row",
      )
      .toArray()
      .map(({ row, at, count }) => ({ row, atMs: at, signals: count }));
  }

  /** The unsettled row of the lowest number, which is the oldest, unless rows were renumbered; null when all is settled. */
  oldest(): { row: number; atMs: number } | null {
    const [first] = this.#sql
      .exec<{ row: number; at: number }>("SELECT row, at FROM outbox WHERE bytes > 0 ORDER BY row LIMIT 1")
      .toArray();
    return first === undefined ? null : { row: first.row, atMs: first.at };
  }

  /** Bytes of the whole database. */
  get databaseBytes(): number {
    return this.#sql.databaseSize;
  }

  /** Whether the database has so many bytes. */
  isFull(maxBytes: number): boolean {
    return this.#fill.reaches(maxBytes);
  }

  /** Signals that are not settled, in all or of one period. */
  unsettled(periodStartMs?: number): number {
    return this.#unsettled.signals(periodStartMs);
  }

  #findBlankRow(): void {
    const [last] = this.#sql
      .exec<{ row: number; bytes: number }>("SELECT row, bytes FROM outbox ORDER BY row DESC LIMIT 1")
      .toArray();
    this.#blankRow = last?.bytes === 0 ? last.row : null;
  }
}
