/**
 * The outbox: signals that are counted and not yet confirmed by the Signal Store. One row per commit, at most one queue
 * message long, so that rows are settled whole. Sending never takes one out; only `settle` does.
 *
 * The last row holds the ledger's counts (see ledger.ts) and stays when it is settled, but blank: without its signals. The
 * next commit writes over it, under a number of its own. So a signal that comes alone costs a row when it comes and a row
 * when it is settled, and nothing else.
 */
import { isUnreadable } from "../wire/message.ts";
import type { Counts } from "./ledger.ts";
import { MessagePacker, type PackedMessage, type PackedRow, SEND_BATCH_MAX_BYTES } from "./pack.ts";
import type { UnsettledRow } from "./protocol.ts";

const INSERT = `INSERT INTO outbox
    (row, at, period_start, count, bytes, accepted, held, rejected, overage, admitted, resent, body)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;
const OVERWRITE = `UPDATE outbox SET row = ?, at = ?, period_start = ?, count = ?, bytes = ?, accepted = ?, held = ?,
    rejected = ?, overage = ?, admitted = ?, resent = ?, body = ?
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
  /** The last row of the table, which holds the counts; 0: there is none. */
  #lastRow = 0;
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
      overage INTEGER NOT NULL, admitted INTEGER NOT NULL, resent INTEGER NOT NULL, body TEXT NOT NULL)`);
    // Rows that cannot be read, by a bug. They are kept, and hold up no other row.
    sql.exec(`CREATE TABLE IF NOT EXISTS unreadable_rows (
      row INTEGER PRIMARY KEY, at INTEGER NOT NULL, period_start INTEGER NOT NULL, count INTEGER NOT NULL, body TEXT NOT NULL)`);
    this.#unsettled = new Unsettled(sql);
    this.#findLastRow();
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
    for (const { row, at, periodStart, count, bytes, isAgain, text } of rows) {
      const counts = [accepted, held, rejected, overage, admitted];
      const values = [row, at, periodStart, count, bytes, ...counts, Number(isAgain), text];
      if (this.#blankRow === null) this.#sql.exec(INSERT, ...values);
      else this.#sql.exec(OVERWRITE, ...values, this.#blankRow);
      this.#blankRow = null;
      this.#lastRow = row;
      this.#fill.written(bytes);
      this.#unsettled.add(periodStart, count);
    }
  }

  /** To be called when what was written has been rolled back. */
  rolledBack(): void {
    this.#unsettled.forget();
    this.#findLastRow();
  }

  /** Takes out rows that the store has confirmed; repeating it is harmless. Says whether any was still there. */
  settle(rows: readonly number[]): boolean {
    const lastRow = this.#lastRow;
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
      // Rows are in order of their time: those that follow are later still, and there may be very many.
      if (at > range.admittedUntil || packer.bytes > SEND_BATCH_MAX_BYTES) break;
      packer.add({ row, bytes, text: body });
    }
    return packer.take("all", range.maxMessages, SEND_BATCH_MAX_BYTES);
  }

  /**
   * Moves the oldest rows to `unreadable_rows` as long as they were admitted before a time and cannot be read. Their signals
   * still count as unsettled. Runs in a transaction. Returns how many signals it has moved.
   */
  setAsideUnreadable(admittedUntil: number): number {
    let signals = 0;
    for (let oldest = this.oldest(); oldest !== null && oldest.atMs <= admittedUntil; oldest = this.oldest()) {
      const { row } = oldest;
      const { body } = this.#sql.exec<{ body: string }>("SELECT body FROM outbox WHERE row = ?", row).one();
      if (!isUnreadable(body)) break;
      const moved = this.#sql
        .exec<Taken>(
          `INSERT INTO unreadable_rows SELECT row, at, period_start, count, body FROM outbox WHERE row = ?
           RETURNING period_start, count`,
          row,
        )
        .one();
      this.settle([row]);
      this.#unsettled.add(moved.period_start, moved.count);
      signals += moved.count;
    }
    return signals;
  }

  /** Signals of rows that cannot be read. */
  unreadableSignals(): number {
    return this.#sql.exec<{ signals: number }>("SELECT total(count) AS signals FROM unreadable_rows").one().signals;
  }

  /** All rows that are not settled, in order. */
  unsettledRows(): UnsettledRow[] {
    return this.#sql
      .exec<{ row: number; period_start: number; count: number; resent: number }>(
        "SELECT row, period_start, count, resent FROM outbox WHERE bytes > 0 ORDER BY row",
      )
      .toArray()
      .map(({ row, period_start: periodStartMs, count, resent }) => ({
        row,
        periodStartMs,
        signals: count,
        isAgain: resent === 1,
      }));
  }

  /** The oldest unsettled row, which has the lowest number; null when all is settled. */
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

  #findLastRow(): void {
    const [last] = this.#sql
      .exec<{ row: number; bytes: number }>("SELECT row, bytes FROM outbox ORDER BY row DESC LIMIT 1")
      .toArray();
    this.#lastRow = last?.row ?? 0;
    this.#blankRow = last?.bytes === 0 ? last.row : null;
  }
}

// How full the database is. To ask it takes as long as to write a row, and each commit wants to know: it is asked only where
// what was written since may have filled it.

/** More bytes than are written besides the outbox between two looks at the database. */
const BESIDES_BYTES = 50_000_000;

export class Fill {
  readonly #databaseBytes: () => number;
  /** The database's size when it was last asked for. */
  #knownBytes = Number.POSITIVE_INFINITY;
  #writtenBytes = 0;

  constructor(databaseBytes: () => number) {
    this.#databaseBytes = databaseBytes;
  }

  /** Notes the bytes of rows that were written, without what their pages leave empty. */
  written(bytes: number): void {
    this.#writtenBytes += bytes;
  }

  reaches(maxBytes: number): boolean {
    if (this.#knownBytes + 2 * this.#writtenBytes + BESIDES_BYTES < maxBytes) return false;
    this.#knownBytes = this.#databaseBytes();
    this.#writtenBytes = 0;
    return this.#knownBytes >= maxBytes;
  }
}

/**
 * How many signals are not settled yet, by billing period. Counted once after a start, when somebody asks (all rows are
 * sent again then anyway), and kept in memory from then on: while the queue is down there may be very many rows.
 */
class Unsettled {
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
