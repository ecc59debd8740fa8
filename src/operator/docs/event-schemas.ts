/** What a webhook is sent, by type of event: the OpenAPI document's `webhooks`. */
import * as z from "zod";
import type { ZodOpenApiOperationObject, ZodOpenApiPathItemObject } from "zod-openapi";
import { exampleEvent } from "../../domain/events/examples.ts";
import { envelopeOf } from "../../domain/events/request-body.ts";
import {
  destinationEventTypes,
  eventTypes,
  type AnyEventType,
  type EventData,
} from "../../domain/events/workspace-event.ts";
import { count, idOf, instant } from "../schema-parts.ts";

const email = z.string().meta({ example: "jane@example.com" });
const score = z.number().meta({ description: "Of the person." });
const key = { key_id: idOf("key", "Of the key."), key_name: z.string() };
const lastUsed = instant.nullable().meta({ description: "The last authenticated call; null: there was none." });
const period = { period_start: instant, period_end: instant };

/** The data of each type of event; the compiler sees to it that the schemas say what is sent. */
const DATA: { [Type in AnyEventType]: z.ZodType<EventData[Type]> } = {
  "person.score_crossed": z.object({
    email,
    threshold: z.number(),
    score,
    score_before: z.number(),
    signal_id: idOf(
      "sig",
      "Of the latest signal that made the difference; null: it is somebody else's by now.",
    ).nullable(),
  }),
  "person.scored": z.object({
    scoring_signals: z.array(
      z.object({
        email,
        scoring_signal: z.string(),
        points: z.number(),
        score,
        rule_id: idOf("rule", "Of the mapping rule that matched."),
        signal_id: idOf("sig", "Of the signal."),
        event: z.string(),
        received_at: instant,
      }),
    ),
  }),
  "people.rescored": z.object({
    cause: z.enum(["rule_applied", "signals_linked"]),
    rule_id: z.string().nullable().meta({ description: "Of the rule that was applied." }),
    email: z.string().nullable().meta({ description: "Whose the signals are now that were linked." }),
    added: count.meta({ description: "Signals that score what they did not." }),
    changed: count,
    removed: count,
    points: z.number().meta({ description: "What that adds to the scores of all people together." }),
    thresholds: z.array(z.object({ threshold: z.number(), risen: count, fallen: count })),
  }),
  "usage.level": z.object({
    level: z.enum(["80", "100", "200", "first_refusal"]).meta({ description: "Percent of the signal limit." }),
    used: count,
    signal_limit: count,
    overages: z.boolean(),
    ...period,
  }),
  "period.closed": z.object({
    ...period,
    signal_limit: count,
    overages: z.boolean(),
    accepted: count.meta({ description: "Within the limit, or with overages on; held ones are apart." }),
    held: count,
    rejected: count,
    overage: count,
    streak: count.meta({ description: "Periods in a row over the limit, this one included." }),
    extra_room_removed: z.boolean(),
  }),
  "key.expiring": z.object({
    ...key,
    expires_at: instant,
    days: z.int().meta({ description: "So many days ahead, or less: 30, 7 or 1." }),
    successor_id: z.string().nullable().meta({ description: "Of the key that it was rotated into." }),
    last_used_at: lastUsed,
  }),
  "key.silent": z.object({ ...key, days: z.int(), last_used_at: lastUsed }),
  "refusals.burst": z.object({
    key_id: key.key_id,
    from: instant,
    to: instant,
    calls: count,
    refused: count,
    codes: z.record(z.string(), count).meta({ description: "Refused calls by code.", example: { body_not_json: 60 } }),
  }),
  "dead_letters.added": z.object({
    signals: count,
    reasons: z.record(z.string(), count).meta({ description: "Signals by reason.", example: { rules_too_slow: 3 } }),
  }),
  "processing.late": z.object({ oldest_at: instant, signals: count }),
  "destination.disabled": z.object({
    destination_id: idOf("dst", "Of the destination."),
    destination_name: z.string(),
    reason: z.enum(["gone", "failing"]).meta({
      description: "`gone`: it answered 410. `failing`: nothing has reached it for five days.",
    }),
  }),
  "destination.test": z.object({ message: z.string() }),
};

const WHEN: Record<AnyEventType, string> = {
  "person.score_crossed": "A person's score has risen to a threshold of the workspace, or above it",
  "person.scored": "Scoring signals were made; gathered, at most one delivery a second",
  "people.rescored": "A mapping rule was applied to the past, or many earlier signals have become a person's",
  "usage.level": "80, 100 or 200 % of the signal limit are reached, or a signal was refused for it",
  "period.closed": "A billing period has ended",
  "key.expiring": "An API key ends in 30, 7 or 1 days",
  "key.silent": "Nothing has come with an API key for as many days as were chosen for it",
  "refusals.burst": "More than a tenth of a key's calls of five minutes were refused, and at least 20",
  "dead_letters.added": "Signals could not be processed",
  "processing.late": "The oldest signal that is not processed is older than ten minutes",
  "destination.disabled": "Another destination was switched off; every destination is told",
  "destination.test": "Somebody has sent a test; only the destination that it tests is told",
};

const DESCRIPTION =
  "Signed by the Standard Webhooks specification: verify the raw body with one of its libraries and the destination's secret. " +
  "At least once, in no promised order: `webhook-id` stays the same over all attempts, so drop what you have had. Answer with " +
  "any 2xx within 10 seconds; what fails comes again for some three days. 410 ends the destination.";

const headers = z.object({
  "webhook-id": idOf("evt", "Of the event; the same at each attempt."),
  "webhook-timestamp": z
    .string()
    .meta({ description: "Of the attempt, in seconds since 1970.", example: "1763645220" }),
  "webhook-signature": z.string().meta({
    description:
      "`v1,` and an HMAC-SHA256 in base64; two of them, separated by a space, while a rotated secret still holds.",
    example: "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
  }),
});

export const webhooks: Record<string, ZodOpenApiPathItemObject> = Object.fromEntries(
  [...eventTypes, ...destinationEventTypes].map((type) => [type, { post: webhook(type) }]),
);

function webhook(type: AnyEventType): ZodOpenApiOperationObject {
  const schema = z
    .object({
      id: idOf("evt", "Of the event."),
      type: z.literal(type),
      time: instant.meta({ description: "When it became true." }),
      workspace: idOf("ws", "Of the workspace."),
      data: DATA[type],
    })
    .meta({ id: `Event_${type.replaceAll(/\W/g, "_")}` });
  const example = envelopeOf(exampleEvent(type), "ws_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d6f");
  return {
    tags: ["Destinations"],
    operationId: `on_${type.replaceAll(/\W/g, "_")}`,
    summary: WHEN[type],
    description: DESCRIPTION,
    security: [],
    requestParams: { header: headers },
    requestBody: { required: true, content: { "application/json": { schema, example } } },
    responses: {
      "2XX": { description: "It has arrived." },
      "410": { description: "Nothing is wanted here any more: the destination is switched off." },
    },
  };
}
