/** The shapes a signal takes on its way. No rules here; `normalise.ts` and `validate-signal.ts` have them. */
import type { JsonObject } from "../json/json-value.ts";
import type { Traits } from "./traits.ts";

/** The endpoint family that a key may be used on (spec §2.1). Stored lines hold its index in this list, so append only. */
export const ENDPOINT_TYPES = ["signal_staging", "product_org"] as const;
export type EndpointType = (typeof ENDPOINT_TYPES)[number];

/** The verdict of the Quota Counter on an admitted signal (spec §3.2, §8). Stored lines hold its index in this list, so append only. */
export const VERDICTS = ["accepted", "held"] as const;
export type Verdict = (typeof VERDICTS)[number];

/**
 * What the Signal Store has made of a signal, in the order of a signal's life. `held` waits for room in the plan, `purged` was held
 * when its period ended, `dead` could not be processed.
 */
export const SIGNAL_STATUSES = ["processed", "anonymous", "held", "duplicate", "purged", "dead"] as const;
export type SignalStatus = (typeof SIGNAL_STATUSES)[number];

/** The six call types of customer data platforms (spec §6). */
export const CDP_CALL_TYPES = ["identify", "track", "page", "screen", "group", "alias"] as const;

/**
 * A signal after normalising (spec §2.2, §6), ready for duplicates, identity and mapping rules.
 * `identify` calls have `event: "identify"` and take effect on identities only; they are no signal-queue entries.
 */
export interface NormalisedSignal {
  kind: "signal" | "identify";
  /** The event that mapping rules match on; for a page view `Page Viewed`. */
  event: string;
  source: string;
  /** The address, trimmed and lower-cased; absent when the payload names none. */
  email?: string;
  userId?: string;
  anonymousId?: string;
  /** The id that an `alias` call replaces: an anonymous id or a user id, it does not say which. */
  previousId?: string;
  /** Whether the payload carries an id of its own (`messageId` or `id`): duplicates are looked for over days, not minutes. */
  hasOwnId: boolean;
  properties: JsonObject;
  traits: Traits;
}
