/**
 * Proposes a template from samples, by names and values: where the event, the person's address and traits, the time and
 * the signal's id stand. An admin sees its effect before it is saved, so that a plausible proposal is enough.
 */
import { isJsonObject, type JsonObject } from "../json/json-value.ts";
import { holdsCredential } from "../keys/api-key.ts";
import { controlCharacterIn, fitsName } from "../signal/validate-signal.ts";
import { EVENT_NAMES, plainName } from "./event-names.ts";
import { addressOf, textOf, timeUse } from "./read-targets.ts";
import { leavesOfSample, type Leaf } from "./sample-leaves.ts";
import { parseTemplatePath, type SignalMapping, type SignalTarget } from "./signal-template.ts";

export interface TemplateSample {
  /** As `readPayload` gives it. */
  body: unknown;
  /** By name in lower case. */
  headers?: Readonly<Record<string, string>>;
  source?: string | undefined;
}

/** One sample finds 215 of 295 addresses, five find 276. */
export const SAMPLES_MAX = 20;
/** Paths of a proposed mapping: more do not fit on a screen. */
const PATHS_MAX = 4;
/** The event of samples in which nothing says what happened. */
const EVENT_OTHERWISE = "Webhook received";

/** A candidate of one target: its path, and how well its names fit. */
interface Candidate {
  leaf: Leaf;
  score: number;
}
/** The candidates of each sample. */
type Candidates = readonly (readonly Candidate[])[];

interface Sample extends TemplateSample {
  leaves: readonly Leaf[];
}

/**
 * Mappings of `items`, `event`, `email`, traits, `occurred_at` and `id`, as far as the samples show them. It always maps an event.
 *
 * @param samples the first 20 are read.
 * @param receivedAtMs milliseconds since 1970; a later time is no time of an event.
 */
export function proposeSignalTemplate(samples: readonly TemplateSample[], receivedAtMs: number): SignalMapping[] {
  const bodies = samples
    .slice(0, SAMPLES_MAX)
    .flatMap((sample) => payloadsIn(sample.body).map((body) => ({ ...sample, body })));
  const items = itemsIn(bodies.map(({ body }) => body));
  const read = bodies.flatMap((sample) => signalsOf(sample, items));
  const emails = bestPaths(read.map(({ leaves }) => leaves.flatMap(addressIn)));
  const events = bestPaths(read.map(({ leaves }) => leaves.flatMap(eventIn)));
  const besideEvent = new Set([...parentsOf(read, events), ""]);
  return [
    ...(items === undefined ? [] : [mappingOf("items", [items])]),
    eventMapping(read, events),
    ...(emails.length > 0 ? [mappingOf("email", emails)] : userIdMapping(read)),
    ...traitMappings(read, parentsOf(read, emails)),
    ...timeMapping(read, besideEvent, receivedAtMs),
    ...idMapping(read, besideEvent),
  ];
}

function mappingOf(target: SignalTarget, paths: readonly string[]): SignalMapping {
  const [path = "", ...others] = paths;
  return others.length === 0 ? { target, path } : { target, paths: [path, ...others] };
}

/** An array is a list of bodies. */
function payloadsIn(body: unknown): JsonObject[] {
  return Array.isArray(body) ? body.slice(0, SAMPLES_MAX).filter(isJsonObject) : isJsonObject(body) ? [body] : [];
}

/**
 * The paths of the best candidates, as many as are needed to find one in each sample that has one. The first is the best of the most
 * samples.
 */
function bestPaths(candidates: Candidates): string[] {
  const paths: string[] = [];
  let left = candidates.filter((ofSample) => ofSample.length > 0);
  while (left.length > 0 && paths.length < PATHS_MAX) {
    const best = bestOf(left);
    if (best === undefined) break;
    paths.push(best);
    left = left.filter((ofSample) => !ofSample.some(({ leaf }) => leaf.path === best));
  }
  return paths;
}

/** The path with the highest score; of equals, that of the most samples, then the first. */
function bestOf(candidates: Candidates): string | undefined {
  const totals = new Map<string, { score: number; samples: number }>();
  for (const ofSample of candidates) {
    const seen = new Set<string>();
    for (const { leaf, score } of ofSample) {
      if (seen.has(leaf.path)) continue;
      seen.add(leaf.path);
      const total = totals.get(leaf.path) ?? { score, samples: 0 };
      total.samples += 1;
      totals.set(leaf.path, total);
    }
  }
  let best: { path: string; score: number; samples: number } | undefined;
  for (const [path, total] of totals) {
    const isBetter = best === undefined || total.score > best.score;
    if (isBetter || (total.score === best?.score && total.samples > best.samples)) best = { path, ...total };
  }
  return best?.path;
}

// The address.

/** Names of fields with the person's address. */
const ADDRESS_FIELDS = /^(?:e?mail|recipient|to)|email/;
/** Objects about the signal's person. */
const PERSON =
  /user|customer|contact|lead|person|people|subscriber|profile|member|attendee|invitee|recipient|payer|buyer/;
/** Objects and fields about somebody else. */
const OTHERS =
  /from|sender|owner|assignee|agent|author|organi[sz]er|host|creator|createdby|updatedby|admin|staff|reply|support|bcc|^cc$/;
/** Message ids look like addresses, and so do parts of some URLs. */
const NEVER_ADDRESS = /id$|ids$|ur[il]$|link$|href$|domain$/;

function addressIn(leaf: Leaf): Candidate[] {
  if (NEVER_ADDRESS.test(leaf.name) || addressOf(leaf.value) === undefined) return [];
  const names = [...leaf.within, leaf.name];
  let score = ADDRESS_FIELDS.test(leaf.name) ? 3 : 0;
  if (leaf.within.some((name) => PERSON.test(name))) score += 2;
  if (names.some((name) => OTHERS.test(name))) score -= 6;
  return [{ leaf, score: score - leaf.within.length / 100 }];
}

/** The path of the person's address, as a template would have it; undefined: there is none. */
export function addressPathIn(payload: unknown): string | undefined {
  return isJsonObject(payload) ? bestPaths([leavesOfSample(payload).flatMap(addressIn)])[0] : undefined;
}

/** Without an address, the surest names of a user. */
function userIdMapping(samples: readonly Sample[]): SignalMapping[] {
  const names = ["userid", "externaluserid", "distinctid", "externalid"];
  const paths = bestPaths(
    samples.map(({ leaves }) =>
      leaves.flatMap((leaf) =>
        names.includes(leaf.name) && textOf(leaf.value) !== undefined ? [{ leaf, score: -leaf.within.length }] : [],
      ),
    ),
  );
  return paths.length === 0 ? [] : [mappingOf("user_id", paths)];
}

// The event.

/** A value that differs in each signal names no event: an id, a number, an address of the web, a time. */
const NO_EVENT = /:\/\/|^[\d.:TZ+-]+$|^[\da-f-]{16,}$/i;
/** Names that also give the kind of a person, an object or a message, so they count at the top only. */
const WEAK_NAMES: readonly string[] = ["type", "action", "trigger", "metric"];

function eventIn(leaf: Leaf): Candidate[] {
  const rank = EVENT_NAMES.findIndex((name) => name === leaf.name);
  const isWeak = WEAK_NAMES.includes(leaf.name);
  const depth = leaf.within.length;
  if (rank === -1 || depth > 3 || (isWeak && depth > 1) || leaf.path.includes("[")) return [];
  if (typeof leaf.value !== "string" || NO_EVENT.test(leaf.value.slice(0, 300)) || addressOf(leaf.value) !== undefined)
    return [];
  const isUsable =
    fitsName(leaf.value.trim()) && controlCharacterIn(leaf.value) === null && !holdsCredential(leaf.value);
  // A field of the item says more about it than a field around the items.
  const score = -depth * EVENT_NAMES.length - rank - (leaf.path.startsWith(AROUND) ? 0.5 : 0);
  return isUsable && leaf.value.trim() !== "" ? [{ leaf, score }] : [];
}

function eventMapping(samples: readonly Sample[], paths: readonly string[]): SignalMapping {
  const header = headerEnding(samples, ["-event", "-topic"]);
  const isWeak = paths.length > 0 && paths.every((path) => WEAK_NAMES.includes(plainName(lastName(path))));
  if (header !== undefined && (paths.length === 0 || isWeak)) return mappingOf("event", [header, ...paths]);
  if (paths.length > 0) return mappingOf("event", paths);
  const hasSource = samples.length > 0 && samples.every(({ source }) => textOf(source) !== undefined);
  return hasSource ? mappingOf("event", ["@source"]) : { target: "event", text: EVENT_OTHERWISE };
}

function lastName(path: string): string {
  return path.slice(path.lastIndexOf(".") + 1);
}

/** The path of a header that the samples have, by the end of its name. */
function headerEnding(samples: readonly Sample[], ends: readonly string[]): string | undefined {
  for (const { headers = {} } of samples) {
    for (const [name, value] of Object.entries(headers)) {
      const path = `@header.${name}`;
      if (value !== "" && ends.some((end) => name.endsWith(end)) && parseTemplatePath(path).ok) return path;
    }
  }
  return undefined;
}

/** The objects that hold the values at the paths. */
function parentsOf(samples: readonly Sample[], paths: readonly string[]): ReadonlySet<string> {
  const found = samples.flatMap(({ leaves }) => leaves.filter(({ path }) => paths.includes(path)));
  return new Set(found.map(({ parent }) => parent));
}

// The time and the id, which stand beside the event.

const TIME_FIELDS = [
  "occurredat",
  "eventtime",
  "eventtimestamp",
  "timestamp",
  "eventdate",
  "datetime",
  "time",
  "ts",
  "createdat",
  "created",
  "date",
  "sentat",
  "submittedat",
  "updatedat",
];
/** A text with a zone at its end. */
const ZONE = /(?:Z|[+-]\d{2}(?::?\d{2})?)$/i;

function timeMapping(samples: readonly Sample[], beside: ReadonlySet<string>, receivedAtMs: number): SignalMapping[] {
  const use = timeUse(receivedAtMs);
  const paths = bestPaths(
    samples.map(({ leaves }) =>
      leaves.flatMap((leaf): Candidate[] => {
        const rank = TIME_FIELDS.indexOf(leaf.name);
        if (rank === -1 || !beside.has(leaf.parent) || use.read(leaf.value) === undefined) return [];
        // A time without a zone is read as UTC, which most senders that leave it out do not mean.
        const text = typeof leaf.value === "string" ? leaf.value.trim() : "";
        const isSure =
          typeof leaf.value !== "string" || /^\d+(?:\.\d+)?$/.test(text) || (text.includes(":") && ZONE.test(text));
        return [{ leaf, score: (isSure ? TIME_FIELDS.length : 0) - rank }];
      }),
    ),
  );
  return paths.length === 0 ? [] : [mappingOf("occurred_at", paths)];
}

/** Only sure names: any `id` is wrong once in four. */
const ID_FIELDS = [
  "eventid",
  "sgeventid",
  "webhookeventid",
  "notificationid",
  "deliveryid",
  "eventuuid",
  "idempotencykey",
];
const ID_HEADERS = ["-event-id", "-delivery", "-delivery-id", "-webhook-id", "webhook-id", "ce-id", "idempotency-key"];

function idMapping(samples: readonly Sample[], beside: ReadonlySet<string>): SignalMapping[] {
  const paths = bestPaths(
    samples.map(({ leaves }) =>
      leaves.flatMap((leaf): Candidate[] => {
        const rank = ID_FIELDS.indexOf(leaf.name);
        return rank === -1 || !beside.has(leaf.parent) || textOf(leaf.value) === undefined
          ? []
          : [{ leaf, score: -rank }];
      }),
    ),
  );
  if (paths.length > 0) return [mappingOf("id", paths)];
  const header = headerEnding(samples, ID_HEADERS);
  return header === undefined ? [] : [mappingOf("id", [header])];
}

// The traits, which stand beside the address.

const TRAIT_FIELDS: readonly (readonly [target: SignalTarget, names: readonly string[]])[] = [
  ["name", ["fullname", "displayname", "name"]],
  ["first_name", ["firstname", "fname", "givenname"]],
  ["last_name", ["lastname", "lname", "surname", "familyname"]],
  ["company", ["company", "companyname", "organization", "organisation"]],
  ["title", ["jobtitle"]],
];

function traitMappings(samples: readonly Sample[], beside: ReadonlySet<string>): SignalMapping[] {
  return TRAIT_FIELDS.flatMap(([target, names]) => {
    const paths = bestPaths(
      samples.map(({ leaves }) =>
        leaves.flatMap((leaf): Candidate[] => {
          const rank = names.indexOf(leaf.name);
          const isTrait = rank !== -1 && beside.has(leaf.parent) && typeof leaf.value === "string";
          return isTrait && leaf.value !== "" ? [{ leaf, score: -rank }] : [];
        }),
      ),
    );
    return paths.length === 0 ? [] : [mappingOf(target, paths)];
  });
}

// The items.

const ITEM_LISTS = [
  "events",
  "records",
  "messages",
  "items",
  "results",
  "entries",
  "entry",
  "data",
  "updates",
  "notifications",
  "payload",
];

/** The name of a list whose elements have addresses, where nothing outside it has one. Undefined: the body is the signal. */
function itemsIn(bodies: readonly JsonObject[]): string | undefined {
  return ITEM_LISTS.find(
    (name) =>
      bodies.length > 0 &&
      bodies.every((body) => {
        const [first] = elementsOf(body, name);
        return first !== undefined && !hasAddress(outside(body, name)) && hasAddress(leavesOfSample(first));
      }),
  );
}

function hasAddress(leaves: readonly Leaf[]): boolean {
  return leaves.some((leaf) => addressIn(leaf).length > 0);
}

function elementsOf(body: JsonObject, name: string): JsonObject[] {
  const elements: unknown = Object.hasOwn(body, name) ? body[name] : undefined;
  return Array.isArray(elements) ? elements.slice(0, SAMPLES_MAX).filter(isJsonObject) : [];
}

function outside(body: JsonObject, items: string): Leaf[] {
  return leavesOfSample({ ...body, [items]: null });
}

const AROUND = "@body.";

function signalsOf(sample: TemplateSample & { body: JsonObject }, items: string | undefined): Sample[] {
  if (items === undefined) return [{ ...sample, leaves: leavesOfSample(sample.body) }];
  const around = outside(sample.body, items).map((leaf) => ({
    ...leaf,
    path: AROUND + leaf.path,
    parent: AROUND + leaf.parent,
  }));
  return elementsOf(sample.body, items).map((element) => ({
    ...sample,
    leaves: [...leavesOfSample(element), ...around],
  }));
}
