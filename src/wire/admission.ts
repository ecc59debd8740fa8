/**
 * How a signal was admitted: the one shape of it, and the two ways in which it travels. A signal that comes for the first
 * time shares most of it with its outbox row; one that is sent once more, released or replayed, brings its own in its envelope.
 */
import type { EndpointType, Verdict } from "../domain/signal/signal.ts";

/** How a signal was admitted. Times are milliseconds since 1970. */
export interface Admission {
  /** `sig_` + UUIDv7. */
  id: string;
  keyId: string;
  endpoint: EndpointType;
  verdict: Verdict;
  /** The signal's ordinal in its billing period, and the plan's limit at that moment. */
  ordinal: number;
  signalLimit: number;
  receivedAtMs: number;
  periodStartMs: number;
  /** End of the billing period, when a signal that is still held is deleted. */
  periodEndMs: number;
  /** The `{source}` of the path, and the request's `Idempotency-Key` with the index in its body. */
  pathSource?: string;
  idempotencyKey?: string;
  /** The place in the Signal Store that a signal leaves which is sent once more. */
  resent?: PlaceInStore;
}

export interface PlaceInStore {
  /** Whether it is among the held signals or the dead letters, and its number there. */
  from: "held" | "dead";
  place: number;
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
  /** Signals of the row. The first `accepted` of them are accepted, the rest are held. */
  count: number;
  accepted: number;
}

/** What is said of a signal besides its payload. */
export interface Envelope {
  /** `sig_` + UUIDv7. */
  id: string;
  /** Id of the API key that it came with. */
  key: string;
  endpoint?: "product_org";
  /** The `{source}` of the path. */
  source?: string;
  /** The request's `Idempotency-Key` and the signal's index, when it sent one. */
  idem?: string;
  /** How a signal was admitted that is sent once more, in place of what its row says. */
  resent?: Resent;
}

export interface Resent extends PlaceInStore {
  verdict: Verdict;
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

/** The envelope of a signal that is sent once more: `readAdmission` reads the same admission from it in any row. */
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
