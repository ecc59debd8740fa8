/**
 * What a signal is about, in a few words: the form, programme, email, page or feature that its properties name. Lists show it beside
 * the event, because the event alone (`Filled Out Form`) does not say which one.
 */
import { cut } from "../text.ts";
import { isJsonObject, presentText, WrittenNumber, type JsonObject } from "../json/json-value.ts";
import { withoutKeys } from "../keys/api-key.ts";
import type { NormalisedSignal } from "./signal.ts";

/** The property that says most comes first. */
const PROPERTIES = [
  "form_name",
  "form",
  "program_name",
  "program",
  "campaign_name",
  "campaign",
  "webinar",
  "email_name",
  "email_subject",
  "subject",
  "asset",
  "path",
  "url",
  "page",
  "feature",
  "product",
  "plan",
  "deal",
  "stage",
  "order",
  "report",
  "tag",
  "task",
  "link",
] as const;

/** Each with its spellings: `form_name`, `formName`. */
const SPELLINGS = PROPERTIES.flatMap((name) => [
  ...new Set([name, name.replaceAll(/_[a-z]/g, ([, letter = ""]) => letter.toUpperCase())]),
]);

/** The names of what an object is, such as `campaign[name]` of a form. */
const OBJECT_NAMES = ["name", "title", "subject", "url"] as const;

const TOPIC_CHARACTERS = 60;
/** A longer text is not looked at. */
const READ_CHARACTERS = 2_000;

/** Undefined: no property says it. An address of a person is never a topic, because lists show it without the person. */
export function topicOf({ properties, groupTraits, traits }: NormalisedSignal): string | undefined {
  if (groupTraits !== undefined) return topicText(groupTraits["name"]) ?? topicText(traits.account);
  const { data, name } = properties;
  const inner = isJsonObject(data) ? data : {};
  return topicIn(properties) ?? topicText(name, "name") ?? topicIn(inner) ?? listIn(properties) ?? listIn(inner);
}

/** Senders of forms put what a signal is about into objects. */
function topicIn(fields: JsonObject): string | undefined {
  for (const name of SPELLINGS) {
    const value = fields[name];
    if (value === undefined) continue;
    const texts = isJsonObject(value) ? OBJECT_NAMES.map((inner) => value[inner]) : [value];
    for (const one of texts) {
      const text = topicText(one, name);
      if (text !== undefined) return text;
    }
  }
  return undefined;
}

/** Which list, if nothing has a name. Senders write 0 for none. */
function listIn({ list_id: id, list }: JsonObject): string | undefined {
  const text = topicText(id ?? list);
  return text === undefined || text === "0" ? undefined : `list ${text}`;
}

/** A value as a topic; undefined: it is none. @param name of the property: a number alone says nothing. */
export function topicText(value: unknown, name = ""): string | undefined {
  const number = value instanceof WrittenNumber ? value.sent : typeof value === "number" ? String(value) : null;
  const text = number === null ? presentText(value) : `${name.replaceAll("_", " ")} ${number}`.trimStart();
  if (text === undefined || text.length > READ_CHARACTERS || text.includes("@")) return undefined;
  // Mask keys before cutting, because a cut key may not be recognised.
  return cut(withoutKeys(pathOf(text)).replaceAll(/\s+/g, " "), TOPIC_CHARACTERS);
}

/** The path of a page's address, or its host if it has no path. A query may contain secrets. */
function pathOf(text: string): string {
  if (!/^https?:\/\//i.test(text)) return /^\/[^?#]*/.exec(text)?.[0] ?? text;
  const url = URL.parse(text);
  if (url === null) return text;
  return url.pathname === "/" ? url.host : url.pathname;
}
