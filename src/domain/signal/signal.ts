import type { JsonObject } from "../json/json-value.ts";
import type { Traits } from "./traits.ts";

/** The endpoints that a key may be used on (spec §2.1). Append only: stored lines hold the index. */
export const ENDPOINT_TYPES = ["signal_staging", "product_org"] as const;
export type EndpointType = (typeof ENDPOINT_TYPES)[number];

/**
 * The state of a signal in the Signal Store, in the order of its life. `held` waits for room in the plan, `purged`
 * was held when its period ended, or a misfit that nobody replayed, `dead` could not be processed.
 */
export const SIGNAL_STATUSES = ["processed", "anonymous", "held", "duplicate", "purged", "dead"] as const;
export type SignalStatus = (typeof SIGNAL_STATUSES)[number];

/** The statuses of a trace. `in_flight`: accepted, but not recorded yet. */
export const TRACE_STATUSES = [...SIGNAL_STATUSES, "in_flight"] as const;
export type TraceStatus = (typeof TRACE_STATUSES)[number];

/**
 * The statuses of a line in the signal log. `released`: the signal has left this place. Append only: stored lines hold the index.
 */
export const LINE_STATUSES = ["processed", "anonymous", "duplicate", "purged", "held", "released"] as const satisfies (
  | SignalStatus
  | "released"
)[];
export type LineStatus = (typeof LINE_STATUSES)[number];

/** The statuses of a dead letter. `purged`: what a deletion leaves of it, or of a misfit that nobody replayed. */
export type DeadLetterStatus = Extract<SignalStatus, "dead" | "purged">;

/** Append only: stored lines hold the index. */
export const SIGNAL_KINDS = ["signal", "identify", "account"] as const;
export type SignalKind = (typeof SIGNAL_KINDS)[number];

/** The six call types of customer data platforms (spec §6). */
export const CDP_CALL_TYPES = ["identify", "track", "page", "screen", "group", "alias"] as const;

/**
 * A normalised signal (spec §2.2, §6). `identify` calls have `event: "identify"`, affect identities only, and do not
 * appear in the signal queue.
 */
export interface NormalisedSignal {
  kind: Exclude<SignalKind, "account">;
  event: string;
  source: string;
  email?: string;
  userId?: string;
  anonymousId?: string;
  /** The id that an `alias` call replaces. The call does not say whether it is an anonymous id or a user id. */
  previousId?: string;
  /** Whether the payload has an id (`messageId` or `id`), so that duplicates are detected over days. */
  hasOwnId: boolean;
  properties: JsonObject;
  traits: Traits;
  /** The traits of a `group` call, which belong to the account in `traits.account`. */
  groupTraits?: JsonObject;
}
