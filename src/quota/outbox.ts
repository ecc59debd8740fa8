/**
 * The outbox: signals that are counted and not yet confirmed by the Signal Store. One row per commit, at most one queue
 * message long, so that rows are settled whole. Sending never deletes; only `settle` does.
 */
import type { OutboxRow, ReceivedSignal } from "../queue/message.ts";
import { ROW_HEADER_BYTES, firstSignals, readMessage, writeMessage, writeRow } from "../queue/message.ts";
import { MESSAGE_MAX_BYTES, SEND_BATCH_MAX_BYTES, SEND_BATCH_MAX_MESSAGES } from "../limits.ts";
import type { AdmitChunk } from "./protocol.ts";

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
  write(sql: SqlStorage): number {
    for (const { row, signals, bytes } of this.#rows) {
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

/** Which rows to send: those after a number, admitted up to a time. */
export interface SendRange {
  afterRow: number;
  admittedUntil: number;
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
  const found = sql.exec<{ row: number; bytes: number; body: string }>(
    "SELECT row, bytes, body FROM outbox WHERE row > ? AND at <= ? ORDER BY row LIMIT 1000",
    range.afterRow,
    range.admittedUntil,
  );
  for (const next of found) {
    if (bytes + next.bytes > MESSAGE_MAX_BYTES) close();
    if (messages.length === SEND_BATCH_MAX_MESSAGES || totalBytes + next.bytes > SEND_BATCH_MAX_BYTES) break;
    rows += next.body;
    bytes += next.bytes;
    totalBytes += next.bytes;
    lastRow = next.row;
  }
  close();
  if (messages.length > 0) await send(messages);
  return lastRow;
}

/** Rows confirmed by the store; repeating it is harmless. */
export function deleteRows(sql: SqlStorage, rows: readonly number[]): void {
  sql.exec("DELETE FROM outbox WHERE row IN (SELECT value FROM json_each(?))", JSON.stringify(rows));
}

/** When the oldest unsettled row was admitted; null when all is settled. */
export function oldestUnsettled(sql: SqlStorage): number | null {
  return sql.exec<{ at: number }>("SELECT at FROM outbox ORDER BY row LIMIT 1").toArray()[0]?.at ?? null;
}

/** Signals that are not settled yet; of one period when `periodStartMs` is given. */
export function unsettledSignals(sql: SqlStorage, periodStartMs: number | undefined): number {
  return sql
    .exec<{ signals: number }>(
      "SELECT COALESCE(SUM(count), 0) AS signals FROM outbox WHERE ?1 IS NULL OR period_start = ?1",
      periodStartMs ?? null,
    )
    .one().signals;
}

/** A signal that the outbox holds; null when it does not. */
export function findUnsettled(sql: SqlStorage, workspaceId: string, signalId: string): ReceivedSignal | null {
  // Another signal's payload may quote the id, so that more than one row can hold the text.
  const rows = sql.exec<{ body: string }>("SELECT body FROM outbox WHERE instr(body, ?) > 0", `"${signalId}"`);
  for (const { body } of rows) {
    const { signals } = readMessage(writeMessage(workspaceId, body));
    const found = signals.find((signal) => signal.envelope.id === signalId);
    if (found !== undefined) return found;
  }
  return null;
}
