/**
 * Everything that the ingestion endpoints refuse, as one union. `http/problem.ts` is the one place that turns it into a
 * status and a body; per-item results and the rejections list use the same codes.
 */
import { REJECTION_KEPT_DAYS, REJECTIONS_KEPT, REJECTIONS_KEPT_OF_A_REASON } from "../../limits.ts";
import { DAY_MS } from "../duration.ts";
import type { Described } from "./echo.ts";

/** Causes of a 401 (spec §7), which all look the same to the sender: the cause is for the admin's rejections list only. */
export type UnauthorizedCause =
  | "key_malformed"
  | "key_unknown"
  | "key_expired"
  | "key_deactivated"
  | "secret_missing"
  | "secret_wrong";

/** What is wrong with the body as a whole; nothing of it is kept. */
export type BodyRefusal = Described & {
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

/** What is wrong with one signal; its neighbours are kept. */
export type SignalRefusal = Described & {
  code:
    | "signal_not_json"
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

/** The refusals with 429 (spec §7, §8). `retryAfterMs` says when a retry can succeed. */
export type LimitRefusal =
  | { code: "rate_limited"; retryAfterMs: number }
  | { code: "allowance_exceeded"; retryAfterMs: number }
  | { code: "extra_room_exceeded"; retryAfterMs: number };

/** Nothing of the call was stored, for a reason that passes. */
export type Unavailable = { code: "unavailable"; retryAfterMs: number };

export type Refusal =
  | { code: "unauthorized"; cause: UnauthorizedCause }
  | { code: "endpoint_mismatch" }
  | BodyRefusal
  | SignalRefusal
  | LimitRefusal
  | ({ code: "rate_limited"; retryAfterMs: number } & Described)
  | Unavailable
  | (Unavailable & Described);

export type RefusalCode = Refusal["code"];

/** After so long without another, a refusal for the same reason is a new entry. */
export const REJECTION_SILENCE_MS = 3_600_000;

/** Why calls of a key were refused. */
export interface RejectionReason {
  keyId: string;
  code: RefusalCode;
  /** The cause of a 401, which its sender was not told; null for every other code. */
  cause: UnauthorizedCause | null;
}

/** Calls that were refused for one reason, or a single one. */
export interface RefusedCalls extends RejectionReason {
  /** What the sender of the first of them was told, without what that repeated of the body. */
  detail: string;
  /** Id of the first of the calls. */
  requestId: string;
  calls: number;
  /** Signals refused in these calls; a call of which that is not known has one. */
  signals: number;
  firstAtMs: number;
  lastAtMs: number;
}

/** An entry of the rejections list. */
export type Rejection = RefusedCalls;

/**
 * Adds refused calls to the list: to the latest entry of their reason, or as a new one where that has been silent.
 *
 * @param list in the order in which the entries began; it is changed.
 * @returns the entry.
 */
export function addRejection(list: Rejection[], refused: RefusedCalls): Rejection {
  const latest = list.findLast((entry) => isOfReason(entry, refused));
  if (latest === undefined || refused.firstAtMs - latest.lastAtMs >= REJECTION_SILENCE_MS) {
    const entry = { ...refused };
    list.push(entry);
    forgetBeyond(list, refused);
    return entry;
  }
  latest.calls += refused.calls;
  latest.signals += refused.signals;
  latest.firstAtMs = Math.min(latest.firstAtMs, refused.firstAtMs);
  latest.lastAtMs = Math.max(latest.lastAtMs, refused.lastAtMs);
  return latest;
}

/** Forgets entries whose last call was too long ago. */
export function forgetOld(list: Rejection[], nowMs: number): void {
  const kept = list.filter(({ lastAtMs }) => nowMs - lastAtMs < REJECTION_KEPT_DAYS * DAY_MS);
  if (kept.length < list.length) list.splice(0, list.length, ...kept);
}

/** Keeps the list within its bounds: of the new entry's reason, and in all. What was silent longest goes first. */
function forgetBeyond(list: Rejection[], reason: RejectionReason): void {
  const ofReason = list.filter((entry) => isOfReason(entry, reason));
  const tooMany = ofReason.length > REJECTIONS_KEPT_OF_A_REASON ? ofReason : list.length > REJECTIONS_KEPT ? list : [];
  const [first, ...others] = tooMany;
  if (first === undefined) return;
  const silent = others.reduce((oldest, entry) => (entry.lastAtMs < oldest.lastAtMs ? entry : oldest), first);
  list.splice(list.indexOf(silent), 1);
}

function isOfReason(entry: RejectionReason, { keyId, code, cause }: RejectionReason): boolean {
  return entry.keyId === keyId && entry.code === code && entry.cause === cause;
}
