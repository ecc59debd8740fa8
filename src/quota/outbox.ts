/**
 * The outbox: signals that are counted and not yet confirmed by the Signal Store. One row per commit, at most one queue
 * message long, so that rows are settled whole. Sending never deletes; only `settle` does.
 */
import type { OutboxRow, ReceivedSignal } from "../queue/message.ts";
import {
  ROW_HEADER_BYTES,
  firstSignals,
  readMessage,
  renumberedRow,
  writeMessage,
  writeRow,
} from "../queue/message.ts";
import { uuidv7Ms } from "../domain/uuidv7.ts";
import { ADMISSION_MAX_SKEW_MS, MESSAGE_MAX_BYTES, SEND_BATCH_MAX_BYTES } from "../limits.ts";
import type { AdmitChunk } from "./protocol.ts";

/** Rows that are in memory while they get new numbers. */
const RENUMBER_ROWS = 100;

export function createOutboxTable(sql: SqlStorage): void {
  // `body` comes last: what only counts or looks for old rows does not read it.
  sql.exec(`CREATE TABLE IF NOT EXISTS outbox (
    row INTEGER PRIMARY KEY, at INTEGER NOT NULL, period_start INTEGER NOT NULL, count INTEGER NOT NULL,
    bytes INTEGER NOT NULL, body TEXT NOT NULL)`);
}

/** Collects the signals of one commit into as few rows as MESSAGE_MAX_BYTES allows. */
export class RowPacker {
  readonly #rows: { row: OutboxRow; signals: string; bytes: number }[] = [];
  readonly #header: Omit<OutboxRow, "row" | "first" | "count" | "accepted">;
  #nextRow: number;
  /** Ordinals given out so far, and up to which of them verdicts are `accepted`. */
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

  /** Adds the first `accepted + held` signals of a call. */
  add(chunks: AdmitChunk[], accepted: number, held: number): void {
    let keep = accepted + held;
    let acceptedLeft = accepted;
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

  /** Writes the rows; returns the number of the next one. */
  write(sql: SqlStorage, unsettled: Unsettled): number {
    for (const { row, signals, bytes } of this.#rows) {
      unsettled.add(row.period_start, row.count);
      sql.exec(
        "INSERT INTO outbox (row, at, period_start, count, bytes, body) VALUES (?, ?, ?, ?, ?, ?)",
        row.row,
        row.at,
        row.period_start,
        row.count,
        bytes,
        writeRow(row, signals),
      );
    }
    return this.#nextRow;
  }
}

/** Which rows to send: those after a number, admitted up to a time, as many as fit so many messages. */
export interface SendRange {
  afterRow: number;
  admittedUntil: number;
  maxMessages: number;
}

/** The queue's `sendBatch`. */
export type SendMessages = (messages: { body: string; contentType: "text" }[]) => Promise<unknown>;

/** Sends one `sendBatch` of rows in the range. Returns the last row sent, or null when there was none to send. */
export async function sendNextRows(
  sql: SqlStorage,
  send: SendMessages,
  workspaceId: string,
  range: SendRange,
): Promise<number | null> {
  const messages: { body: string; contentType: "text" }[] = [];
  let rows = "";
  let bytes = 0;
  let totalBytes = 0;
  let lastRow: number | null = null;
  const close = (): void => {
    if (rows !== "") messages.push({ body: writeMessage(workspaceId, rows), contentType: "text" });
    rows = "";
    bytes = 0;
  };
  const found = sql.exec<{ row: number; at: number; bytes: number; body: string }>(
    "SELECT row, at, bytes, body FROM outbox WHERE row > ? ORDER BY row LIMIT 1000",
    range.afterRow,
  );
  for (const next of found) {
    // Rows are in order of their time: those that follow are later still, and there may be very many.
    if (next.at > range.admittedUntil) break;
    if (bytes + next.bytes > MESSAGE_MAX_BYTES) close();
    if (messages.length === range.maxMessages || totalBytes + next.bytes > SEND_BATCH_MAX_BYTES) break;
    rows += next.body;
    bytes += next.bytes;
    totalBytes += next.bytes;
    lastRow = next.row;
  }
  close();
  if (messages.length > 0) await send(messages);
  return lastRow;
}

/** Rows confirmed by the store; repeating it is harmless. Says whether any was still there. */
export function deleteRows(sql: SqlStorage, rows: readonly number[], unsettled: Unsettled): boolean {
  let deleted = false;
  const gone = sql.exec<{ period_start: number; count: number }>(
    "DELETE FROM outbox WHERE row IN (SELECT value FROM json_each(?)) RETURNING period_start, count",
    JSON.stringify(rows),
  );
  for (const { period_start, count } of gone) {
    unsettled.add(period_start, -count);
    deleted = true;
  }
  return deleted;
}

/**
 * Numbers all rows anew from `firstRow` on, which is behind them all, in the same order, unless every one of them is
 * behind `behindRow` already. Returns how many.
 */
export function renumberRows(sql: SqlStorage, behindRow: number, firstRow: number): number {
  const any = sql.exec("SELECT 1 FROM outbox WHERE row <= ? LIMIT 1", behindRow).toArray();
  if (any.length === 0) return 0;
  let nextRow = firstRow;
  for (;;) {
    // Some at a time, each up to a message long.
    const rows = sql
      .exec<{ row: number; body: string }>(
        "SELECT row, body FROM outbox WHERE row < ? ORDER BY row LIMIT ?",
        firstRow,
        RENUMBER_ROWS,
      )
      .toArray();
    if (rows.length === 0) return nextRow - firstRow;
    for (const { row, body } of rows) {
      const renumbered = renumberedRow(body, nextRow);
      sql.exec("UPDATE outbox SET row = ?, body = ? WHERE row = ?", nextRow++, renumbered, row);
    }
  }
}

/** When the oldest unsettled row was admitted; null when all is settled. */
export function oldestUnsettled(sql: SqlStorage): number | null {
  return sql.exec<{ at: number }>("SELECT at FROM outbox ORDER BY row LIMIT 1").toArray()[0]?.at ?? null;
}

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

  /** What was added has been rolled back. */
  forget(): void {
    this.#byPeriod = null;
  }

  /** In all, or of one period. */
  signals(periodStartMs: number | undefined): number {
    const byPeriod = (this.#byPeriod ??= this.#count());
    if (periodStartMs !== undefined) return byPeriod.get(periodStartMs) ?? 0;
    return [...byPeriod.values()].reduce((sum, signals) => sum + signals, 0);
  }

  #count(): Map<number, number> {
    const rows = this.#sql.exec<{ period_start: number; count: number }>("SELECT period_start, count FROM outbox");
    const byPeriod = new Map<number, number>();
    for (const { period_start, count } of rows) byPeriod.set(period_start, (byPeriod.get(period_start) ?? 0) + count);
    return byPeriod;
  }
}

/**
 * A signal that the outbox holds; null when it does not. Looked for among the rows of the time that its id tells, so that
 * it takes no longer while the queue is down. One that is sent once more is not found: the Signal Store still has it.
 */
export function findUnsettled(sql: SqlStorage, workspaceId: string, signalId: string): ReceivedSignal | null {
  const receivedMs = uuidv7Ms(signalId.slice(signalId.indexOf("_") + 1));
  if (receivedMs === null) return null;
  const rows = sql.exec<{ at: number; body: string }>(
    "SELECT at, body FROM outbox WHERE row >= ? ORDER BY row",
    firstRowSince(sql, receivedMs - ADMISSION_MAX_SKEW_MS),
  );
  for (const { at, body } of rows) {
    if (at > receivedMs + ADMISSION_MAX_SKEW_MS) return null;
    // Another signal's payload may quote the id, so that more than one row can hold the text.
    if (!body.includes(`"${signalId}"`)) continue;
    const { rows: received } = readMessage(writeMessage(workspaceId, body));
    const found = received.flatMap(({ signals }) => signals).find((signal) => signal.envelope.id === signalId);
    if (found !== undefined) return found;
  }
  return null;
}

/** Rows are in order of their time, so it takes a few steps, however many there are. */
function firstRowSince(sql: SqlStorage, atMs: number): number {
  const end = (order: "ASC" | "DESC"): number =>
    sql.exec<{ row: number }>(`SELECT row FROM outbox ORDER BY row ${order} LIMIT 1`).toArray()[0]?.row ?? 0;
  let [low, high] = [end("ASC"), end("DESC")];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const { at } = sql.exec<{ at: number }>("SELECT at FROM outbox WHERE row > ? ORDER BY row LIMIT 1", middle).one();
    if (at < atMs) low = middle + 1;
    else high = middle;
  }
  return low;
}
