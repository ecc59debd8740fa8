/**
 * The admission of a signal by the Quota Counter. The outbox row has the common facts; a resent signal has its first
 * admission.
 */
import type { AdmittedVerdict } from "../domain/quota/quota.ts";
import type { EndpointType } from "../domain/signal/signal.ts";

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

/** What the signals of a call share. */
export interface CallHead {
  key: string;
  endpoint?: "product_org";
  source?: string;
  /** The request's `Idempotency-Key`. */
  idem?: string;
  resent?: Resent;
}

/** Precedes the payload in a message. */
export interface SignalHead {
  id: string;
  /** Index in the body, for the `Idempotency-Key`. Refused signals count too, so the others keep their index when corrected. */
  index?: number;
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
export function readAdmission(row: OutboxRow, call: CallHead, { id, index }: SignalHead, nth: number): Admission {
  const { key, endpoint, source, idem, resent } = call;
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
  if (resent !== undefined) admission.resent = { from: resent.from, place: resent.place };
  return admission;
}

/** The head from which `readAdmission` reads the same admission, in any row. Its `idem` already contains the index. */
export function headOfResent(admission: Admission & { resent: PlaceInStore }): CallHead {
  const { endpoint, pathSource, idempotencyKey, resent } = admission;
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
  return head;
}
