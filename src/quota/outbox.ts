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
import type { AdmitChunk, Counts } from "./protocol.ts";
import type { Admission, OutboxRow } from "../wire/admission.ts";
import { ROW_HEADER_BYTES, firstSignals, isUnreadable, readMessage, writeMessage, writeRow } from "../wire/message.ts";

const COUNTS = [...VERDICTS, "overage", "admitted"] as const satisfies (keyof Counts)[];
const COLUMNS = ["row", "at", "period_start", "count", "bytes", ...COUNTS, "resent", "body"];
const INSERT = `INSERT INTO outbox (${COLUMNS.join(", ")}) VALUES (${COLUMNS.map(() => "?").join(", ")})`;
const OVERWRITE = `UPDATE outbox SET ${COLUMNS.map((column) => `${column} = ?`).join(", ")} WHERE row = ?`;

type SettledRow = { period_start: number; count: number };

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
    // `body` is last, so that queries for counts and ages do not read it. A blank row has 0 bytes.
    sql.exec(`CREATE TABLE IF NOT EXISTS outbox (
      row INTEGER PRIMARY KEY, at INTEGER NOT NULL, period_start INTEGER NOT NULL, count INTEGER NOT NULL,
      bytes INTEGER NOT NULL, ${COUNTS.map((name) => `${name} INTEGER NOT NULL`).join(", ")}, resent INTEGER NOT NULL, body TEXT NOT NULL)`);
    // Rows that a bug made unparsable: kept for inspection, without blocking others.
    sql.exec(`CREATE TABLE IF NOT EXISTS unreadable_rows (
      row INTEGER PRIMARY KEY, at INTEGER NOT NULL, period_start INTEGER NOT NULL, count INTEGER NOT NULL, body TEXT NOT NULL)`);
    this.#findLastRow();
  }

  lastCounts(): (Counts & { row: number }) | null {
    const last = this.#sql.exec<{ row: number } & Record<keyof Counts, number>>(
      `SELECT row, ${COUNTS.join(", ")} FROM outbox ORDER BY row DESC LIMIT 1`,
    );
    return last.toArray()[0] ?? null;
  }

  write(rows: PackedRow[], counts: Counts): void {
    for (const { row, at, periodStart, count, bytes, isResent, text } of rows) {
      const values = [
        row,
        at,
        periodStart,
        count,
        bytes,
        ...COUNTS.map((name) => counts[name]),
        Number(isResent),
        text,
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
        "UPDATE outbox SET bytes = 0, body = '' WHERE row = ? RETURNING period_start, count",
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
    const found = this.#sql.exec<{ row: number; at: number; bytes: number; body: string }>(
      "SELECT row, at, bytes, body FROM outbox WHERE row > ? AND bytes > 0 ORDER BY row LIMIT 1000",
      range.afterRow,
    );
    for (const { row, at, bytes, body } of found) {
      // Rows are ordered by time, and very many may follow.
      if (at > range.admittedUntil || packer.bytes > SEND_BATCH_MAX_BYTES) break;
      packer.add({ row, bytes, text: body });
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
      const { body } = this.#sql.exec<{ body: string }>("SELECT body FROM outbox WHERE row = ?", row).one();
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
  /** UTF-8 length of `text`, or a few bytes more. */
  bytes: number;
  /** Whether the Signal Store already has the signals (a release or a replay). */
  isResent: boolean;
  text: string;
}

/** Packs a commit's signals into rows of at most MESSAGE_MAX_BYTES. */
export class RowPacker {
  readonly #rows: { row: OutboxRow; signals: string; bytes: number }[] = [];
  readonly #header: Omit<OutboxRow, "row" | "first" | "count" | "accepted">;
  #nextRow: number;
  #used: number;
  readonly #isResent: boolean;

  constructor(
    header: { at: number; period_start: number; period_end: number; limit: number },
    nextRow: number,
    used: number,
    isResent = false,
  ) {
    this.#header = header;
    this.#nextRow = nextRow;
    this.#used = used;
    this.#isResent = isResent;
  }

  add(chunks: AdmitChunk[], run: Record<AdmittedVerdict, number>): void {
    let keep = ordinalsTaken(run);
    let acceptedLeft = run.accepted;
    for (const chunk of chunks) {
      if (keep === 0) return;
      const count = Math.min(keep, chunk.count);
      const signals = count === chunk.count ? chunk.text : firstSignals(chunk.text, count);
      const acceptedHere = Math.min(acceptedLeft, count);
      this.#append(signals, chunk.bytes, count, acceptedHere);
      keep -= count;
      acceptedLeft -= acceptedHere;
    }
  }

  #append(signals: string, bytes: number, count: number, accepted: number): void {
    const last = this.#rows.at(-1);
    if (last !== undefined && last.bytes + bytes <= MESSAGE_MAX_BYTES) {
      last.signals += signals;
      last.bytes += bytes;
      last.row.count += count;
      last.row.accepted += accepted;
    } else {
      const row = { ...this.#header, row: this.#nextRow++, first: this.#used + 1, count, accepted };
      this.#rows.push({ row, signals, bytes: bytes + ROW_HEADER_BYTES });
    }
    this.#used += count;
  }

  rows(): PackedRow[] {
    return this.#rows.map(({ row, signals, bytes }) => {
      const { row: number, at, period_start: periodStart, count } = row;
      return { row: number, at, periodStart, count, bytes, isResent: this.#isResent, text: writeRow(row, signals) };
    });
  }
}

/** `all` includes the partly filled message. */
export type WhichMessages = "all" | "full";

export interface PackedMessage {
  rows: string;
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

  add({ row, bytes, text }: Pick<PackedRow, "row" | "bytes" | "text">): void {
    const last = this.#messages.at(-1);
    this.#bytes += bytes;
    if (last === undefined || last.bytes + bytes > MESSAGE_MAX_BYTES) {
      this.#messages.push({ rows: text, bytes, lastRow: row });
      return;
    }
    last.rows += text;
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
export function findInFlight(sql: SqlStorage, workspaceId: string, signalId: string): Admission | null {
  const idMs = uuidv7Ms(signalId.slice(signalId.indexOf("_") + 1));
  if (idMs === null) return null;
  const [fromMs, untilMs] = [idMs - CLOCK_SKEW_MS, idMs + COMMIT_MAX_DELAY_MS + CLOCK_SKEW_MS];
  const rows = sql.exec<{ body: string }>(
    "SELECT body FROM outbox WHERE row >= ? AND row < ? AND at BETWEEN ? AND ? AND instr(body, ?) > 0 ORDER BY row",
    firstRowSince(sql, fromMs),
    firstRowSince(sql, untilMs + 1),
    fromMs,
    untilMs,
    `"${signalId}"`,
  );
  // A payload may quote another signal's id.
  for (const { body } of rows) {
    const { rows: received } = readMessage(writeMessage(workspaceId, 0, body));
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
