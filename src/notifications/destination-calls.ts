/** What the callers of a workspace's Destinations send and get: plain data, all times in milliseconds since 1970. */
import type { AttemptResult } from "../domain/events/attempts.ts";
import type { Destination, DestinationType } from "../domain/events/destination.ts";
import type { AnyEvent, AnyEventType, EventType } from "../domain/events/workspace-event.ts";

export interface NewDestination {
  id: string;
  name: string;
  type: DestinationType;
  /** A URL, or an email address, that has been checked. */
  target: string;
  events: EventType[];
  /** URL of the workspace's pages, without a slash at the end: messages for people link to it. */
  pagesUrl: string;
}

/** What is to change of a destination; fields that are left out stay as they are. */
export interface DestinationChange {
  name?: string;
  target?: string;
  events?: EventType[];
  pagesUrl: string;
}

/** Why a destination cannot be what was asked for. */
export type DestinationRefusal = "not_found" | "too_many" | "not_active" | "not_a_webhook";

/** A destination with its new secret, which no other answer shows. */
export interface CreatedDestination {
  destination: Destination;
  /** `whsec_` and what the deliveries of a webhook are signed with; null: this type has none. */
  secret: string | null;
  /** Whether this call has made the destination, or its secret. */
  isNew: boolean;
}

/** `waiting`: it comes, or comes again, at `dueAtMs`. `failed`: it was given up. */
export type DeliveryState = "waiting" | "delivered" | "failed";

/** Why a delivery is over although it did not arrive. */
export type DeliveryEnd = "attempts_failed" | "switched_off" | "too_many" | "person_deleted";

export interface Delivery {
  id: string;
  destinationId: string;
  /** The event's own id, which is the `webhook-id` too. */
  eventId: string;
  type: AnyEventType;
  state: DeliveryState;
  /** Why a failed delivery was given up; null for every other. */
  endReason: DeliveryEnd | null;
  createdAtMs: number;
  /**
   * When a waiting delivery is sent; while it is under way, when it is sent again unless an answer comes. Null: it does not
   * wait.
   */
  dueAtMs: number | null;
  /** The attempts kept, the latest last, at most ATTEMPTS_KEPT. */
  attempts: AttemptResult[];
}

/** A delivery with the event that was sent. */
export interface DeliveryDetail {
  delivery: Delivery;
  destination: Destination;
  /** Null: it held the data of a person who was deleted. */
  event: AnyEvent | null;
  pagesUrl: string;
}

/** A delivery's next attempt. */
export interface Due {
  destinationId: string;
  id: string;
  attempt: number;
}

/** An attempt that is to be made now. */
export interface Parcel {
  destinationId: string;
  type: DestinationType;
  target: string;
  /** The secrets to sign with, the new one first. */
  secrets: string[];
  pagesUrl: string;
  event: AnyEvent;
}

/** A message of the deliveries' queue: all else about the delivery stays with the object. */
export interface DueDelivery extends Due {
  workspaceId: string;
}
