/**
 * The admission of a signal: how and when the Quota Counter admitted it. A new signal shares most of its admission with its outbox
 * row. A resent signal (a released held signal, or a replayed dead letter) carries its first admission in its envelope.
 */
import type { AdmittedVerdict } from "../domain/quota/quota.ts";
import type { EndpointType } from "../domain/signal/signal.ts";

/** The order of a workspace's signals. Signals of one commit share the time, so the ordinal decides. */
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
  /** A signal that is still held at the end of the period is purged. */
  periodEndMs: number;
  /** `{source}` of the path, and the `Idempotency-Key` of the request with the index of the signal. */
  pathSource?: string;
  idempotencyKey?: string;
  /** The place in the Signal Store that a resent signal leaves. */
  resent?: PlaceInStore;
}

export interface PlaceInStore {
  from: "held" | "dead";
  /** Line number of the held signal, or number of the dead letter. */
  place: number;
}

/** One commit of the Quota Counter. Its signals share time, period and limit. */
export interface OutboxRow {
  row: number;
  /** When the signals were received. */
  at: number;
  period_start: number;
  period_end: number;
  limit: number;
  /** Ordinal of the first signal. Ordinals in a row have no gaps. */
  first: number;
  /** Number of signals. The first `accepted` signals are accepted, the rest are held. */
  count: number;
  accepted: number;
}

/** The record of a signal in a message, before its payload. */
export interface Envelope {
  id: string;
  /** Id of the API key. */
  key: string;
  endpoint?: "product_org";
  /** The `{source}` of the path. */
  source?: string;
  /** The request's `Idempotency-Key` with the index of the signal. */
  idem?: string;
  /** The first admission of a resent signal. Replaces the facts of the row. */
  resent?: Resent;
}

export interface Resent extends PlaceInStore {
  verdict: AdmittedVerdict;
  ordinal: number;
  at: number;
  period_start: number;
  period_end: number;
  limit: number;
}

/** @param index of the signal in its row. */
export function readAdmission(row: OutboxRow, envelope: Envelope, index: number): Admission {
  const { id, key, endpoint, source, idem, resent } = envelope;
  const { at, period_start, period_end, limit } = resent ?? row;
  const admission: Admission = {
    id,
    keyId: key,
    endpoint: endpoint ?? "signal_staging",
    verdict: resent?.verdict ?? (index < row.accepted ? "accepted" : "held"),
    ordinal: resent?.ordinal ?? row.first + index,
    signalLimit: limit,
    receivedAtMs: at,
    periodStartMs: period_start,
    periodEndMs: period_end,
  };
  if (source !== undefined) admission.pathSource = source;
  if (idem !== undefined) admission.idempotencyKey = idem;
  if (resent !== undefined) admission.resent = { from: resent.from, place: resent.place };
  return admission;
}

/** The envelope of a resent signal. `readAdmission` reads the same admission from it in any row. */
export function envelopeOfResent(admission: Admission & { resent: PlaceInStore }): Envelope {
  const { endpoint, pathSource, idempotencyKey, resent } = admission;
  const envelope: Envelope = {
    id: admission.id,
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
  if (endpoint === "product_org") envelope.endpoint = endpoint;
  if (pathSource !== undefined) envelope.source = pathSource;
  if (idempotencyKey !== undefined) envelope.idem = idempotencyKey;
  return envelope;
}
