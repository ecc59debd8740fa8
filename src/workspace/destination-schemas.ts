/** Schemas of what a destination of a workspace's events may be made and changed with. */
import * as z from "zod";
import { DESTINATION_TYPES } from "../domain/events/destination.ts";
import { eventTypes } from "../domain/events/workspace-event.ts";
import { DESTINATION_URL_MAX_LENGTH, KEY_SILENT_MAX_DAYS, THRESHOLDS_MAX } from "../limits.ts";
import { name } from "./field-schemas.ts";

/** Types of events, each once, in the order of `eventTypes`. */
export const wantedTypes = z
  .array(z.enum(eventTypes))
  .min(1, "at least one")
  .transform((types) => eventTypes.filter((type) => types.includes(type)))
  .meta({ description: "The types of events that it is sent.", example: ["person.score_crossed"] });

const target = z.string().trim().min(1).max(DESTINATION_URL_MAX_LENGTH).meta({
  description:
    "Of a webhook, and of a Slack-compatible one: a URL with `https` and a public name, without credentials. Of an email: an address.",
  example: "https://crm.example.com/hooks/signals",
});

export const newDestination = z
  .strictObject({
    name,
    type: z.enum(DESTINATION_TYPES).meta({
      description: "`email` only where the deployment sends email.",
    }),
    target,
    events: wantedTypes,
  })
  .meta({ id: "NewDestination" });

export const destinationChange = z
  .strictObject({ name: name.optional(), target: target.optional(), events: wantedTypes.optional() })
  .meta({ id: "DestinationChange" });

/** Thresholds, each once; given in any order, read as ascending. */
export const thresholds = z
  .array(z.int().min(-1_000_000).max(1_000_000))
  .max(THRESHOLDS_MAX)
  .refine((scores) => new Set(scores).size === scores.length, "the same score twice")
  .transform((scores) => scores.toSorted((a, b) => a - b))
  .meta({ description: `Scores whose crossing is told, at most ${THRESHOLDS_MAX}.`, example: [50, 100] });

export const silentAfterDays = z
  .int()
  .min(1)
  .max(KEY_SILENT_MAX_DAYS)
  .nullable()
  .meta({ description: "After so many days without a call `key.silent` is raised; null: never.", example: 3 });
