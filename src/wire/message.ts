/**
 * Admitted signals on their way from the Quota Counter to the consumer: the admission of a signal, and the message. The outbox row has
 * the fields that its signals share; a resent signal has its first admission.
 */
import type { AdmittedVerdict } from "../domain/quota/quota.ts";
import type { EndpointType } from "../domain/signal/signal.ts";
import type { Surroundings } from "../domain/template/surroundings.ts";

/** Signals of one commit share the time, so the ordinal decides. */
export interface ReceivedOrder {
  receivedAtMs: number;
  ordinal: number;
}

export function isLater(a: ReceivedOrder, b: ReceivedOrder): boolean {
  return (a.receivedAtMs - b.receivedAtMs || a.ordinal - b.ordinal) > 0;
}

/** Times are milliseconds since 1970. */
export interface Admission {
  /** `sig_` + UUIDv7. */
  id: string;
  keyId: string;
  endpoint: EndpointType;
  verdict: AdmittedVerdict;
  /** Ordinal of the signal in its billing period, and the plan's limit at that time. */
  ordinal: number;
  signalLimit: number;
  receivedAtMs: number;
  periodStartMs: number;
  /** A signal that is still held is purged then. */
  periodEndMs: number;
  /** `{source}` of the path. */
  pathSource?: string;
  /** The request's `Idempotency-Key` with the index of the signal. */
  idempotencyKey?: string;
  /** The version of the key's payload template that admitted it; absent: the key had none. */
  templateVersion?: number;
  /** JSON of the `Surroundings` of the payload, for the template; absent: nothing stood there. */
  around?: string;
  /** The place that a resent signal leaves. */
  resent?: PlaceInStore;
}

export interface PlaceInStore {
  from: "held" | "dead";
  /** Line number of a held signal, or number of a dead letter. */
  place: number;
}

/** The signals of one commit share time, period and limit. */
export interface OutboxRow {
  row: number;
  at: number;
  period_start: number;
  period_end: number;
  limit: number;
  /** Ordinal of the first signal; the others follow without gaps. */
  first: number;
  /** The first `accepted` signals are accepted, the rest are held. */
  count: number;
  accepted: number;
}

/** The fields that the signals of a call share. */
export interface CallHead {
  key: string;
  endpoint?: "product_org";
  source?: string;
  /** The request's `Idempotency-Key`. */
  idem?: string;
  /** Version of the key's payload template. */
  template?: number;
  /** The headers that the template reads. */
  headers?: Surroundings["headers"];
  resent?: Resent;
}

/** Precedes the payload in a message. */
export interface SignalHead {
  id: string;
  /** Index in the body, for the `Idempotency-Key`. Rejected signals count too, so the others keep their index when corrected. */
  index?: number;
  /** JSON of what else stood around the payload. */
  around?: string;
}

export interface Resent extends PlaceInStore {
  verdict: AdmittedVerdict;
  ordinal: number;
  at: number;
  period_start: number;
  period_end: number;
  limit: number;
}

/** @param nth position of the signal in its row. */
export function readAdmission(
  row: OutboxRow,
  call: CallHead,
  { id, index, around }: SignalHead,
  nth: number,
): Admission {
  const { key, endpoint, source, idem, template, headers, resent } = call;
  const { at, period_start, period_end, limit } = resent ?? row;
  const admission: Admission = {
    id,
    keyId: key,
    endpoint: endpoint ?? "signal_staging",
    verdict: resent?.verdict ?? (nth < row.accepted ? "accepted" : "held"),
    ordinal: resent?.ordinal ?? row.first + nth,
    signalLimit: limit,
    receivedAtMs: at,
    periodStartMs: period_start,
    periodEndMs: period_end,
  };
  if (source !== undefined) admission.pathSource = source;
  if (idem !== undefined) admission.idempotencyKey = index === undefined ? idem : `${idem}:${index}`;
  if (template !== undefined) admission.templateVersion = template;
  if (headers === undefined) {
    if (around !== undefined) admission.around = around;
  } else admission.around = JSON.stringify({ headers, ...(JSON.parse(around ?? "{}") as Surroundings) });
  if (resent !== undefined) admission.resent = { from: resent.from, place: resent.place };
  return admission;
}

/**
 * The head from which `readAdmission` reads the same admission, in any row, with `around` in the head of the signal. Its
 * `idem` already contains the index.
 */
export function headOfResent(admission: Admission & { resent: PlaceInStore }): CallHead {
  const { endpoint, pathSource, idempotencyKey, templateVersion, resent } = admission;
  const head: CallHead = {
    key: admission.keyId,
    resent: {
      from: resent.from,
      place: resent.place,
      verdict: admission.verdict,
      ordinal: admission.ordinal,
      at: admission.receivedAtMs,
      period_start: admission.periodStartMs,
      period_end: admission.periodEndMs,
      limit: admission.signalLimit,
    },
  };
  if (endpoint === "product_org") head.endpoint = endpoint;
  if (pathSource !== undefined) head.source = pathSource;
  if (idempotencyKey !== undefined) head.idem = idempotencyKey;
  if (templateVersion !== undefined) head.template = templateVersion;
  return head;
}

// The message from the Quota Counter to the consumer. The edge writes the signals of a call once, as bytes. The counter
// puts them into rows. Outbox, drain and queue carry the rows unchanged. Separators are ASCII control characters, which
// valid JSON never contains. So payloads travel verbatim, and a broken payload or row does not break its neighbours.
//
//     workspace id, space, lowestUnsettledRow  ( ␝row  ( ␞call  ( ␟id[, space, [index], [space, around]] ␟payload )+ )+ )+
//
// `lowestUnsettledRow` is the lowest row that was unsettled when the message was sent. A call has the fields that its signals share, such as the
// key. Several calls share a row, and the call of a large body is repeated in each of its rows.

const ROW = "\u001d";
const CALL = "\u001e";
const SIGNAL = "\u001f";
/** Version of new rows, see READERS. */
const VERSION = 1;

const TEXTS_PER_SIGNAL = 2;

/** Maximum size of what a row has besides its calls. */
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
  lowestUnsettledRow: number;
  rows: ReceivedRow[];
  /** Rows that could not be read. They stay in the outbox. */
  unreadable: number;
  /** Rows of a newer version, which a later release can read. They stay in the outbox too. */
  newer: number;
}

const encoder = new TextEncoder();
/** The edge has checked that payloads are UTF-8. */
const decoder = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });

/** @param signals the payloads are JSON, as sent. */
export function writeCall(head: CallHead, signals: readonly (SignalHead & { payload: Uint8Array })[]): WrittenCall {
  const heads = signals.map((signal) => SIGNAL + textOfHead(signal) + SIGNAL);
  const sizes = signals.map(({ payload }, nth) => (heads[nth] ?? "").length + payload.length);
  const bytes = new Uint8Array(sizes.reduce((sum, size) => sum + size, 0));
  let at = 0;
  for (const [nth, { payload }] of signals.entries()) {
    const text = heads[nth] ?? "";
    // Heads are ASCII. A native call for each would take longer.
    for (let n = 0; n < text.length; n++) bytes[at++] = text.charCodeAt(n);
    bytes.set(payload, at);
    at += payload.length;
  }
  return { head: CALL + JSON.stringify(head), signals: bytes, sizes };
}

function textOfHead({ id, index, around }: SignalHead): string {
  if (around !== undefined) return `${id} ${index ?? ""} ${asciiJson(around)}`;
  return index === undefined ? id : `${id} ${index}`;
}

function asciiJson(json: string): string {
  const escaped = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return json.replaceAll(/[\u007f-\uffff]/g, escaped);
}

/** @param calls heads of calls, each with its signals. */
export function writeRow(row: OutboxRow, calls: readonly Uint8Array[]): Uint8Array {
  return joined([encoder.encode(ROW + JSON.stringify({ v: VERSION, ...row })), ...calls]);
}

export function writeMessage(workspaceId: string, lowestUnsettledRow: number, rows: readonly Uint8Array[]): Uint8Array {
  return joined([encoder.encode(`${workspaceId} ${lowestUnsettledRow}`), ...rows]);
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
  const [workspaceId = "", lowestUnsettledRow = "0"] = head.split(" ");
  const message: ReceivedMessage = {
    workspaceId,
    lowestUnsettledRow: Number(lowestUnsettledRow),
    rows: [],
    unreadable: 0,
    newer: 0,
  };
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
  const [id = "", index = ""] = text.split(" ", 2);
  const head: SignalHead = { id };
  if (index !== "") head.index = Number(index);
  const around = text.slice(id.length + index.length + 2);
  if (around !== "") head.around = around;
  return head;
}
