/** A destination of a workspace's events as people and programs see it: nothing of it is a secret. */
import type { EventType, WantedEvents } from "./workspace-event.ts";

export const DESTINATION_TYPES = ["webhook", "slack", "email"] as const;

export type DestinationType = (typeof DESTINATION_TYPES)[number];

/** Only an active destination is told anything. `disabled`: the service has switched it off. */
export type DestinationState = "active" | "paused" | "disabled";

/** Why the service has switched it off: it answered 410, or nothing has reached it for five days. */
export type DisabledReason = "gone" | "failing";

/** Times are in milliseconds since 1970. */
export interface Destination {
  id: string;
  name: string;
  type: DestinationType;
  /** The target without what somebody could use to send there. */
  maskedTarget: string;
  events: EventType[];
  state: DestinationState;
  disabledReason: DisabledReason | null;
  createdAtMs: number;
  /** Since when nothing has reached the destination; null: the last attempt did. */
  failingSinceMs: number | null;
  lastDeliveredAtMs: number | null;
  /** How many deliveries are to come, or to come again. */
  waiting: number;
  /** Events that were given up because too many waited. */
  dropped: number;
  /** Until when deliveries are signed with the old secret too; null: there is no old one. */
  oldSecretEndsAtMs: number | null;
}

/** What the sources of a workspace are to raise, for these destinations. */
export function wantedBy(
  destinations: readonly Pick<Destination, "state" | "events">[],
  thresholds: readonly number[],
): WantedEvents {
  const active = destinations.filter(({ state }) => state === "active");
  const types = new Set(active.flatMap(({ events }) => events));
  // Without a threshold nothing can cross one.
  if (thresholds.length === 0) types.delete("person.score_crossed");
  return {
    types: [...types].toSorted(),
    thresholds: [...thresholds].toSorted((a, b) => a - b),
    destinations: destinations.length,
  };
}

/**
 * The target as it may be listed and logged. Whoever knows the path of a Slack-compatible webhook can post to it, and a
 * query often holds a token.
 */
export function maskedTarget(type: DestinationType, target: string): string {
  if (type === "email") return target;
  const { origin, pathname, search } = new URL(target);
  if (type === "slack") return `${origin}/…${pathname.slice(-4)}`;
  return `${origin}${pathname}${search === "" ? "" : "?…"}`;
}
