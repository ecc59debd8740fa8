/** All rejections of the ingestion endpoints as one union, and the list of rejected calls that an admin sees. */
import { REJECTION_KEPT_DAYS, REJECTIONS_KEPT, REJECTIONS_KEPT_OF_A_REASON } from "../../limits.ts";
import { DAY_MS } from "../duration.ts";
import type { QuotaRejection } from "../quota/quota.ts";

/** A problem: the text that may be stored and shown to everyone, and the sender's text about it. */
export interface Described {
  detail: string;
  /** For the sender only: names and beginnings of values, each through `echo`. */
  sent?: string;
}

export function detailForSender({ detail, sent }: Described): string {
  return sent === undefined ? detail : `${detail} You sent ${sent}.`;
}

/** Causes of a 401 (spec §7). All look the same to the sender; only the admin's rejections list shows the cause. */
export type UnauthorizedCause =
  | "key_malformed"
  | "key_unknown"
  | "key_expired"
  | "key_deactivated"
  | "secret_missing"
  | "secret_wrong";

/** A problem with the whole body; nothing of the body is kept. */
export type BodyRejection = Described & {
  code:
    | "body_empty"
    | "body_not_json"
    | "body_unreadable"
    | "body_too_large"
    | "batch_too_long"
    | "batch_empty"
    | "media_type_unsupported"
    | "content_encoding_unsupported"
    | "idempotency_key_invalid"
    | "source_invalid";
};

/** A problem with a single signal; the remaining signals of the body are kept. */
export type SignalRejection = Described & {
  code:
    | "signal_not_json"
    | "signal_not_utf8"
    | "signal_not_object"
    | "signal_too_large"
    | "signal_too_deep"
    | "event_missing"
    | "event_invalid"
    | "email_invalid"
    | "source_invalid"
    | "properties_invalid"
    | "template_mismatch";
};

/** The rejections with 429 (spec §7, §8). `retryAfterMs` is the time after which a retry can succeed. */
export type LimitRejection = {
  code: "rate_limited" | QuotaRejection;
  retryAfterMs: number;
};

/** A temporary failure; nothing of the call was stored. */
export type Unavailable = { code: "unavailable"; retryAfterMs: number };

export type Rejection =
  | { code: "unauthorized"; cause: UnauthorizedCause }
  | { code: "endpoint_mismatch" }
  | BodyRejection
  | SignalRejection
  | LimitRejection
  | ({ code: "rate_limited"; retryAfterMs: number } & Described)
  | Unavailable
  | (Unavailable & Described);

export type RejectionCode = Rejection["code"];

/** Silence after which a rejection for the same reason starts a new entry. */
export const REJECTION_SILENCE_MS = 3_600_000;

export interface RejectionReason {
  keyId: string;
  code: RejectionCode;
  /** The cause of a 401, which is hidden from the sender; null for every other code. */
  cause: UnauthorizedCause | null;
}

/** Rejected calls for the same reason: an entry of the rejections list, or calls to add to the list. */
export interface RejectionEntry extends RejectionReason {
  /** The detail of the first call's answer, without the text that it repeated from the body. */
  detail: string;
  requestId: string;
  calls: number;
  /** Signals rejected in these calls. A call with an unknown number of signals counts as one. */
  signals: number;
  firstAtMs: number;
  lastAtMs: number;
}

/**
 * Adds rejected calls to the latest entry for their reason, or as a new entry after a silence. A flood therefore
 * displaces no rejection that happened once (design §5). @param list in the order in which the entries began.
 */
export function addRejection(list: RejectionEntry[], rejected: RejectionEntry): RejectionEntry {
  const latest = list.findLast((entry) => isOfReason(entry, rejected));
  if (latest === undefined || rejected.firstAtMs - latest.lastAtMs >= REJECTION_SILENCE_MS) {
    const entry = { ...rejected };
    list.push(entry);
    enforceLimits(list, rejected);
    return entry;
  }
  latest.calls += rejected.calls;
  latest.signals += rejected.signals;
  latest.firstAtMs = Math.min(latest.firstAtMs, rejected.firstAtMs);
  latest.lastAtMs = Math.max(latest.lastAtMs, rejected.lastAtMs);
  return latest;
}

export function forgetOld(list: RejectionEntry[], nowMs: number): void {
  const kept = list.filter(({ lastAtMs }) => nowMs - lastAtMs < REJECTION_KEPT_DAYS * DAY_MS);
  if (kept.length < list.length) list.splice(0, list.length, ...kept);
}

/** Removes the entry that was silent longest, if the list exceeds its limit for the reason or in total. */
function enforceLimits(list: RejectionEntry[], reason: RejectionReason): void {
  const ofReason = list.filter((entry) => isOfReason(entry, reason));
  const tooMany = ofReason.length > REJECTIONS_KEPT_OF_A_REASON ? ofReason : list.length > REJECTIONS_KEPT ? list : [];
  const [first, ...rest] = tooMany;
  if (first === undefined) return;
  const silent = rest.reduce((oldest, entry) => (entry.lastAtMs < oldest.lastAtMs ? entry : oldest), first);
  list.splice(list.indexOf(silent), 1);
}

function isOfReason(entry: RejectionReason, { keyId, code, cause }: RejectionReason): boolean {
  return entry.keyId === keyId && entry.code === code && entry.cause === cause;
}
