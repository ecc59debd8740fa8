/**
 * The message from the Quota Counter to the consumer: JSON records, each after an ASCII record separator (a JSON text sequence,
 * RFC 7464), with a group separator before each outbox row. The edge writes the records of a signal once; outbox, drain and queue
 * pass them on as text. Valid JSON text never contains a separator, so payloads travel verbatim, and a broken payload or row does not
 * break its neighbours.
 *
 *     workspace id  ( ␝row  ( ␞envelope ␞payload ){count} )+
 *
 * The first row of a message also has `low`: the lowest row that was not settled when the message was sent.
 */
import { readAdmission, type Admission, type Envelope, type OutboxRow } from "./admission.ts";

const RECORD = "\u001e";
const ROW = "\u001d";
const ROW_BEGINS = `${ROW}{`;
/** The version of new rows, see `READERS`. */
const VERSION = 1;

/** Envelope and payload. */
const RECORDS_PER_SIGNAL = 2;

/** Maximum bytes of the record of a row without its signals. */
export const ROW_HEADER_BYTES = 220;

export interface ReceivedSignal {
  admission: Admission;
  payload: string;
}

/** An outbox row never spans messages, and its signals are settled together. */
export interface ReceivedRow {
  row: OutboxRow;
  signals: ReceivedSignal[];
}

export interface ReceivedMessage {
  workspaceId: string;
  /** All rows with a lower number were settled when the message was sent; 0: not known. */
  low: number;
  rows: ReceivedRow[];
  /** Number of rows that could not be read. They stay in the outbox. */
  unreadable: number;
  /** Number of rows of a newer version, which only a later release can read. They stay in the outbox too. */
  newer: number;
}

export function writeSignal(envelope: Envelope, payload: string): string {
  return RECORD + JSON.stringify(envelope) + RECORD + payload;
}

/** Returns a writer for the signals of one call, which serializes the common part of the envelopes once. */
export function signalWriter(
  common: Omit<Envelope, "id" | "idem">,
): (id: string, idem: string | undefined, payload: string) => string {
  const rest = `${JSON.stringify(common).slice(1)}${RECORD}`;
  return (id, idem, payload) => {
    const key = idem === undefined ? "" : `"idem":${JSON.stringify(idem)},`;
    return `${RECORD}{"id":"${id}",${key}${rest}${payload}`;
  };
}

export function writeRow(row: OutboxRow, signals: string): string {
  return ROW + JSON.stringify({ v: VERSION, ...row }) + signals;
}

/** @param low the lowest row that is not settled. */
export function writeMessage(workspaceId: string, low: number, rows: string): string {
  return workspaceId + rows.replace(ROW_BEGINS, `${ROW_BEGINS}"low":${low},`);
}

/** Whether neither this release nor a later release can read a row. */
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

/** Reads each row separately, so that an unreadable row does not affect the others. */
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
 * Readers by row version. Rows in the outbox and in the queue outlive the code that wrote them. So one release adds the reader of a
 * new version, and the next release writes that version. An old reader is removed after its last row.
 */
const READERS: Readonly<Record<number, (header: OutboxRow, records: readonly string[]) => ReceivedSignal[]>> = {
  1: readPairs,
};

/**
 * @returns null for a row of a newer version.
 * @throws Error when the text is no row of a known version.
 */
function readRow(text: string): (ReceivedRow & { low: number }) | null {
  const [header = "", ...records] = text.split(RECORD);
  const { v, low = 0, ...row } = JSON.parse(header) as OutboxRow & { v: number; low?: number };
  const read = READERS[v];
  if (read === undefined && v > VERSION) return null;
  if (read === undefined) throw new Error("not a row of a version that is known");
  return { row, signals: read(row, records), low };
}

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
