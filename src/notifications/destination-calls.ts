/** Arguments and results of calls to a workspace's Destinations object. All times are in milliseconds since 1970. */
import type { AttemptResult } from "../domain/events/attempts.ts";
import type { CustomHeader, HeaderRefusal, WantedHeader } from "../domain/events/custom-header.ts";
import type { Destination, DestinationType } from "../domain/events/destination.ts";
import type { AnyEvent, AnyEventType, EventType } from "../domain/events/workspace-event.ts";

export interface NewDestination {
  id: string;
  name: string;
  type: DestinationType;
  target: string;
  headers: WantedHeader[];
  events: EventType[];
  /** URL of the workspace's pages without a trailing slash. Slack messages and emails link to it. */
  pagesUrl: string;
}

/** If `headers` is given, it replaces all headers. */
export type DestinationChange = Partial<Omit<NewDestination, "id" | "type">> & Pick<NewDestination, "pagesUrl">;

export type DestinationRefusal =
  | HeaderRefusal
  | "not_found"
  | "too_many_destinations"
  | "destination_not_active"
  | "destination_without_secret";

export interface CreatedDestination {
  destination: Destination;
  /** Signing secret of a webhook, with the prefix `whsec_`. Null: this type has no secret. */
  secret: string | null;
  isNew: boolean;
}

/** `waiting`: before its first attempt or a retry. `failed`: given up. */
export type DeliveryState = "waiting" | "delivered" | "failed";

export type DeliveryEnd = "attempts_failed" | "switched_off" | "too_many" | "person_deleted";

export interface Delivery {
  id: string;
  destinationId: string;
  /** The notification's id, also sent as `webhook-id`. */
  eventId: string;
  type: AnyEventType;
  state: DeliveryState;
  endReason: DeliveryEnd | null;
  createdAtMs: number;
  /** Time of the next attempt. During an attempt: time of the retry if no report arrives. Null: the delivery has ended. */
  dueAtMs: number | null;
  /** Latest last; at most ATTEMPTS_KEPT. */
  attempts: AttemptResult[];
}

export interface Redelivery {
  requeued: number;
  notRequeued: {
    personDeleted: number;
    /** More than the limits on waiting deliveries allow. They can be sent again later. */
    tooManyWaiting: number;
    /** No longer stored. Counted by the hour, so some may have failed up to an hour earlier. */
    notKept: number;
  };
}

export interface DeliveryDetail {
  delivery: Delivery;
  destination: Destination;
  /** Null: the notification held data of a deleted person. */
  event: AnyEvent | null;
  pagesUrl: string;
}

export interface Due {
  destinationId: string;
  id: string;
  attempt: number;
}

export interface Parcel {
  destinationId: string;
  type: DestinationType;
  target: string;
  /** Signing secrets, newest first. */
  secrets: string[];
  headers: CustomHeader[];
  pagesUrl: string;
  event: AnyEvent;
}

/** Message of the deliveries' queue. */
export interface DueDelivery extends Due {
  workspaceId: string;
}
