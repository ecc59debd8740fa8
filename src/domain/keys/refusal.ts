/**
 * Everything that the ingestion endpoints refuse, as one union. `http/problem.ts` is the one place that turns it into a
 * status and a body; per-item results and the rejections list use the same codes.
 */

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
