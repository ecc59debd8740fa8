/**
 * Everything that the ingestion endpoints refuse, as one union. `http/problem.ts` is the one place that turns it into a
 * status and a body; per-item results and the rejections list use the same codes.
 */

/** Spec §7, 401: all of them look the same to the sender. The cause is for the admin's rejections list only. */
export type UnauthorizedCause =
  | "key_malformed"
  | "key_unknown"
  | "key_expired"
  | "key_deactivated"
  | "secret_missing"
  | "secret_wrong";

/** What is wrong with the body as a whole; nothing of it is kept. */
export type BodyRefusal =
  | { code: "body_empty"; detail: string }
  | { code: "body_not_json"; detail: string }
  | { code: "body_unreadable"; detail: string }
  | { code: "body_too_large"; detail: string }
  | { code: "batch_too_long"; detail: string }
  | { code: "batch_empty"; detail: string }
  | { code: "media_type_unsupported"; detail: string }
  | { code: "content_encoding_unsupported"; detail: string }
  | { code: "idempotency_key_invalid"; detail: string }
  | { code: "source_invalid"; detail: string };

/** What is wrong with one signal; its neighbours are kept. */
export type SignalRefusal =
  | { code: "signal_not_json"; detail: string }
  | { code: "signal_not_object"; detail: string }
  | { code: "signal_too_large"; detail: string }
  | { code: "signal_too_deep"; detail: string }
  | { code: "event_missing"; detail: string }
  | { code: "event_invalid"; detail: string }
  | { code: "email_invalid"; detail: string }
  | { code: "source_invalid"; detail: string }
  | { code: "properties_invalid"; detail: string }
  | { code: "template_mismatch"; detail: string };

/** Spec §7 and §8, 429. `retryAfterMs` says when a retry can succeed. */
export type LimitRefusal =
  | { code: "rate_limited"; retryAfterMs: number }
  | { code: "allowance_exceeded"; retryAfterMs: number }
  | { code: "extra_room_exceeded"; retryAfterMs: number };

export type Refusal =
  | { code: "unauthorized"; cause: UnauthorizedCause }
  | { code: "endpoint_mismatch" }
  | BodyRefusal
  | SignalRefusal
  | LimitRefusal
  | { code: "unavailable"; retryAfterMs: number };

export type RefusalCode = Refusal["code"];
