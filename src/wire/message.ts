/**
 * What travels from the Quota Counter to the consumer: one text of JSON records, each after an ASCII record separator
 * (a JSON text sequence, RFC 7464), each outbox row after a group separator. The edge writes a signal's records once;
 * outbox, drain and queue pass them on as text. No raw JSON text can hold a separator, so a signal's payload is carried
 * exactly as it was sent, a broken one cannot spoil its neighbours, and neither can a broken row.
 *
 *     workspace id  ( ␝row  ( ␞envelope ␞payload ){count} )+
 *
 * The first row of a message also says `low`: the lowest row that was not settled when the message was sent.
 */
import { readAdmission } from "./admission.ts";
import type { Admission, Envelope, OutboxRow } from "./admission.ts";

const RECORD = "\u001e";
const ROW = "\u001d";
const ROW_BEGINS = `${ROW}{`;
/** The version in which rows are written; see `READERS`. */
const VERSION = 1;

/** Each signal is two records: envelope and payload. */
const RECORDS_PER_SIGNAL = 2;

/** Bytes that a row's own record takes at most. */
export const ROW_HEADER_BYTES = 220;

export interface ReceivedSignal {
  admission: Admission;
  payload: string;
}

/** An outbox row never spans messages: all its signals are here, and are settled together. */
export interface ReceivedRow {
  row: OutboxRow;
  signals: ReceivedSignal[];
}

export interface ReceivedMessage {
  workspaceId: string;
  /** All rows with a lower number were settled when the message was sent; 0: not known. */
  low: number;
  rows: ReceivedRow[];
  /** How many rows could not be read. They stay in the outbox. */
  unreadable: number;
  /** How many rows are of a version yet to come, which this release cannot read and a later one can. They stay as well. */
  newer: number;
}

export function writeSignal(envelope: Envelope, payload: string): string {
  return RECORD + JSON.stringify(envelope) + RECORD + payload;
}

/** Writes the signals of one call: what their envelopes have in common is written once. */
export function signalWriter(
  common: Omit<Envelope, "id" | "idem">,
): (id: string, idem: string | undefined, payload: string) => string {
  const rest = `${JSON.stringify(common).slice(1)}${RECORD}`;
  return (id, idem, payload) => {
    const own = idem === undefined ? "" : `"idem":${JSON.stringify(idem)},`;
    return `${RECORD}{"id":"${id}",${own}${rest}${payload}`;
  };
}

export function writeRow(row: OutboxRow, signals: string): string {
  return ROW + JSON.stringify({ v: VERSION, ...row }) + signals;
}

/** @param low the lowest row that is not settled. */
export function writeMessage(workspaceId: string, low: number, rows: string): string {
  return workspaceId + rows.replace(ROW_BEGINS, `${ROW_BEGINS}"low":${low},`);
}

/** Whether a row's text is one that no release can read: neither this one nor a later one. */
export function isUnreadable(text: string): boolean {
  const { rows, newer } = readMessage(text);
  return rows.length + newer === 0;
}

/** The first `count` signals of a text made by `writeSignal`. */
export function firstSignals(signals: string, count: number): string {
  let end = -1;
  for (let record = 0; record <= count * RECORDS_PER_SIGNAL; record++) {
    end = signals.indexOf(RECORD, end + 1);
    if (end === -1) return signals;
  }
  return signals.slice(0, end);
}

/** Reads each row by itself: one that cannot be read, by a bug or because its version is gone, takes no other along. */
export function readMessage(body: string): ReceivedMessage {
  const [workspaceId = "", ...rows] = body.split(ROW);
  const message: ReceivedMessage = { workspaceId, low: 0, rows: [], unreadable: 0, newer: 0 };
  for (const text of rows) {
    try {
      const row = readRow(text);
      if (row === null) message.newer++;
      else {
        const { low, ...received } = row;
        message.low = Math.max(message.low, low);
        message.rows.push(received);
      }
    } catch {
      message.unreadable++;
    }
  }
  return message;
}

/**
 * How a row of each version is read. Rows outlive the code that wrote them, in the outbox and in the queue: a new version
 * is a new entry, which the release before the one that writes it must have, and an old entry goes with the last of its rows.
 */
const READERS: Readonly<Record<number, (header: OutboxRow, records: readonly string[]) => ReceivedSignal[]>> = {
  1: readPairs,
};

/**
 * @returns null for a row of a version yet to come.
 * @throws Error when the text is no row of a version that is known.
 */
function readRow(text: string): (ReceivedRow & { low: number }) | null {
  const [header = "", ...records] = text.split(RECORD);
  const { v, low = 0, ...row } = JSON.parse(header) as OutboxRow & { v: number; low?: number };
  const read = READERS[v];
  if (read === undefined && v > VERSION) return null;
  if (read === undefined) throw new Error("not a row of a version that is known");
  return { row, signals: read(row, records), low };
}

/** Version 1: an envelope and a payload for each signal. */
function readPairs(row: OutboxRow, records: readonly string[]): ReceivedSignal[] {
  if (records.length !== row.count * RECORDS_PER_SIGNAL) throw new Error("not as many records as the row says");
  return Array.from({ length: row.count }, (_, index): ReceivedSignal => {
    const envelope = JSON.parse(records[index * RECORDS_PER_SIGNAL] ?? "") as Envelope;
    return {
      admission: readAdmission(row, envelope, index),
      payload: records[index * RECORDS_PER_SIGNAL + 1] ?? "",
    };
  });
}
