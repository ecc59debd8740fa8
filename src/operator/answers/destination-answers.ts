/** Destinations and deliveries: what is answered, and the records turned into it. */
import * as z from "zod";
import { iso } from "../../control/database.ts";
import type { CreatedDestination, Delivery, DeliveryDetail } from "../../notifications/destination-calls.ts";
import { DESTINATION_TYPES, type Destination } from "../../domain/events/destination.ts";
import { destinationEventTypes, eventTypes } from "../../domain/events/workspace-event.ts";
import { count, idOf, instant, isoOrNull } from "../schema-parts.ts";

const destinationFields = {
  id: idOf("dst", "Of the destination."),
  name: z.string(),
  type: z.enum(DESTINATION_TYPES),
  target: z.string().meta({
    description: "Without what could be a secret: the query of a URL, the path of a Slack-compatible webhook.",
    example: "https://crm.example.com/hooks/signals",
  }),
  events: z.array(z.enum(eventTypes)),
  state: z.enum(["active", "paused", "disabled"]).meta({ description: "`disabled`: the service has switched it off." }),
  disabled_reason: z.enum(["gone", "failing"]).nullable().meta({
    description: "`gone`: it answered 410. `failing`: nothing has reached it for five days.",
  }),
  created_at: instant,
  failing_since: instant.nullable().meta({ description: "Null: the last attempt reached it." }),
  last_delivered_at: instant.nullable(),
  waiting: count.meta({ description: "Deliveries that are to come, or to come again." }),
  dropped: count.meta({ description: "Events that were given up because too many waited." }),
  old_secret_ends_at: instant
    .nullable()
    .meta({ description: "Until then deliveries are signed with the old one too." }),
};
export const destinationAnswer = z.object(destinationFields).meta({ id: "Destination" });
export const createdDestinationAnswer = z
  .object({
    ...destinationFields,
    secret: z.string().optional().meta({
      description: "What the deliveries of a webhook are signed with. Shown this once.",
      example: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    }),
  })
  .meta({ id: "CreatedDestination" });

export function destinationJson(one: Destination): z.infer<typeof destinationAnswer> {
  return {
    id: one.id,
    name: one.name,
    type: one.type,
    target: one.maskedTarget,
    events: one.events,
    state: one.state,
    disabled_reason: one.disabledReason,
    created_at: iso(one.createdAtMs),
    failing_since: isoOrNull(one.failingSinceMs),
    last_delivered_at: isoOrNull(one.lastDeliveredAtMs),
    waiting: one.waiting,
    dropped: one.dropped,
    old_secret_ends_at: isoOrNull(one.oldSecretEndsAtMs),
  };
}

export function createdDestinationJson({
  destination,
  secret,
}: CreatedDestination): z.infer<typeof createdDestinationAnswer> {
  return { ...destinationJson(destination), ...(secret === null ? {} : { secret }) };
}

const attempt = z.object({
  at: instant,
  ms: z.number().meta({ description: "Until it was answered, or failed." }),
  status: z.int().nullable().meta({ description: "Of the answer; null: there was none." }),
  error: z.string().nullable().meta({ description: "Null: it has arrived." }),
  answer: z.string().nullable().meta({ description: "The beginning of it, at most 1 KB." }),
});
const deliveryFields = {
  id: idOf("dlv", "Of the delivery."),
  event_id: idOf("evt", "Of the event: the `webhook-id`."),
  type: z.enum([...eventTypes, ...destinationEventTypes]),
  state: z.enum(["waiting", "delivered", "failed"]),
  end_reason: z.enum(["attempts_failed", "switched_off", "too_many", "person_deleted"]).nullable().meta({
    description:
      "Of one that failed: every attempt did, its destination was switched off, too many waited, or its person was deleted.",
  }),
  created_at: instant,
  due_at: instant.nullable().meta({ description: "Of one that waits: when it is sent, or sent again." }),
  attempts: z.array(attempt).meta({ description: "Latest last." }),
};
export const deliveryAnswer = z.object(deliveryFields).meta({ id: "Delivery" });
export const deliveryDetailAnswer = z
  .object({
    ...deliveryFields,
    body: z.string().nullable().meta({ description: "As it is sent; null: the person whom it told of was deleted." }),
  })
  .meta({ id: "DeliveryDetail" });

export function deliveryJson(one: Delivery): z.infer<typeof deliveryAnswer> {
  return {
    id: one.id,
    event_id: one.eventId,
    type: one.type,
    state: one.state,
    end_reason: one.endReason,
    created_at: iso(one.createdAtMs),
    due_at: isoOrNull(one.dueAtMs),
    attempts: one.attempts.map(({ atMs, tookMs, status, error, answer }) => {
      return { at: iso(atMs), ms: tookMs, status, error, answer };
    }),
  };
}

export function deliveryDetailJson({
  delivery,
  body,
}: DeliveryDetail & { body: string | null }): z.infer<typeof deliveryDetailAnswer> {
  return { ...deliveryJson(delivery), body };
}
