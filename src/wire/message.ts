/**
 * The message from the Quota Counter to the consumer. The edge writes a signal's records once; outbox, drain and queue
 * pass them on as text. Separators are ASCII control characters (as in RFC 7464), which valid JSON never contains. So
 * payloads travel verbatim, and a broken payload or row does not break its neighbours.
 *
 *     workspace id  ( ␝row  ( ␞envelope ␞payload ){count} )+
 *
 * A message's first row also has `low`: the lowest row that was unsettled when the message was sent.
 */
import { readAdmission, type Admission, type Envelope, type OutboxRow } from "./admission.ts";

const RECORD = "\u001e";
const ROW = "\u001d";
const ROW_BEGINS = `${ROW}{`;
/** Version of new rows, see READERS. */
const VERSION = 1;

const RECORDS_PER_SIGNAL = 2;

/** Maximum size of a row's own record. */
export const ROW_HEADER_BYTES = 220;

export interface ReceivedSignal {
  admission: Admission;
  payload: string;
}

export interface ReceivedRow {
  row: OutboxRow;
  signals: ReceivedSignal[];
}

export interface ReceivedMessage {
  workspaceId: string;
  /** All rows with a lower number were settled when the message was sent; 0: not known. */
  low: number;
  rows: ReceivedRow[];
  /** Rows that could not be read. They stay in the outbox. */
  unreadable: number;
  /** Rows of a newer version, which a later release can read. They stay in the outbox too. */
  newer: number;
}

export function writeSignal(envelope: Envelope, payload: string): string {
  return RECORD + JSON.stringify(envelope) + RECORD + payload;
}

export function writeRow(row: OutboxRow, signals: string): string {
  return ROW + JSON.stringify({ v: VERSION, ...row }) + signals;
}

export function writeMessage(workspaceId: string, low: number, rows: string): string {
  return workspaceId + rows.replace(ROW_BEGINS, `${ROW_BEGINS}"low":${low},`);
}

/** Whether neither this release nor a later one can read the row. */
export function isUnreadable(text: string): boolean {
  const { rows, newer } = readMessage(text);
  return rows.length + newer === 0;
}

export function firstSignals(signals: string, count: number): string {
  let end = -1;
  for (let record = 0; record <= count * RECORDS_PER_SIGNAL; record++) {
    end = signals.indexOf(RECORD, end + 1);
    if (end === -1) return signals;
  }
  return signals.slice(0, end);
}

/** Reads rows separately, so that an unreadable one does not affect the others. */
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
 * Rows outlive the code that wrote them: one release adds a reader, the next writes that version. An old reader is
 * removed after its last row.
 */
const READERS: Readonly<Record<number, (header: OutboxRow, records: readonly string[]) => ReceivedSignal[]>> = {
  1: readPairs,
};

/** Null: a row of a newer version. @throws if the text is no row of a known version. */
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
