/**
 * What travels from the Quota Counter to the consumer: one text of JSON records, each after an ASCII record separator
 * (a JSON text sequence, RFC 7464). The edge writes a signal's records once; outbox, drain and queue pass them on as
 * text. No raw JSON text can hold the separator, so a signal's payload is carried exactly as it was sent and a broken
 * one cannot spoil its neighbours.
 *
 *     ␞{"v":1,"workspace":"ws_…"}  ( ␞{row}  ( ␞{envelope} ␞payload ){count} )+
 */
import type { EndpointType, Verdict } from "../domain/signal.ts";

const SEPARATOR = "\u001e";
const VERSION = 1;

/** Each signal is two records: envelope and payload. */
const RECORDS_PER_SIGNAL = 2;

/** Bytes that a row's own record takes at most. */
export const ROW_HEADER_BYTES = 220;

/** What the edge says of a signal besides its payload. */
export interface Envelope {
  /** `sig_` + UUIDv7. */
  id: string;
  /** Id of the API key. */
  key: string;
  endpoint?: "product_org";
  /** The `{source}` of the path. */
  source?: string;
  /** The request's `Idempotency-Key` and the signal's index, when it sent one. */
  idem?: string;
  /** A signal that is sent once more, released or replayed: how it was admitted, in place of what its row says. */
  again?: Again;
}

export interface Again {
  verdict: Verdict;
  ordinal: number;
  at: number;
  period_start: number;
  period_end: number;
  limit: number;
}

/** One commit of the Quota Counter: all its signals share time, period and limit. */
export interface OutboxRow {
  row: number;
  /** When the signals were counted: their receipt. */
  at: number;
  period_start: number;
  period_end: number;
  limit: number;
  /** Ordinal of the first signal; the others follow without a gap. */
  first: number;
  /** Signals of the row, and how many of them, from the front, are accepted; the rest are held. */
  count: number;
  accepted: number;
}

export interface ReceivedSignal {
  envelope: Envelope;
  row: OutboxRow;
  verdict: Verdict;
  ordinal: number;
  endpoint: EndpointType;
  payload: string;
}

export interface ReceivedMessage {
  workspaceId: string;
  rows: number[];
  signals: ReceivedSignal[];
}

export function writeSignal(envelope: Envelope, payload: string): string {
  return SEPARATOR + JSON.stringify(envelope) + SEPARATOR + payload;
}

export function writeRow(row: OutboxRow, signals: string): string {
  return SEPARATOR + JSON.stringify(row) + signals;
}

export function writeMessage(workspaceId: string, rows: string): string {
  return `${SEPARATOR}{"v":${VERSION},"workspace":${JSON.stringify(workspaceId)}}${rows}`;
}

/** The first `count` signals of a text made by `writeSignal`. */
export function firstSignals(signals: string, count: number): string {
  let end = -1;
  for (let record = 0; record <= count * RECORDS_PER_SIGNAL; record++) {
    end = signals.indexOf(SEPARATOR, end + 1);
    if (end === -1) return signals;
  }
  return signals.slice(0, end);
}

/** @throws Error when the text is no message of this version: a bug, or a version that is gone. */
export function readMessage(text: string): ReceivedMessage {
  const records = text.split(SEPARATOR);
  const head = JSON.parse(records[1] ?? "") as { v: number; workspace: string };
  if (head.v !== VERSION) throw new Error(`queue message of version ${head.v}, expected ${VERSION}`);
  const message: ReceivedMessage = { workspaceId: head.workspace, rows: [], signals: [] };
  for (let at = 2; at < records.length;) at = readRow(records, at, message);
  return message;
}

function readRow(records: string[], start: number, into: ReceivedMessage): number {
  const row = JSON.parse(records[start] ?? "") as OutboxRow;
  into.rows.push(row.row);
  let at = start + 1;
  for (let index = 0; index < row.count; index++, at += RECORDS_PER_SIGNAL) {
    const envelope = JSON.parse(records[at] ?? "") as Envelope;
    const { again } = envelope;
    into.signals.push({
      envelope,
      row: again === undefined ? row : { ...row, ...again },
      verdict: again?.verdict ?? (index < row.accepted ? "accepted" : "held"),
      ordinal: again?.ordinal ?? row.first + index,
      endpoint: envelope.endpoint ?? "signal_staging",
      payload: records[at + 1] ?? "",
    });
  }
  return at;
}
