/** Destinations of a workspace's notifications, their deliveries, and the score thresholds. */
import type { Context } from "hono";
import * as z from "zod";
import type { HeaderRejection } from "../domain/notifications/custom-header.ts";
import { DESTINATION_TYPES, DISABLED_REASONS, type Destination } from "../domain/notifications/destination.ts";
import {
  destinationNotificationTypes,
  notificationTypes,
  type ScoreThresholds,
} from "../domain/notifications/notification.ts";
import { ok, reject, type Result } from "../domain/result.ts";
import { headerName, headersOf, headerValue, name, boundedText, time } from "../http/fields.ts";
import { DELIVERIES_KEPT, DESTINATION_HEADERS_MAX, DESTINATION_URL_MAX_LENGTH, DESTINATIONS_MAX } from "../limits.ts";
import type { CreatedDestination, Delivery } from "../notifications/destination-calls.ts";
import * as destinations from "../use-cases/manage-destinations.ts";
import { OVERLAPS } from "../use-cases/manage-keys.ts";
import { destinationsOf } from "../use-cases/objects.ts";
import {
  listQueryOf,
  count,
  idOf,
  instant,
  listOf,
  listQuery,
  contextOf,
  operationsOf,
  type OperatorEnv,
} from "./operation.ts";

const type = z.enum(DESTINATION_TYPES);
const target = boundedText(DESTINATION_URL_MAX_LENGTH, { trim: true }).min(1).meta({
  description:
    "Of a webhook or a Slack-compatible webhook: a URL with `https` and a public host name, without credentials. Of an email: an address.",
  example: "https://crm.example.com/hooks/signals",
});

const wantedTypes = z
  .array(z.enum(notificationTypes))
  .min(1, "at least one")
  .transform((types) => notificationTypes.filter((wanted) => types.includes(wanted)))
  .meta({ description: "Types of notifications that are sent to the destination.", example: ["person.score_crossed"] });

const nameOfHeader = headerName.meta({ description: "Shown in answers.", example: "X-Api-Key" });
const valueOfHeader = headerValue.meta({
  description: "A secret: no answer contains it.",
  writeOnly: true,
  example: "<your receiver's token>",
});

const newHeaders = headersOf(z.strictObject({ name: nameOfHeader, value: valueOfHeader })).meta({
  description:
    `At most ${DESTINATION_HEADERS_MAX} headers that each delivery to a webhook carries, for a receiver that expects a token. ` +
    "Headers that the service or the network sets are rejected.",
});

const changedHeaders = headersOf(z.strictObject({ name: nameOfHeader, value: valueOfHeader.exactOptional() })).meta({
  description:
    "Replaces all headers. A header without `value` keeps its stored value. If the target gets another host, each header needs its value.",
});

const newDestination = z
  .strictObject({
    name,
    type: type.describe("`email` only if this deployment sends email."),
    target,
    headers: newHeaders.default([]),
    notifications: wantedTypes,
  })
  .meta({ id: "NewDestination" });

const destinationChange = z
  .strictObject({
    name: name.exactOptional(),
    target: target.exactOptional(),
    headers: changedHeaders.exactOptional(),
    notifications: wantedTypes.exactOptional(),
  })
  .meta({ id: "DestinationChange" });

const destination = z
  .object({
    id: idOf("dst", "Of the destination."),
    name: z.string(),
    type,
    target: z.string().meta({
      description: "Without possible secrets: the query of a URL, the path of a Slack-compatible webhook.",
      example: "https://crm.example.com/hooks/signals",
    }),
    headers: z
      .array(z.object({ name: z.string().meta({ example: "X-Api-Key" }) }))
      .describe("Names of the custom headers. Their values are not shown."),
    notifications: z.array(z.enum(notificationTypes)),
    state: z.enum(["active", "paused", "disabled"]).describe("`disabled`: the service has switched it off."),
    disabled_reason: z
      .enum(DISABLED_REASONS)
      .nullable()
      .describe("`gone`: the receiver answered 410. `failing`: no delivery succeeded for five days."),
    confirmed: z.boolean().describe("False: an email address that has not confirmed. It gets codes, and nothing else."),
    created_at: instant,
    failing_since: instant.nullable().describe("Null: the last attempt succeeded."),
    last_delivered_at: instant.nullable(),
    waiting: count.describe("Deliveries that will be tried, or tried again."),
    dropped: count.describe("Notifications that were dropped because too many waited."),
    old_secret_ends_at: instant.nullable().describe("Until this time, deliveries are also signed with the old secret."),
  })
  .meta({ id: "Destination" });
const createdDestination = z
  .object({
    ...destination.shape,
    secret: z.string().optional().meta({
      description: "The secret that signs deliveries to a webhook. No other answer contains it.",
      example: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    }),
  })
  .meta({ id: "CreatedDestination" });

const delivery = z
  .object({
    id: idOf("dlv", "Of the delivery."),
    notification_id: idOf("ntf", "Of the notification. Sent as `webhook-id`."),
    type: z.enum([...notificationTypes, ...destinationNotificationTypes]),
    state: z.enum(["waiting", "delivered", "failed"]),
    end_reason: z
      .enum(["attempts_failed", "switched_off", "too_many", "person_deleted"])
      .nullable()
      .describe(
        "Why a delivery failed: all attempts failed, its destination was switched off, too many waited, or its person was deleted.",
      ),
    created_at: instant,
    due_at: instant.nullable().describe("Time of the next attempt of a waiting delivery."),
    attempts: z
      .array(
        z.object({
          at: instant,
          ms: z.number().describe("Time until the answer or the failure."),
          status: z.int().nullable().describe("Of the answer. Null: there was no answer."),
          error: z.string().nullable().describe("Null: the delivery succeeded."),
          answer: z
            .string()
            .nullable()
            .describe(
              "The beginning of the answer, at most 1 KB. Null for a destination with custom headers: an answer may repeat them.",
            ),
        }),
      )
      .describe("Latest last."),
  })
  .meta({ id: "Delivery" });
const deliveryDetail = z
  .object({
    ...delivery.shape,
    body: z.string().nullable().describe("The body as it is sent. Null: its person was deleted."),
  })
  .meta({ id: "DeliveryDetail" });

const resentDeliveries = z
  .object({
    resent: count.describe("Deliveries that are sent again."),
    not_resent: z.object({
      person_deleted: count.describe("Their person was deleted, and the body with it."),
      too_many_waiting: count.describe("Too many deliveries wait. Send the request again later."),
      not_kept: count.describe(
        "Failed deliveries of the last 30 days that are no longer stored. Counted by the hour: some may have failed up to an hour earlier.",
      ),
    }),
  })
  .meta({ id: "ResentDeliveries" });

const thresholdsAnswer = z
  .object({
    thresholds: z.array(z.number()).describe("For people's scores."),
    account_thresholds: z.array(z.number()).describe("For accounts' scores."),
  })
  .meta({ id: "Thresholds" });

const operation = operationsOf("Destinations", "destination");
const DESTINATION = { answers: { 200: "The destination." }, schema: destination };

export const destinationRoutes = [
  operation("POST", "/workspaces/:workspace_id/destinations", {
    summary: "Create a destination",
    description: `A workspace has at most ${DESTINATIONS_MAX}. The answer contains the secret of a webhook. It cannot be retrieved later.`,
    body: newDestination,
    bodyExample: {
      name: "CRM",
      type: "webhook",
      target: "https://crm.example.com/hooks/signals",
      notifications: ["person.score_crossed"],
    },
    answers: { 201: "The new destination." },
    schema: createdDestination,
    conflicts: ["too_many_destinations", "too_many_codes"],
    handle: async (c, { body }) =>
      outcomeOf(await destinations.createDestination(destinationsContext(c), body), withSecret),
  }),
  operation("GET", "/workspaces/:workspace_id/destinations", {
    summary: "List the destinations",
    answers: { 200: "All destinations, oldest first." },
    schema: listOf(destination),
    async handle(c) {
      const all = await destinationsOf(c.env, c.var.workspace.id).list();
      return { items: all.map(shown), next: null };
    },
  }),
  operation("GET", "/workspaces/:workspace_id/destinations/:destination_id", {
    summary: "Get a destination",
    ...DESTINATION,
    async handle(c) {
      const found = await destinationsOf(c.env, c.var.workspace.id).find(c.req.param("destination_id"));
      return found && shown(found);
    },
  }),
  operation("PATCH", "/workspaces/:workspace_id/destinations/:destination_id", {
    summary: "Change a destination",
    description: "Omitted fields keep their value. Waiting deliveries go to the new target.",
    body: destinationChange,
    bodyExample: { notifications: ["person.score_crossed", "usage.level"] },
    ...DESTINATION,
    conflicts: ["too_many_codes"],
    handle: async (c, { body }) => outcomeOf(await destinations.updateDestination(...destinationOf(c), body), shown),
  }),
  operation("DELETE", "/workspaces/:workspace_id/destinations/:destination_id", {
    summary: "Delete a destination",
    description: "Also deletes its deliveries, including waiting ones.",
    answers: { 204: "Deleted." },
    async handle(c) {
      return (await destinations.deleteDestination(...destinationOf(c))) ? ok(null) : null;
    },
  }),
  operation("POST", "/workspaces/:workspace_id/destinations/:destination_id/pause", {
    summary: "Pause a destination",
    description: "Notifications during the pause are never sent to it. Waiting deliveries are sent when it is resumed.",
    ...DESTINATION,
    handle: async (c) => outcomeOf(await destinations.pauseDestination(...destinationOf(c)), shown),
  }),
  operation("POST", "/workspaces/:workspace_id/destinations/:destination_id/resume", {
    summary: "Resume a destination",
    description: "Also resumes a destination that the service has switched off.",
    ...DESTINATION,
    handle: async (c) => outcomeOf(await destinations.resumeDestination(...destinationOf(c)), shown),
  }),
  operation("POST", "/workspaces/:workspace_id/destinations/:destination_id/confirm", {
    summary: "Confirm an email address",
    description:
      "A new email destination, or one with a new address, gets an email with a code, and nothing else until the code is entered " +
      "here or on its page. The code works for 24 hours and five tries. A test sends a new one.",
    body: z.strictObject({ code: boundedText(20) }),
    bodyExample: { code: "04711815" },
    ...DESTINATION,
    conflicts: ["code_wrong"],
    handle: async (c, { body: { code } }) =>
      outcomeOf(await destinations.confirmDestination(...destinationOf(c), code.trim()), shown),
  }),
  operation("POST", "/workspaces/:workspace_id/destinations/:destination_id/rotate-secret", {
    summary: "Rotate the secret of a webhook",
    description: "Until the overlap ends, deliveries carry a signature of each secret.",
    body: z.strictObject({ overlap: z.enum(OVERLAPS).default("24h") }),
    bodyExample: { overlap: "24h" },
    answers: { 201: "The destination with the new secret." },
    schema: createdDestination,
    conflicts: ["destination_without_secret"],
    handle: async (c, { body: { overlap } }) =>
      outcomeOf(await destinations.rotateSecret(...destinationOf(c), overlap), withSecret),
  }),
  operation("POST", "/workspaces/:workspace_id/destinations/:destination_id/test", {
    summary: "Send a test",
    description:
      "Sends one test at once, in any state of the destination, or a new code to an email address that has not confirmed. Get the " +
      "delivery to see the result.",
    answers: { 201: "The delivery." },
    schema: delivery,
    conflicts: ["too_many_codes"],
    handle: async (c) => outcomeOf(await destinations.sendTest(...destinationOf(c)), withAttempts),
  }),
  operation("GET", "/workspaces/:workspace_id/destinations/:destination_id/deliveries", {
    summary: "List the deliveries to a destination",
    description: "All waiting deliveries, and the latest 200 of the ended ones for 30 days.",
    query: listQuery,
    answers: { 200: "The deliveries, latest first." },
    schema: listOf(delivery),
    async handle(c, { query }) {
      const object = destinationsOf(c.env, c.var.workspace.id);
      const page = await object.listDeliveries(c.req.param("destination_id"), listQueryOf(query));
      return page && { items: page.items.map(withAttempts), next: page.next };
    },
  }),
  operation("GET", "/workspaces/:workspace_id/destinations/:destination_id/deliveries/:delivery_id", {
    summary: "Get a delivery and its body",
    answers: { 200: "The delivery." },
    schema: deliveryDetail,
    noun: "delivery",
    async handle(c) {
      const { destination_id: destinationId, delivery_id: id } = c.req.param();
      const found = await destinations.findDelivery(c.env, c.var.workspace.id, destinationId, id);
      return found && { ...withAttempts(found.delivery), body: found.body };
    },
  }),
  operation("POST", "/workspaces/:workspace_id/destinations/:destination_id/deliveries/:delivery_id/again", {
    summary: "Deliver again",
    description: "Sends the delivery at once, with the full retry schedule. Its `webhook-id` stays the same.",
    answers: { 200: "The delivery." },
    schema: delivery,
    conflicts: ["destination_not_active"],
    noun: "delivery",
    handle: async (c) =>
      outcomeOf(await destinations.deliverAgain(...destinationOf(c), c.req.param("delivery_id")), withAttempts),
  }),
  operation("POST", "/workspaces/:workspace_id/destinations/:destination_id/deliveries/again", {
    summary: "Deliver again everything that failed since a time",
    description:
      `Sends stored deliveries that failed at \`since\` or later, oldest first, with the full retry schedule. Each \`webhook-id\` stays the ` +
      `same. The latest ${DELIVERIES_KEPT} ended deliveries are stored. Tests are not sent again. A repeated call sends nothing twice.`,
    body: z.strictObject({ since: time.describe("Start of the failures, in ISO 8601.") }),
    bodyExample: { since: "2026-11-20T08:00:00Z" },
    query: z.strictObject({
      dry_run: z.enum(["true", "false"]).default("false").describe("Counts and sends nothing."),
    }),
    answers: { 200: "What is sent again, or would be." },
    schema: resentDeliveries,
    conflicts: ["destination_not_active"],
    async handle(c, { body: { since }, query: { dryRun } }) {
      const [context, id] = destinationOf(c);
      const sinceMs = Date.parse(since);
      if (dryRun === "true") return destinationsOf(c.env, c.var.workspace.id).failedSince(id, sinceMs);
      return outcomeOf(await destinations.resendDeliveries(context, id, sinceMs), (repeated) => repeated);
    },
  }),
  operation("GET", "/workspaces/:workspace_id/thresholds", {
    summary: "Get the score thresholds",
    answers: { 200: "The thresholds, ascending." },
    schema: thresholdsAnswer,
    handle: async (c) => shownThresholds(await destinationsOf(c.env, c.var.workspace.id).thresholds()),
  }),
  operation("PUT", "/workspaces/:workspace_id/thresholds", {
    summary: "Set the score thresholds",
    description:
      "`person.score_crossed` is raised when a person's score reaches a threshold, and `person.score_fell` when it has fallen below. Each is raised again only after the other. `account.score_crossed` and `account.score_fell` do the same for accounts.",
    body: z.strictObject({
      thresholds: destinations.thresholds,
      account_thresholds: destinations.accountThresholds.exactOptional(),
    }),
    bodyExample: { thresholds: [50, 100], account_thresholds: [200] },
    answers: { 200: "The thresholds, ascending." },
    schema: thresholdsAnswer,
    async handle(c, { body: { thresholds, accountThresholds } }) {
      const context = destinationsContext(c);
      return shownThresholds(await destinations.changeThresholds(context, thresholds, accountThresholds));
    },
  }),
];

function destinationsContext(c: Context<OperatorEnv>): destinations.DestinationsContext {
  return { ...contextOf(c), slug: c.var.workspace.slug, origin: new URL(c.req.url).origin };
}

function destinationOf(c: Context<OperatorEnv>): [destinations.DestinationsContext, id: string] {
  return [destinationsContext(c), c.req.param("destination_id") ?? ""];
}

function shown({ maskedTarget, headerNames, ...rest }: Destination) {
  return { ...rest, target: maskedTarget, headers: headerNames.map((header) => ({ name: header })) };
}

function shownThresholds({ people, accounts }: ScoreThresholds) {
  return { thresholds: people, accountThresholds: accounts };
}

function withSecret({ destination: created, secret }: CreatedDestination) {
  return { ...shown(created), ...(secret !== null && { secret }) };
}

function withAttempts({ attempts, ...rest }: Delivery) {
  return { ...rest, attempts: attempts.map(({ tookMs, ...attempt }) => ({ ...attempt, ms: tookMs })) };
}

function outcomeOf<Value, Shown>(
  result: Result<Value, destinations.DestinationProblem>,
  show: (value: Value) => Shown,
) {
  if (result.ok) return ok(show(result.value));
  const { rejection } = result;
  return isFieldProblem(rejection) ? reject([FIELD_PROBLEMS[rejection]]) : reject(rejection);
}

type FieldProblem = "type_not_offered" | destinations.TargetProblem | HeaderRejection;

const FIELD_PROBLEMS: Record<FieldProblem, { path: string; message: string }> = {
  type_not_offered: { path: "type", message: "this deployment sends no email" },
  not_a_url: { path: "target", message: "not a URL" },
  too_long: { path: "target", message: "too long" },
  not_https: { path: "target", message: "must begin with https://" },
  credentials: { path: "target", message: "must hold no user name and no password" },
  address: { path: "target", message: "must have a name as its host, not an address" },
  not_public: { path: "target", message: "must have a public name as its host" },
  port: { path: "target", message: "must have no port, or one from 1024 on" },
  own_host: { path: "target", message: "leads to this service itself" },
  not_an_email: { path: "target", message: "not an email address" },
  headers_of_webhooks_only: { path: "headers", message: "only a webhook has headers" },
  header_without_value: { path: "headers", message: "a header that is not stored yet needs a value" },
  headers_for_another_url: {
    path: "headers",
    message: "the target is another URL: send each value again, or no headers",
  },
};

function isFieldProblem(problem: destinations.DestinationProblem): problem is FieldProblem {
  return problem in FIELD_PROBLEMS;
}
