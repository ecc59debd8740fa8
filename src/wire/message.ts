/**
 * The message from the Quota Counter to the consumer. The edge writes the signals of a call once, as bytes; the counter
 * puts them into rows, and outbox, drain and queue pass the rows on. Separators are ASCII control characters, which
 * valid JSON never contains. So payloads travel verbatim, and a broken payload or row does not break its neighbours.
 *
 *     workspace id, space, low  ( ␝row  ( ␞call  ( ␟id[, space, index] ␟payload )+ )+ )+
 *
 * `low` is the lowest row that was unsettled when the message was sent. A call has what its signals share, such as the
 * key. Several calls share a row, and the call of a large body is repeated in each of its rows.
 */
import { readAdmission, type Admission, type CallHead, type OutboxRow, type SignalHead } from "./admission.ts";

const ROW = "\u001d";
const CALL = "\u001e";
const SIGNAL = "\u001f";
/** Version of new rows, see READERS. */
const VERSION = 1;

const TEXTS_PER_SIGNAL = 2;

/** Maximum size of a row's own record. */
export const ROW_HEADER_BYTES = 220;

/** The signals of a call, one after the other. */
export interface WrittenCall {
  /** Text of the call's head, with its separator. */
  head: string;
  signals: Uint8Array;
  /** The number of bytes of each signal. */
  sizes: number[];
}

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

const encoder = new TextEncoder();
/** Replaces invalid bytes of a payload as the edge does. */
const decoder = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });

/** @param signals the payloads are JSON, as sent. */
export function writeCall(head: CallHead, signals: readonly (SignalHead & { payload: Uint8Array })[]): WrittenCall {
  const heads = signals.map(({ id, index }) => SIGNAL + (index === undefined ? id : `${id} ${index}`) + SIGNAL);
  const sizes = signals.map(({ payload }, nth) => (heads[nth] ?? "").length + payload.length);
  const bytes = new Uint8Array(sizes.reduce((sum, size) => sum + size, 0));
  let at = 0;
  for (const [nth, { payload }] of signals.entries()) {
    const text = heads[nth] ?? "";
    // Ids are ASCII. A native call for each would take longer.
    for (let n = 0; n < text.length; n++) bytes[at++] = text.charCodeAt(n);
    bytes.set(payload, at);
    at += payload.length;
  }
  return { head: CALL + JSON.stringify(head), signals: bytes, sizes };
}

/** @param calls heads of calls, each with its signals. */
export function writeRow(row: OutboxRow, calls: readonly Uint8Array[]): Uint8Array {
  return joined([encoder.encode(ROW + JSON.stringify({ v: VERSION, ...row })), ...calls]);
}

export function writeMessage(workspaceId: string, low: number, rows: readonly Uint8Array[]): Uint8Array {
  return joined([encoder.encode(`${workspaceId} ${low}`), ...rows]);
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** The beginning of the signal in a row, up to the end of its id. No payload contains it. */
export function beginningOfSignal(id: string): Uint8Array {
  return encoder.encode(SIGNAL + id);
}

/** Whether neither this release nor a later one can read the row. */
export function isUnreadable(row: ArrayBuffer): boolean {
  const { rows, newer } = readMessage(row);
  return rows.length + newer === 0;
}

/** Reads rows separately, so that an unreadable one does not affect the others. */
export function readMessage(body: ArrayBuffer | Uint8Array): ReceivedMessage {
  const [head = "", ...rows] = decoder.decode(body).split(ROW);
  const [workspaceId = "", low = "0"] = head.split(" ");
  const message: ReceivedMessage = { workspaceId, low: Number(low), rows: [], unreadable: 0, newer: 0 };
  for (const text of rows) {
    try {
      const row = readRow(text);
      if (row === null) message.newer++;
      else message.rows.push(row);
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
const READERS: Readonly<Record<number, (row: OutboxRow, calls: readonly string[]) => ReceivedSignal[]>> = {
  1: readCalls,
};

/** Null: a row of a newer version. @throws if the text is no row of a known version. */
function readRow(text: string): ReceivedRow | null {
  const [header = "", ...calls] = text.split(CALL);
  const { v, ...row } = JSON.parse(header) as OutboxRow & { v: number };
  const read = READERS[v];
  if (read === undefined && v > VERSION) return null;
  if (read === undefined) throw new Error("not a row of a version that is known");
  return { row, signals: read(row, calls) };
}

function readCalls(row: OutboxRow, calls: readonly string[]): ReceivedSignal[] {
  const signals: ReceivedSignal[] = [];
  for (const text of calls) {
    const [head = "", ...texts] = text.split(SIGNAL);
    const call = JSON.parse(head) as CallHead;
    if (texts.length % TEXTS_PER_SIGNAL > 0) throw new Error("half a signal");
    for (let n = 0; n < texts.length; n += TEXTS_PER_SIGNAL) {
      const signal = readSignalHead(texts[n] ?? "");
      signals.push({ admission: readAdmission(row, call, signal, signals.length), payload: texts[n + 1] ?? "" });
    }
  }
  if (signals.length !== row.count) throw new Error("not as many signals as the row says");
  return signals;
}

function readSignalHead(text: string): SignalHead {
  const [id = "", index] = text.split(" ");
  return index === undefined ? { id } : { id, index: Number(index) };
}
