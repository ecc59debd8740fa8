/**
 * The outbox: counted signals that the Signal Store has not confirmed. Sending never removes a row; only `settle` does.
 * The last row also holds the ledger's counts (ledger.ts). Once settled it stays as a blank row, which the next commit
 * overwrites. So a lone signal costs one row when it comes and one when it is settled. Until the ledger is saved, the
 * blank row is the only home of the highest row number: without it a new start would use numbers again, and the store
 * would ignore the new signals as recorded.
 */
import { CALL_TIMEOUT_MS, MESSAGE_MAX_BYTES } from "../limits.ts";
import { uuidv7Ms } from "../platform/ids.ts";
import { ordinalsTaken, VERDICTS, type AdmittedVerdict } from "../domain/quota/quota.ts";
import type { Counts, RowCounts } from "./protocol.ts";
import type { StoredOutboxRow } from "./schema.ts";
import {
  type Admission,
  type OutboxRow,
  beginningOfSignal,
  isUnreadable,
  readMessage,
  ROW_HEADER_BYTES,
  writeRow,
  type WrittenCall,
} from "../wire/message.ts";

const COUNTS = [...VERDICTS, "overage", "admitted"] as const satisfies (keyof Counts)[];
const COLUMNS = [
  ...(["row", "at", "period_start", "count", "bytes"] as const),
  ...COUNTS,
  ...(["budget_use", "body"] as const),
] satisfies (keyof StoredOutboxRow)[];
const INSERT = `INSERT INTO outbox (${COLUMNS.join(", ")}) VALUES (${COLUMNS.map(() => "?").join(", ")})`;
const OVERWRITE = `UPDATE outbox SET ${COLUMNS.map((column) => `${column} = ?`).join(", ")} WHERE row = ?`;

type SettledRow = Pick<StoredOutboxRow, "period_start" | "count">;

/** Rows after a number, admitted up to a time, as many as fit into `maxMessages`. */
export interface SendRange {
  afterRow: number;
  admittedUntil: number;
  maxMessages: number;
}

export class Outbox {
  readonly #sql: SqlStorage;
  /**
   * Unsettled signals by billing period; null: not counted yet. Cached, because very many rows may wait while the queue
   * is down.
   */
  #unsettled: Map<number, number> | null = null;
  #lastRow = 0;
  /** The last row if it is settled and blank, otherwise null. */
  #blankRow: number | null = null;
  readonly #maxBytes: () => number;

  /** @param maxBytes size of the database at which the outbox is full. */
  constructor(sql: SqlStorage, maxBytes: () => number) {
    this.#sql = sql;
    this.#maxBytes = maxBytes;
    this.#findLastRow();
  }

  lastCounts(): (RowCounts & { row: number }) | null {
    const [last] = this.#sql.exec<{ row: number; budget_use: string } & Record<keyof Counts, number>>(
      `SELECT row, ${COUNTS.join(", ")}, budget_use FROM outbox ORDER BY row DESC LIMIT 1`,
    );
    if (last === undefined) return null;
    const { budget_use: use, ...counts } = last;
    return { ...counts, budgetUse: JSON.parse(use) as RowCounts["budgetUse"] };
  }

  write(rows: PackedRow[], counts: RowCounts): void {
    if (rows.length === 0) return;
    const budgetUse = JSON.stringify(counts.budgetUse);
    for (const { row, at, periodStart, count, body } of rows) {
      const values = [
        row,
        at,
        periodStart,
        count,
        body.byteLength,
        ...COUNTS.map((name) => counts[name]),
        budgetUse,
        body,
      ];
      if (this.#blankRow === null) this.#sql.exec(INSERT, ...values);
      else this.#sql.exec(OVERWRITE, ...values, this.#blankRow);
      this.#blankRow = null;
      this.#lastRow = row;
      this.#addUnsettled(periodStart, count);
    }
  }

  rolledBack(): void {
    this.#unsettled = null;
    this.#findLastRow();
  }

  /** Idempotent. @returns whether any of the rows was still unsettled. */
  settle(rows: readonly number[]): boolean {
    const lastRow = this.#lastRow;
    const deleted = this.#subtractSettled(
      this.#sql.exec<SettledRow>(
        `DELETE FROM outbox WHERE row IN (SELECT value FROM json_each(?)) AND row <> ?
         RETURNING period_start, count`,
        JSON.stringify(rows),
        lastRow,
      ),
    );
    if (!rows.includes(lastRow) || this.#blankRow === lastRow) return deleted;
    const blanked = this.#subtractSettled(
      this.#sql.exec<SettledRow>(
        "UPDATE outbox SET bytes = 0, body = x'' WHERE row = ? RETURNING period_start, count",
        lastRow,
      ),
    );
    if (blanked) this.#blankRow = lastRow;
    return deleted || blanked;
  }

  /** Called after each statement, since the next one may fail. @returns whether any row was settled. */
  #subtractSettled(settled: Iterable<SettledRow>): boolean {
    let any = false;
    for (const { period_start, count } of settled) {
      this.#addUnsettled(period_start, -count);
      any = true;
    }
    return any;
  }

  messages(range: SendRange): PackedMessage[] {
    const packer = new MessagePacker();
    const found = this.#sql.exec<{ row: number; at: number; body: ArrayBuffer }>(
      "SELECT row, at, body FROM outbox WHERE row > ? AND bytes > 0 ORDER BY row LIMIT 1000",
      range.afterRow,
    );
    for (const { row, at, body } of found) {
      // Rows are ordered by time, and very many may follow.
      if (at > range.admittedUntil || packer.bytes > SEND_BATCH_MAX_BYTES) break;
      packer.add({ row, body: new Uint8Array(body) });
    }
    return packer.take("all", range.maxMessages, SEND_BATCH_MAX_BYTES);
  }

  /**
   * Moves the oldest rows that cannot be parsed to `unreadable_rows`. Their signals still count as unsettled. Runs in a
   * transaction. @returns the number of moved signals.
   */
  setAsideUnreadable(admittedUntil: number): number {
    let signals = 0;
    for (let oldest = this.oldest(); oldest !== null && oldest.atMs <= admittedUntil; oldest = this.oldest()) {
      const { row } = oldest;
      const { body } = this.#sql.exec<{ body: ArrayBuffer }>("SELECT body FROM outbox WHERE row = ?", row).one();
      if (!isUnreadable(body)) break;
      const moved = this.#sql
        .exec<SettledRow>(
          `INSERT INTO unreadable_rows SELECT row, at, period_start, count, body FROM outbox WHERE row = ?
           RETURNING period_start, count`,
          row,
        )
        .one();
      this.settle([row]);
      this.#addUnsettled(moved.period_start, moved.count);
      signals += moved.count;
    }
    return signals;
  }

  unreadableSignals(): number {
    return this.#sql.exec<{ signals: number }>("SELECT total(count) AS signals FROM unreadable_rows").one().signals;
  }

  oldest(): { row: number; atMs: number } | null {
    const [first = null] = this.#sql.exec<{ row: number; atMs: number }>(
      "SELECT row, at AS atMs FROM outbox WHERE bytes > 0 ORDER BY row LIMIT 1",
    );
    return first;
  }

  get databaseBytes(): number {
    return this.#sql.databaseSize;
  }

  get isFull(): boolean {
    return this.#sql.databaseSize >= this.#maxBytes();
  }

  unsettled(periodStartMs?: number): number {
    const byPeriod = (this.#unsettled ??= this.#countUnsettled());
    if (periodStartMs !== undefined) return byPeriod.get(periodStartMs) ?? 0;
    return [...byPeriod.values()].reduce((sum, signals) => sum + signals, 0);
  }

  #countUnsettled(): Map<number, number> {
    const rows = this.#sql.exec<SettledRow>(
      `SELECT period_start, sum(count) AS count
       FROM (SELECT period_start, count FROM outbox WHERE bytes > 0 UNION ALL SELECT period_start, count FROM unreadable_rows)
       GROUP BY period_start`,
    );
    return new Map(rows.toArray().map(({ period_start, count }) => [period_start, count]));
  }

  #addUnsettled(periodStartMs: number, signals: number): void {
    this.#unsettled?.set(periodStartMs, (this.#unsettled.get(periodStartMs) ?? 0) + signals);
  }

  #findLastRow(): void {
    const [last] = this.#sql
      .exec<{ row: number; bytes: number }>("SELECT row, bytes FROM outbox ORDER BY row DESC LIMIT 1")
      .toArray();
    this.#lastRow = last?.row ?? 0;
    this.#blankRow = last?.bytes === 0 ? last.row : null;
  }
}

/** `sendBatch` takes 100 messages and 256 KB. */
export const SEND_BATCH_MAX_MESSAGES = 100;
export const SEND_BATCH_MAX_BYTES = 250_000;

export interface PackedRow {
  row: number;
  at: number;
  periodStart: number;
  count: number;
  body: Uint8Array;
}

interface OpenRow {
  row: OutboxRow;
  calls: Uint8Array[];
  /** Size of the finished row, or a few bytes more. */
  bytes: number;
}

const encoder = new TextEncoder();

/** Packs a commit's signals into rows of at most MESSAGE_MAX_BYTES. A larger signal gets a row alone. */
export class RowPacker {
  readonly #rows: OpenRow[] = [];
  readonly #header: Omit<OutboxRow, "row" | "first" | "count" | "accepted">;
  #nextRow: number;
  #used: number;

  constructor(
    header: { at: number; period_start: number; period_end: number; limit: number },
    nextRow: number,
    used: number,
  ) {
    this.#header = header;
    this.#nextRow = nextRow;
    this.#used = used;
  }

  /** Adds the first signals of a call. Each row with some of them has the head of the call. */
  add({ head, signals, sizes }: WrittenCall, run: Record<AdmittedVerdict, number>): void {
    const headBytes = encoder.encode(head);
    const keep = ordinalsTaken(run);
    let row = this.#rows.at(-1);
    // The bytes of the call that go into `row`.
    let [begin, end] = [0, 0];
    for (let nth = 0; nth < keep; nth++) {
      const size = sizes[nth] ?? 0;
      const more = begin === end ? headBytes.length + size : size;
      if (row === undefined || row.bytes + more > MESSAGE_MAX_BYTES) {
        row?.calls.push(signals.subarray(begin, end));
        row = this.#open();
        begin = end;
      }
      if (begin === end) {
        row.calls.push(headBytes);
        row.bytes += headBytes.length;
      }
      end += size;
      row.bytes += size;
      row.row.count++;
      if (nth < run.accepted) row.row.accepted++;
      this.#used++;
    }
    row?.calls.push(signals.subarray(begin, end));
  }

  #open(): OpenRow {
    const row = { ...this.#header, row: this.#nextRow++, first: this.#used + 1, count: 0, accepted: 0 };
    const opened = { row, calls: [], bytes: ROW_HEADER_BYTES };
    this.#rows.push(opened);
    return opened;
  }

  rows(): PackedRow[] {
    return this.#rows.map(({ row, calls }) => {
      const { row: number, at, period_start: periodStart, count } = row;
      return { row: number, at, periodStart, count, body: writeRow(row, calls) };
    });
  }
}

/** `all` includes the partly filled message. */
export type WhichMessages = "all" | "full";

export interface PackedMessage {
  rows: Uint8Array[];
  bytes: number;
  lastRow: number;
}

export class MessagePacker {
  /** Only the last message may have room. */
  #messages: PackedMessage[] = [];
  #bytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  get isEmpty(): boolean {
    return this.#messages.length === 0;
  }

  get hasFull(): boolean {
    return this.#messages.length > 1;
  }

  add({ row, body }: Pick<PackedRow, "row" | "body">): void {
    const last = this.#messages.at(-1);
    const bytes = body.byteLength;
    this.#bytes += bytes;
    if (last === undefined || last.bytes + bytes > MESSAGE_MAX_BYTES) {
      this.#messages.push({ rows: [body], bytes, lastRow: row });
      return;
    }
    last.rows.push(body);
    last.bytes += bytes;
    last.lastRow = row;
  }

  /** Removes the first messages, within both limits, but at least one. */
  take(which: WhichMessages, maxMessages: number, maxBytes: number): PackedMessage[] {
    const ready = which === "all" ? this.#messages : this.#messages.slice(0, -1);
    let [count, sum] = [0, 0];
    for (const { bytes } of ready.slice(0, maxMessages)) {
      if (count > 0 && sum + bytes > maxBytes) break;
      count++;
      sum += bytes;
    }
    this.#bytes -= sum;
    return this.#messages.splice(0, count);
  }

  clear(): void {
    this.#messages = [];
    this.#bytes = 0;
  }
}

const CLOCK_SKEW_MS = 5_000;
/** Maximum time from an id to its commit: each attempt of the edge has new ids and this timeout. */
const COMMIT_MAX_DELAY_MS = CALL_TIMEOUT_MS;

/** The id's time limits the search, and SQLite compares the bodies. Resent signals are found in the Signal Store. */
export function findInFlight(sql: SqlStorage, signalId: string): Admission | null {
  const idMs = uuidv7Ms(signalId.slice(signalId.indexOf("_") + 1));
  if (idMs === null) return null;
  const [fromMs, untilMs] = [idMs - CLOCK_SKEW_MS, idMs + COMMIT_MAX_DELAY_MS + CLOCK_SKEW_MS];
  const rows = sql.exec<{ body: ArrayBuffer }>(
    "SELECT body FROM outbox WHERE row >= ? AND row < ? AND at BETWEEN ? AND ? AND instr(body, ?) > 0 ORDER BY row",
    firstRowSince(sql, fromMs),
    firstRowSince(sql, untilMs + 1),
    fromMs,
    untilMs,
    beginningOfSignal(signalId),
  );
  for (const { body } of rows) {
    const { rows: received } = readMessage(body);
    const found = received.flatMap(({ signals }) => signals).find(({ admission }) => admission.id === signalId);
    if (found !== undefined) return found.admission;
  }
  return null;
}

/** Binary search for the first row since `atMs`: row numbers rise with time but have gaps. At most 53 reads. */
function firstRowSince(sql: SqlStorage, atMs: number): number {
  // Two queries, because each reads one end of the table; a single query would scan it.
  const first = sql.exec<{ row: number | null }>("SELECT min(row) AS row FROM outbox").one();
  const last = sql.exec<{ row: number | null }>("SELECT max(row) AS row FROM outbox").one();
  if (first.row === null || last.row === null) return 0;
  let [low, high] = [first.row, last.row + 1];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const { row, at } = sql
      .exec<{ row: number; at: number }>("SELECT row, at FROM outbox WHERE row >= ? ORDER BY row LIMIT 1", middle)
      .one();
    if (at < atMs) low = row + 1;
    else high = middle;
  }
  return low;
}
