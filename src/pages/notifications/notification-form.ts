/** The forms of the notifications' pages as they are typed. Pure. */
import type * as z from "zod";
import { DESTINATION_TYPES, type DestinationType } from "../../domain/events/destination.ts";
import { eventTypes, type EventType } from "../../domain/events/workspace-event.ts";
import { ok, refuse, type Result } from "../../domain/result.ts";
import { THRESHOLDS_MAX } from "../../limits.ts";
import { name as nameSchema } from "../../http/fields.ts";
import { thresholds as thresholdsSchema } from "../../workspace/manage-destinations.ts";
import type { WantedDestination } from "../../workspace/manage-destinations.ts";
import { formText } from "../form-text.ts";

const DESTINATION_ID = /^dst_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export interface TypedDestination {
  /** Id of the destination that the form makes: a form that is sent twice makes one. */
  id: string;
  name: string;
  type: DestinationType;
  target: string;
  events: EventType[];
}

export interface DestinationErrors {
  name?: string;
  target?: string;
  events?: string;
  /** What is wrong with the form and not with one of its fields. */
  form?: string;
}

/** Events that a new form has ticked: what most want to know. The others are many, or need more to be chosen. */
const USUAL: ReadonlySet<EventType> = new Set<EventType>([
  "person.score_crossed",
  "usage.level",
  "period.closed",
  "key.expiring",
  "refusals.burst",
  "dead_letters.added",
  "processing.late",
]);

export function emptyDestination(id: string): TypedDestination {
  return { id, name: "", type: "webhook", target: "", events: eventTypes.filter((type) => USUAL.has(type)) };
}

/** @param newId is taken where the form came without an id. */
export function readDestinationForm(form: FormData, newId: string): TypedDestination {
  const id = formText(form, "id");
  const type = formText(form, "type");
  const asked = form.getAll("events");
  return {
    id: DESTINATION_ID.test(id) ? id : newId,
    name: formText(form, "name"),
    type: DESTINATION_TYPES.find((known) => known === type) ?? "webhook",
    target: formText(form, "target").trim(),
    events: eventTypes.filter((known) => asked.includes(known)),
  };
}

/** @param emptyTarget what an empty target means: an error, or that the stored one stays. A typed one is judged on storing it. */
export function checkDestination(
  { name, type, target, events }: TypedDestination,
  emptyTarget: "is_refused" | "keeps_stored",
): Result<WantedDestination, DestinationErrors> {
  const errors: DestinationErrors = {};
  const named = nameSchema.safeParse(name);
  if (!named.success) errors.name = name.trim() === "" ? "Give it a name." : firstIssue(named.error);
  if (target === "" && emptyTarget === "is_refused") {
    errors.target = type === "email" ? "Give the address." : "Give the URL.";
  }
  if (events.length === 0) errors.events = "Choose at least one.";
  if (!named.success || Object.keys(errors).length > 0) return refuse(errors);
  return ok({ name: named.data, type, target, events });
}

/** Thresholds as people write them (`50, 100`), in ascending order; or what is wrong, as a sentence. */
export function thresholdsTyped(typed: string): Result<number[], string> {
  const scores = typed.split(/[\s,;]+/).filter((text) => text !== "");
  if (scores.some((text) => !/^-?\d{1,7}$/.test(text))) return refuse("Whole numbers, such as 50, 100.");
  if (scores.length > THRESHOLDS_MAX) return refuse(`At most ${THRESHOLDS_MAX}.`);
  const read = thresholdsSchema.safeParse(scores.map(Number));
  return read.success ? ok(read.data) : refuse(firstIssue(read.error));
}

function firstIssue(error: z.ZodError): string {
  const message = error.issues[0]?.message ?? "";
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}
