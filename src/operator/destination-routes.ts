/** Destinations of a workspace's notifications, their deliveries, and the score thresholds. */
import type { Context } from "hono";
import * as z from "zod";
import { iso } from "../control/database.ts";
import { DESTINATION_TYPES, type Destination } from "../domain/events/destination.ts";
import { destinationEventTypes, eventTypes } from "../domain/events/workspace-event.ts";
import { DESTINATIONS_MAX } from "../limits.ts";
import type { CreatedDestination, Delivery, DeliveryDetail } from "../notifications/destination-calls.ts";
import { byOperator, operator, type OperatorEnv } from "./environment.ts";
import { conflict, notFound, operation, validationFailed } from "./operation.ts";
import { count, idOf, instant, isoOrNull, listOf, mapPage, pageAsked, pageQuery } from "./schema-parts.ts";
import { destinationChange, newDestination, thresholds } from "../workspace/input-schemas.ts";
import * as destinations from "../workspace/manage-destinations.ts";
import { TARGET_PROBLEMS } from "../workspace/manage-destinations.ts";

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
const destinationAnswer = z.object(destinationFields).meta({ id: "Destination" });
const createdDestinationAnswer = z
  .object({
    ...destinationFields,
    secret: z.string().optional().meta({
      description: "What the deliveries of a webhook are signed with. Shown this once.",
      example: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    }),
  })
  .meta({ id: "CreatedDestination" });

function destinationJson(oneDestination: Destination): z.infer<typeof destinationAnswer> {
  return {
    id: oneDestination.id,
    name: oneDestination.name,
    type: oneDestination.type,
    target: oneDestination.maskedTarget,
    events: oneDestination.events,
    state: oneDestination.state,
    disabled_reason: oneDestination.disabledReason,
    created_at: iso(oneDestination.createdAtMs),
    failing_since: isoOrNull(oneDestination.failingSinceMs),
    last_delivered_at: isoOrNull(oneDestination.lastDeliveredAtMs),
    waiting: oneDestination.waiting,
    dropped: oneDestination.dropped,
    old_secret_ends_at: isoOrNull(oneDestination.oldSecretEndsAtMs),
  };
}

function createdDestinationJson({ destination, secret }: CreatedDestination): z.infer<typeof createdDestinationAnswer> {
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
const deliveryAnswer = z.object(deliveryFields).meta({ id: "Delivery" });
const deliveryDetailAnswer = z
  .object({
    ...deliveryFields,
    body: z.string().nullable().meta({ description: "As it is sent; null: the person whom it told of was deleted." }),
  })
  .meta({ id: "DeliveryDetail" });

function deliveryJson(oneDestination: Delivery): z.infer<typeof deliveryAnswer> {
  return {
    id: oneDestination.id,
    event_id: oneDestination.eventId,
    type: oneDestination.type,
    state: oneDestination.state,
    end_reason: oneDestination.endReason,
    created_at: iso(oneDestination.createdAtMs),
    due_at: isoOrNull(oneDestination.dueAtMs),
    attempts: oneDestination.attempts.map(({ atMs, tookMs, status, error, answer }) => {
      return { at: iso(atMs), ms: tookMs, status, error, answer };
    }),
  };
}

function deliveryDetailJson({
  delivery,
  body,
}: DeliveryDetail & { body: string | null }): z.infer<typeof deliveryDetailAnswer> {
  return { ...deliveryJson(delivery), body };
}

const tag = "Destinations";
const oneDestination = { 200: { description: "The destination.", schema: destinationAnswer } };
const secretRotation = z.strictObject({ overlap: z.enum(["none", "1h", "24h", "7d"]).default("24h") });
const thresholdsBody = z.strictObject({ thresholds });
const thresholdsAnswer = z.object({ thresholds: z.array(z.number()) }).meta({ id: "Thresholds" });

export const destinationRoutes = operator
  .createApp()
  .post(
    "/workspaces/:workspace_id/destinations",
    operation({
      tag,
      summary: "Create a destination",
      description: `At most ${DESTINATIONS_MAX}. The answer holds the secret of a webhook, which cannot be had again.`,
      body: newDestination,
      bodyExample: {
        name: "CRM",
        type: "webhook",
        target: "https://crm.example.com/hooks/signals",
        events: ["person.score_crossed"],
      },
      answers: { 201: { description: "The new destination.", schema: createdDestinationAnswer } },
      conflicts: ["too_many_destinations"],
    }),
    async (c) => {
      const created = await destinations.createDestination(callOf(c), c.req.valid("json"));
      return created.ok ? c.json(createdDestinationJson(created.value), 201) : refusal(c, created.refusal);
    },
  )
  .get(
    "/workspaces/:workspace_id/destinations",
    operation({
      tag,
      summary: "List the destinations",
      answers: { 200: { description: "All of them, oldest first.", schema: listOf(destinationAnswer) } },
    }),
    async (c) => {
      const all = await destinations.listDestinations(c.env, c.get("workspace").id);
      return c.json({ items: all.map(destinationJson), next: null });
    },
  )
  .get(
    "/workspaces/:workspace_id/destinations/:destination_id",
    operation({ tag, summary: "Get a destination", answers: oneDestination }),
    async (c) => {
      const found = await destinations.findDestination(c.env, c.get("workspace").id, c.req.param("destination_id"));
      return found === null ? notFound(c, "destination") : c.json(destinationJson(found));
    },
  )
  .patch(
    "/workspaces/:workspace_id/destinations/:destination_id",
    operation({
      tag,
      summary: "Change a destination",
      description: "What is left out stays. What waits for it goes to the new target.",
      body: destinationChange,
      bodyExample: { events: ["person.score_crossed", "usage.level"] },
      answers: oneDestination,
    }),
    async (c) => {
      const { name, target, events } = c.req.valid("json");
      const change = { ...(name && { name }), ...(target && { target }), ...(events && { events }) };
      const updated = await destinations.updateDestination(callOf(c), c.req.param("destination_id"), change);
      return updated.ok ? c.json(destinationJson(updated.value)) : refusal(c, updated.refusal);
    },
  )
  .delete(
    "/workspaces/:workspace_id/destinations/:destination_id",
    operation({
      tag,
      summary: "Delete a destination",
      description: "With all its deliveries, those that wait too.",
      answers: { 204: { description: "It is gone." } },
    }),
    async (c) => {
      const deleted = await destinations.deleteDestination(callOf(c), c.req.param("destination_id"));
      return deleted ? c.body(null, 204) : notFound(c, "destination");
    },
  )
  .post(
    "/workspaces/:workspace_id/destinations/:destination_id/pause",
    operation({
      tag,
      summary: "Pause a destination",
      description: "What happens until it is resumed is never told it. What waits already, it is told then.",
      answers: oneDestination,
    }),
    async (c) => {
      const paused = await destinations.pauseDestination(callOf(c), c.req.param("destination_id"));
      return paused.ok ? c.json(destinationJson(paused.value)) : refusal(c, paused.refusal);
    },
  )
  .post(
    "/workspaces/:workspace_id/destinations/:destination_id/resume",
    operation({
      tag,
      summary: "Resume a destination",
      description: "Also one that was switched off.",
      answers: oneDestination,
    }),
    async (c) => {
      const resumed = await destinations.resumeDestination(callOf(c), c.req.param("destination_id"));
      return resumed.ok ? c.json(destinationJson(resumed.value)) : refusal(c, resumed.refusal);
    },
  )
  .post(
    "/workspaces/:workspace_id/destinations/:destination_id/rotate-secret",
    operation({
      tag,
      summary: "Rotate the secret of a webhook",
      description: "Until the overlap ends, deliveries carry two signatures: one of each secret.",
      body: secretRotation,
      bodyExample: { overlap: "24h" },
      answers: { 201: { description: "With the new secret.", schema: createdDestinationAnswer } },
      conflicts: ["destination_without_secret"],
    }),
    async (c) => {
      const { overlap } = c.req.valid("json");
      const rotated = await destinations.rotateSecret(callOf(c), c.req.param("destination_id"), overlap);
      return rotated.ok ? c.json(createdDestinationJson(rotated.value), 201) : refusal(c, rotated.refusal);
    },
  )
  .post(
    "/workspaces/:workspace_id/destinations/:destination_id/test",
    operation({
      tag,
      summary: "Send a test",
      description: "At once, once, and whatever state the destination is in. Get the delivery to see what came of it.",
      answers: { 201: { description: "The delivery.", schema: deliveryAnswer } },
    }),
    async (c) => {
      const sent = await destinations.sendTest(callOf(c), c.req.param("destination_id"));
      return sent.ok ? c.json(deliveryJson(sent.value), 201) : refusal(c, sent.refusal);
    },
  )
  .get(
    "/workspaces/:workspace_id/destinations/:destination_id/deliveries",
    operation({
      tag,
      summary: "List the deliveries to a destination",
      description: "All that wait, and the latest 200 of the others for 30 days.",
      query: pageQuery,
      answers: { 200: { description: "Latest first.", schema: listOf(deliveryAnswer) } },
    }),
    async (c) => {
      const page = pageAsked(c.req.valid("query"));
      const { id } = c.get("workspace");
      const deliveries = await destinations.listDeliveries(c.env, id, c.req.param("destination_id"), page);
      return deliveries === null ? notFound(c, "destination") : c.json(mapPage(deliveries, deliveryJson));
    },
  )
  .get(
    "/workspaces/:workspace_id/destinations/:destination_id/deliveries/:delivery_id",
    operation({
      tag,
      summary: "Get a delivery",
      answers: { 200: { description: "With its body.", schema: deliveryDetailAnswer } },
    }),
    async (c) => {
      const { destination_id: destinationId, delivery_id: id } = c.req.param();
      const found = await destinations.findDelivery(c.env, c.get("workspace").id, destinationId, id);
      return found === null ? notFound(c, "delivery") : c.json(deliveryDetailJson(found));
    },
  )
  .post(
    "/workspaces/:workspace_id/destinations/:destination_id/deliveries/:delivery_id/again",
    operation({
      tag,
      summary: "Deliver again",
      description: "At once, and by the whole schedule if need be. The receiver knows it by its `webhook-id`.",
      answers: { 200: { description: "The delivery.", schema: deliveryAnswer } },
      conflicts: ["destination_not_active"],
    }),
    async (c) => {
      const { destination_id: destinationId, delivery_id: id } = c.req.param();
      const again = await destinations.deliverAgain(callOf(c), destinationId, id);
      return again.ok ? c.json(deliveryJson(again.value)) : refusal(c, again.refusal, "delivery");
    },
  )
  .get(
    "/workspaces/:workspace_id/thresholds",
    operation({
      tag,
      summary: "Get the scores whose crossing is told",
      answers: { 200: { description: "Ascending.", schema: thresholdsAnswer } },
    }),
    async (c) => c.json({ thresholds: await destinations.readThresholds(c.env, c.get("workspace").id) }),
  )
  .put(
    "/workspaces/:workspace_id/thresholds",
    operation({
      tag,
      summary: "Set the scores whose crossing is told",
      description:
        "`person.score_crossed` is raised for each, once a person until their score has fallen below it again.",
      body: thresholdsBody,
      bodyExample: { thresholds: [50, 100] },
      answers: { 200: { description: "Ascending.", schema: thresholdsAnswer } },
    }),
    async (c) => {
      const asked = c.req.valid("json");
      await destinations.changeThresholds(callOf(c), asked.thresholds);
      return c.json(asked);
    },
  );

function callOf(c: Context<OperatorEnv>): destinations.DestinationsCall {
  const { origin } = new URL(c.req.url);
  return { env: c.env, db: c.get("db"), workspace: c.get("workspace"), origin, by: byOperator() };
}

function refusal(c: Context<OperatorEnv>, problem: destinations.DestinationProblem, what = "destination"): Response {
  switch (problem.reason) {
    case "not_found":
      return notFound(c, what);
    case "target":
      return validationFailed(c, [{ path: "target", message: TARGET_PROBLEMS[problem.problem] }]);
    case "type_not_offered":
      return validationFailed(c, [{ path: "type", message: "this deployment sends no email" }]);
    case "too_many":
      return conflict(c, "too_many_destinations", `A workspace has at most ${DESTINATIONS_MAX} destinations.`);
    case "not_active":
      return conflict(c, "destination_not_active", "The destination is paused or switched off. Resume it first.");
    case "not_a_webhook":
      return conflict(c, "destination_without_secret", "Only what a webhook is sent is signed.");
  }
}
