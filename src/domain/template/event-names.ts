/** The names under which senders write what happened, the surest first; compared without case and separators. */
import type { JsonObject } from "../json/json-value.ts";

export const EVENT_NAMES = [
  "event",
  "eventname",
  "eventtype",
  "topic",
  "subscriptiontype",
  "trigger",
  "metric",
  "recordtype",
  "type",
  "action",
] as const;

/** Only such names are repeated in a message, because any other may hold what belongs to a person. */
const PLAIN_NAME = /^[\w.-]{1,40}$/;

/** A name without case and separators, such as `eventname` for `Event-Name`. */
export function plainName(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}

/** The fields of a payload whose name suggests that they say what happened, as they were sent. */
export function eventNamesIn(payload: JsonObject): string[] {
  const names: string[] = [];
  for (const name in payload) {
    if (!PLAIN_NAME.test(name) || !Object.hasOwn(payload, name)) continue;
    const plain = plainName(name);
    if (EVENT_NAMES.some((known) => known === plain)) names.push(name);
    if (names.length === EVENT_NAMES.length) break;
  }
  return names;
}
