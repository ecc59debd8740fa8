/**
 * Declares the traits of a person. The person's row, the lines of the signal log, the export, the operator API and the pages
 * derive from it, in its order. Append only: stored data holds the first traits without their names.
 */
import { TRAIT_MAX_BYTES } from "../../limits.ts";
import { isJsonObject, isAbsent, presentText, type JsonObject } from "../json/json-value.ts";
import { withoutKeys } from "../keys/api-key.ts";

interface Trait {
  label: string;
  /** Whether a search finds people by a part of it. */
  isSearched: boolean;
  /** Its value in the traits of a call (spec §6). */
  ofTraits: (traits: Readonly<JsonObject>) => string | undefined;
  /** Its value in the properties of the marketing template (spec §2.2). */
  ofTemplate: (properties: Readonly<JsonObject>) => string | undefined;
}

/** The spellings of CDPs, HubSpot and the marketing automation template (spec §2.2). */
const FIRST_NAME = ["firstName", "firstname", "first_name"];
const LAST_NAME = ["lastName", "lastname", "last_name"];
const JOB_TITLE = ["jobTitle", "jobtitle", "job_title"];
/** Fields of a person in the marketing automation template, besides `title`. */
const TEMPLATE_FIELDS = ["lead_id", ...FIRST_NAME, ...LAST_NAME, ...JOB_TITLE, "company"];

const TRAITS = {
  name: {
    label: "Name",
    isSearched: true,
    ofTraits: (traits) => presentText(traits["name"]) ?? fullName(traits),
    ofTemplate: fullName,
  },
  company: {
    label: "Company",
    isSearched: true,
    ofTraits: ({ company }) => presentText(isJsonObject(company) ? company["name"] : company),
    ofTemplate: ({ company }) => presentText(company),
  },
  title: {
    label: "Title",
    isSearched: false,
    ofTraits: (traits) => presentText(traits["title"]) ?? firstText(traits, JOB_TITLE),
    // Without a template field, a title may be a page's.
    ofTemplate: (properties) => {
      const isTemplate = TEMPLATE_FIELDS.some((field) => !isAbsent(properties[field]));
      return firstText(properties, JOB_TITLE) ?? (isTemplate ? presentText(properties["title"]) : undefined);
    },
  },
} as const satisfies Record<string, Trait>;

type TraitName = keyof typeof TRAITS;

/**
 * The fields of a person that each signal can set: traits, and the external id of the account. Later signals replace them. Append only,
 * like TRAITS.
 */
export type PersonField = TraitName | "account";

export type Traits = Partial<Record<PersonField, string>>;

/** The traits of a person; null if never sent. */
export type PersonTraits = Record<TraitName, string | null>;

export const TRAIT_NAMES = Object.keys(TRAITS) as readonly TraitName[];

export const PERSON_FIELDS: readonly PersonField[] = [...TRAIT_NAMES, "account"];

export const SEARCHED_TRAITS = TRAIT_NAMES.filter((trait) => TRAITS[trait].isSearched);

export function eachTrait<Value>(valueOf: (trait: TraitName) => Value): Record<TraitName, Value> {
  return Object.fromEntries(TRAIT_NAMES.map((trait) => [trait, valueOf(trait)])) as Record<TraitName, Value>;
}

export function traitLabel(trait: TraitName): string {
  return TRAITS[trait].label;
}

/** Traits in a sentence, such as `name, company and title`. @param more further names at the end. */
export function traitsInWords(traits: readonly TraitName[], word: "and" | "or", ...more: readonly string[]): string {
  const words = [...traits.map((trait) => traitLabel(trait).toLowerCase()), ...more];
  return words.length < 2 ? words.join() : `${words.slice(0, -1).join(", ")} ${word} ${words.at(-1)}`;
}

/** @param template the properties of the marketing template; null if the signal does not use it. */
export function traitsSent(
  traits: Readonly<JsonObject>,
  contextTraits: Readonly<JsonObject>,
  template: Readonly<JsonObject> | null,
): Traits {
  const found: Traits = {};
  for (const name of TRAIT_NAMES) {
    const { ofTraits, ofTemplate } = TRAITS[name];
    const value = ofTraits(traits) ?? ofTraits(contextTraits) ?? (template === null ? undefined : ofTemplate(template));
    // Mask keys before truncating, because a truncated key may not be recognised.
    if (value !== undefined) found[name] = cutTrait(withoutKeys(value));
  }
  return found;
}

/** Maximum bytes of a UTF-16 code unit after `folded`: U+FDFA becomes eighteen letters. */
const FOLDED_MOST_BYTES = 33;

/** Truncates a trait to TRAIT_MAX_BYTES, both as it is stored and as it is searched. */
function cutTrait(text: string): string {
  if (text.length <= TRAIT_MAX_BYTES / FOLDED_MOST_BYTES) return text;
  const beginning = text.slice(0, TRAIT_MAX_BYTES + 1);
  if (Math.max(Buffer.byteLength(beginning), Buffer.byteLength(folded(beginning))) <= TRAIT_MAX_BYTES) return text;
  let [length, stored, searched] = [0, 0, 0];
  for (const character of beginning) {
    stored += Buffer.byteLength(character);
    searched += Buffer.byteLength(folded(character));
    if (Math.max(stored, searched) > TRAIT_MAX_BYTES) break;
    length += character.length;
  }
  return text.slice(0, length).trimEnd();
}

function fullName(fields: Readonly<JsonObject>): string | undefined {
  const first = firstText(fields, FIRST_NAME);
  const last = firstText(fields, LAST_NAME);
  return first !== undefined && last !== undefined ? `${first} ${last}` : (first ?? last);
}

/** The text of the first field that has one. */
function firstText(fields: Readonly<JsonObject>, names: readonly string[]): string | undefined {
  for (const name of names) {
    const text = presentText(fields[name]);
    if (text !== undefined) return text;
  }
  return undefined;
}

/** Combining marks of Latin, Greek and Cyrillic; marks of other scripts are part of the letters. */
const ACCENTS = /[\u0300-\u036f]/g;

/** The form in which text is searched. */
export function folded(text: string): string {
  return text.normalize("NFKD").replace(ACCENTS, "").toLowerCase();
}
