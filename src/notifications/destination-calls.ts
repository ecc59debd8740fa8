/** Arguments and results of calls to a workspace's Destinations object. All times are in milliseconds since 1970. */
import type { AttemptResult } from "../domain/notifications/attempts.ts";
import type { CustomHeader, HeaderRejection, WantedHeader } from "../domain/notifications/custom-header.ts";
import type { Destination, DestinationType } from "../domain/notifications/destination.ts";
import type { AnyNotification, AnyNotificationType, NotificationType } from "../domain/notifications/notification.ts";

export interface NewDestination {
  id: string;
  name: string;
  type: DestinationType;
  target: string;
  headers: WantedHeader[];
  notifications: NotificationType[];
  /** URL of the workspace's pages without a trailing slash. Slack messages and emails link to it. */
  pagesUrl: string;
}

/** If `headers` is given, it replaces all headers. */
export type DestinationChange = Partial<Omit<NewDestination, "id" | "type">> & Pick<NewDestination, "pagesUrl">;

export type DestinationRejection =
  | HeaderRejection
  | "not_found"
  | "too_many_destinations"
  | "destination_not_active"
  | "code_wrong"
  | "too_many_codes"
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
  notificationId: string;
  type: AnyNotificationType;
  /** What it is about, in a few words; null: its body was deleted with a person. Of a single delivery absent: its page has the body. */
  subject?: string | null;
  state: DeliveryState;
  endReason: DeliveryEnd | null;
  createdAtMs: number;
  /** Time of the next attempt. During an attempt: time of the retry if no report arrives. Null: the delivery has ended. */
  dueAtMs: number | null;
  /** Latest last; at most ATTEMPTS_KEPT. */
  attempts: AttemptResult[];
}

export interface ResentDeliveries {
  resent: number;
  notResent: {
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
  notification: AnyNotification | null;
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
  notification: AnyNotification;
}

/** Message of the deliveries' queue. */
export interface DueDelivery extends Due {
  workspaceId: string;
}
