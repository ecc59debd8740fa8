/**
 * Applies a compiled template to a body: the pure rule of "any webhook can be a source" (spec §2.2, §4, §6.5).
 *
 *     const compiled = compileSignalTemplate(template);            // signal-template.ts: Result<CompiledSignalTemplate, MappingProblem[]>
 *     const applied = applyTemplate(compiled.value, body, { source, headers, receivedAtMs });
 *     if (applied.ok) for (const { payload, around, outcome } of applied.value.items) {
 *       outcome.kind === "mapped"    → outcome.signal: { normalised, occurred, id?, problems? }
 *       outcome.kind === "misfit"    → outcome.misfit: { code, detail, tried }
 *       outcome.kind === "call"      → a CDP's call, which ignores the template
 *       outcome.kind === "rejected"  → outcome.rejection: too long, or a credential inside
 *     }
 *
 * An item maps again with `mapSignal(compiled, payload, around, context)`, from its payload and surroundings alone.
 */
import { BODY_MAX_SIGNALS } from "../../limits.ts";
import { parseDotPath, PathReading } from "../json/dot-path.ts";
import { InnerJson } from "../json/inner-json.ts";
import { isAbsent, isJsonObject, kindInWords, presentText, type JsonObject } from "../json/json-value.ts";
import type { BodyRejection, SignalRejection } from "../keys/rejection.ts";
import { ok, reject, type Result } from "../result.ts";
import { cdpCallType, comparable, isPresentId, knownCallType, type Problems } from "../signal/normalise.ts";
import { occurredAt, timeProblemOf, type Occurred } from "../signal/occurred-at.ts";
import type { NormalisedSignal } from "../signal/signal.ts";
import { traitsSent, type Traits } from "../signal/traits.ts";
import { checkName, checkProperties } from "../signal/validate-signal.ts";
import { counted } from "../text.ts";
import { eventNamesIn } from "./event-names.ts";
import { EMAIL, ID, SIGNAL_ID, TargetsReader, TEXT, timeUse } from "./read-targets.ts";
import { pathsOf, type CompiledSignalTemplate, type CompiledTarget, type ValueTarget } from "./signal-template.ts";
import { bytesOf, keptBody, keptHeaders, keptKey, type Surroundings } from "./surroundings.ts";

export interface TemplateContext {
  /** `{source}` of the webhook's path, decoded. */
  source?: string | undefined;
  /** By name in lower case; only those in `compiled.headers` are read. */
  headers?: Readonly<Record<string, string>> | undefined;
  /** Milliseconds since 1970. */
  receivedAtMs: number;
  /** Shared by the signals of a request; each takes its steps from it. */
  budget?: { stepsLeft: number } | undefined;
}

export interface MappedSignal {
  /** `properties` is the payload itself. */
  normalised: NormalisedSignal;
  occurred: Occurred;
  /** A mapped id, which identifies the signal together with key, source and event (`mappedDuplicateKey`). */
  id?: string;
  /** Values that the template reads and that are of no use. */
  problems?: Problems;
}

/** A signal that its template does not fit. A replay with a newer template may map it. */
export interface Misfit extends SignalRejection {
  /** The paths without a value, as the template writes them. */
  tried: string[];
}

export type Outcome =
  | { kind: "mapped"; signal: MappedSignal }
  | { kind: "misfit"; misfit: Misfit }
  /** The call of a CDP, which is read as without a template. */
  | { kind: "call" }
  /** Never kept, also if the key keeps misfits. */
  | { kind: "rejected"; rejection: SignalRejection };

export interface AppliedItem {
  payload: unknown;
  /** Shares `headers` and `body` with the other items of its body. Undefined: nothing stands around it. */
  around: Surroundings | undefined;
  outcome: Outcome;
}

export interface Applied {
  /** Whether the items stand in a list, even if it holds one or none. The answer then has a result for each. */
  isList: boolean;
  items: AppliedItem[];
}

/**
 * Maps each signal of a body. Without `items` in the template they are the body, the elements of an array, or the
 * `batch` of the SDKs. An array is a list of bodies.
 *
 * @param body as `readPayload` or JSON.parse gives it.
 * @returns no items for an empty list. Rejection: more than BODY_MAX_SIGNALS items.
 */
export function applyTemplate(
  template: CompiledSignalTemplate,
  body: unknown,
  context: TemplateContext,
): Result<Applied, BodyRejection> {
  const headers = keptHeaders(template, context.headers ?? {});
  const bodies = Array.isArray(body) ? (body as unknown[]) : [body];
  const items: AppliedItem[] = [];
  let isList = Array.isArray(body);
  for (const each of bodies) {
    const read = itemsOf(template, each);
    const values = read?.items ?? [{ value: each }];
    if (items.length + values.length > BODY_MAX_SIGNALS) return reject(tooMany());
    isList ||= read !== null;
    const shared = sharedAround(template, { body: each, headers, list: read });
    for (const { value, key } of values) {
      const around = aroundOf(shared, key);
      items.push({ payload: value, around, outcome: mapSignal(template, value, around, context) });
    }
  }
  return ok({ isList, items });
}

function tooMany(): BodyRejection {
  return {
    code: "batch_too_long",
    detail: `The body holds more than ${counted(BODY_MAX_SIGNALS, "signal")}, which is the most of a request.`,
  };
}

interface Item {
  value: unknown;
  key?: string | undefined;
}

interface ItemList {
  items: Item[];
  /** The items and the arrays and texts that hold them, which do not stand around themselves. */
  own: ReadonlySet<unknown>;
}

/** Null: the body has no list, so it is the signal. */
function itemsOf(template: CompiledSignalTemplate, body: unknown): ItemList | null {
  if (!isJsonObject(body) || isCdpCall(body, template)) return null;
  for (const { path } of template.items?.paths ?? []) {
    const innerJson = new InnerJson();
    const reading = new PathReading(path, { maxElements: BODY_MAX_SIGNALS + 1, innerJson });
    reading.read(body);
    const isOfMembers = path.at(-1)?.kind === "members";
    const found = reading.found.map((value) => (typeof value === "string" ? (innerJson.read(value) ?? value) : value));
    const items = found.flatMap((value, index): Item[] => {
      const key = reading.keyOf(index);
      if (Array.isArray(value)) return value.map((element: unknown) => ({ value: element, key }));
      // Members that are no object stand around the items.
      return isJsonObject(value) || !isOfMembers ? [{ value, key }] : [];
    });
    // Elements beyond a limit would be lost.
    if (reading.isCut)
      return listOf(
        Array.from({ length: BODY_MAX_SIGNALS + 1 }, () => ({ value: null })),
        [],
      );
    if (items.length > 0 || reading.metArray || found.some(Array.isArray)) {
      return listOf(items, [...found.filter((value) => typeof value === "object"), ...innerJson.texts]);
    }
  }
  const { batch } = body;
  const isEnvelope = Array.isArray(batch) && isAbsent(body["event"]) && isAbsent(body["type"]);
  if (!isEnvelope) return null;
  return listOf(
    batch.map((value: unknown) => ({ value })),
    [batch],
  );
}

function listOf(items: Item[], holders: readonly unknown[]): ItemList {
  const objects = items.map(({ value }) => value).filter((value) => typeof value === "object");
  return { items, own: new Set([...holders, ...objects]) };
}

/** Undefined: nothing stands around the signal. */
function sharedAround(
  template: CompiledSignalTemplate,
  { body, headers, list }: { body: unknown; headers: Surroundings["headers"]; list: ItemList | null },
): Surroundings | undefined {
  const named = headers === undefined ? {} : { headers };
  if (list === null || template.items === null || !isJsonObject(body)) return headers && named;
  return { ...named, body: keptBody(template, body, list.own, headers === undefined ? 0 : bytesOf(headers)) };
}

function aroundOf(shared: Surroundings | undefined, key: string | undefined): Surroundings | undefined {
  const kept = keptKey(key);
  return kept === undefined ? shared : { ...shared, key: kept };
}

/** Null: the template requires no list, or the payload stood in one. */
function missingItems({ items }: CompiledSignalTemplate, around: Surroundings | undefined): Outcome | null {
  if (items?.required !== true || around?.body !== undefined) return null;
  const tried = items.paths.map(({ text }) => text);
  const detail = `The list of signals is missing: ${listed(tried)} leads to no list and no object.`;
  return { kind: "misfit", misfit: { code: "template_mismatch", detail, tried } };
}

/**
 * Whether a payload is the call of a CDP, which ignores the template of its key. The specification's detection (spec §6:
 * one of the six types, an anonymous id and a message id) always wins. Without an event in the template, the looser
 * detection of keys without a template holds too.
 *
 * @param template null: the key has none.
 */
export function isCdpCall(payload: unknown, template: CompiledSignalTemplate | null): boolean {
  if (!isJsonObject(payload)) return false;
  if (template?.targets.event === undefined) return cdpCallType(payload) !== undefined;
  return (
    knownCallType(payload["type"]) !== undefined &&
    isPresentId(payload["messageId"]) &&
    isPresentId(payload["anonymousId"])
  );
}

/** The fields of a universal signal, for targets that the template does not map. */
const UNIVERSAL: Readonly<Partial<Record<ValueTarget, CompiledTarget>>> = {
  event: field("event"),
  email: field("email"),
  user_id: field("userId"),
  anonymous_id: field("anonymousId"),
  source: field("source"),
};

function field(name: string): CompiledTarget {
  return {
    sources: [{ path: { text: name, from: "item", path: parseDotPath(name) ?? [] } }],
    required: false,
  };
}

const UNKNOWN = "unknown";
/** Maximum characters of the paths that a detail names. */
const DETAIL_MAX_LENGTH = 1_000;

/** Maps one signal. @param around what stands around it; the same signal maps the same way from the queue and in a replay. */
export function mapSignal(
  template: CompiledSignalTemplate,
  payload: unknown,
  around: Surroundings | undefined,
  context: TemplateContext,
): Outcome {
  if (!isJsonObject(payload)) {
    const detail = `A signal is a JSON object, but this is ${kindInWords(payload)}.`;
    return { kind: "misfit", misfit: { code: "signal_not_object", detail, tried: [] } };
  }
  if (isCdpCall(payload, template)) return { kind: "call" };
  const withoutItems = missingItems(template, around);
  if (withoutItems !== null) return withoutItems;
  const { source: pathSource, receivedAtMs, budget } = context;
  const signal = { payload, around: around ?? {}, source: pathSource };
  const reader = new TargetsReader(template.targets, signal, budget?.stepsLeft ?? Number.POSITIVE_INFINITY);
  const found = readAll(reader, receivedAtMs);
  if (budget !== undefined) budget.stepsLeft -= reader.steps;
  const misfit = misfitOf(template, payload, found);
  if (misfit !== null) return { kind: "misfit", misfit };
  const event = found.event.value ?? UNKNOWN;
  const ofPath = presentText(pathSource);
  // A mapped source was chosen for this key. The body's own is the last resort.
  const source = (reader.has("source") ? (found.source.value ?? ofPath) : (ofPath ?? found.source.value)) ?? UNKNOWN;
  const rejection = checkName("event", event) ?? checkName("source", source);
  if (rejection !== undefined) return { kind: "rejected", rejection };
  return { kind: "mapped", signal: mappedSignal({ payload, event, source, receivedAtMs }, found, reader) };
}

type Found = ReturnType<typeof readAll>;

/** In this order: what identifies comes first, because the step budget may end before the traits. */
function readAll(reader: TargetsReader, receivedAtMs: number) {
  return {
    event: reader.read("event", TEXT, UNIVERSAL.event),
    source: reader.read("source", TEXT, UNIVERSAL.source),
    email: reader.read("email", EMAIL, UNIVERSAL.email),
    user_id: reader.read("user_id", ID, UNIVERSAL.user_id),
    anonymous_id: reader.read("anonymous_id", ID, UNIVERSAL.anonymous_id),
    id: reader.read("id", SIGNAL_ID),
    occurred_at: reader.read("occurred_at", timeUse(receivedAtMs)),
    name: reader.read("name", TEXT),
    first_name: reader.read("first_name", TEXT),
    last_name: reader.read("last_name", TEXT),
    company: reader.read("company", TEXT),
    title: reader.read("title", TEXT),
    account: reader.read("account", ID),
  } satisfies Record<ValueTarget, unknown>;
}

/** Null: the template fits. */
function misfitOf({ targets, required }: CompiledSignalTemplate, payload: JsonObject, found: Found): Misfit | null {
  const ofProperties = checkProperties(payload["properties"]);
  if (ofProperties !== undefined) return { ...ofProperties, tried: [] };
  if (required.every((target) => found[target].value !== undefined)) return null;
  const tried: string[] = [];
  const details: string[] = [];
  for (const target of required) {
    const { value, problem } = found[target];
    if (value !== undefined) continue;
    const paths = (targets[target] ?? UNIVERSAL[target])?.sources.flatMap(pathsOf).map(({ text }) => text) ?? [];
    tried.push(...paths);
    const problemText = target === "event" ? "A signal needs an `event`" : `\`${target}\` is required`;
    details.push(
      `${problemText}, but there is no value for it at ${listed(paths)}.${problem === null ? "" : ` ${problem}`}`,
    );
  }
  const isEventMissing = found.event.value === undefined;
  if (isEventMissing) details.push(...hintOf(payload));
  const code = isEventMissing ? "event_missing" : "template_mismatch";
  return { code, detail: details.join(" "), tried: [...new Set(tried)] };
}

/** Names the fields that may name the event, and no value. */
function hintOf(payload: JsonObject): string[] {
  const names = eventNamesIn(payload).map((name) => `\`${name}\``);
  return names.length === 0 ? [] : [`The body has ${names.join(" and ")}.`];
}

/** Paths in a sentence, as many as have room. */
function listed(paths: readonly string[]): string {
  let text = "";
  for (const [index, path] of paths.entries()) {
    if (text.length + path.length > DETAIL_MAX_LENGTH) return `${text} and ${paths.length - index} more`;
    text += `${index === 0 ? "" : ", "}\`${path}\``;
  }
  return text;
}

const NO_TRAITS: Readonly<JsonObject> = Object.freeze({});

function mappedSignal(
  {
    payload,
    event,
    source,
    receivedAtMs,
  }: { payload: JsonObject; event: string; source: string; receivedAtMs: number },
  found: Found,
  reader: TargetsReader,
): MappedSignal {
  const { value: email } = found.email;
  const { value: userId } = found.user_id;
  const { value: anonymousId } = found.anonymous_id;
  const { value: id } = found.id;
  const hasOwnId = id !== undefined || isPresentId(payload["messageId"]) || isPresentId(payload["id"]);
  const traits = traitsOf(payload, found);
  const normalised: NormalisedSignal = {
    kind: "signal",
    event: comparable(event),
    source: comparable(source),
    hasOwnId,
    properties: payload,
    traits,
  };
  if (email !== undefined) normalised.email = email;
  if (userId !== undefined) normalised.userId = userId;
  if (anonymousId !== undefined) normalised.anonymousId = anonymousId;
  const isTimeMapped = reader.has("occurred_at");
  const received: Occurred = { ms: receivedAtMs, from: "received" };
  const occurred = isTimeMapped ? (found.occurred_at.value ?? received) : occurredAt(payload, receivedAtMs);
  const signal: MappedSignal = { normalised, occurred };
  if (id !== undefined) signal.id = id;
  const problems = problemsIn(found, isTimeMapped ? found.occurred_at.problem : timeProblemOf(payload, receivedAtMs));
  if (problems !== undefined) signal.problems = problems;
  return signal;
}

/** The mapped traits; without a value, those of a universal signal. */
function traitsOf(payload: JsonObject, found: Found): Traits {
  const mapped = {
    name: found.name.value,
    firstName: found.first_name.value,
    lastName: found.last_name.value,
    company: found.company.value,
    title: found.title.value,
  };
  const sent = isJsonObject(payload["traits"]) ? payload["traits"] : NO_TRAITS;
  // The marketing template of spec §2.2 has the person's fields among the properties.
  const properties = isJsonObject(payload["properties"]) ? payload["properties"] : null;
  const traits = traitsSent(mapped, sent, found.email.value === undefined ? null : properties);
  if (found.account.value !== undefined) traits.account = found.account.value;
  return traits;
}

/** Undefined: there is none, as in most signals. */
function problemsIn(found: Found, time: string | null): Problems | undefined {
  const ids = joined(found.user_id, found.anonymous_id, found.account, found.id);
  const traits = joined(found.name, found.first_name, found.last_name, found.company, found.title, found.source);
  const email = found.email.problem;
  if (email === null && ids === null && traits === null && time === null) return undefined;
  return {
    ...(email !== null && { email }),
    ...(ids !== null && { id: ids }),
    ...(traits !== null && { traits }),
    ...(time !== null && { time }),
  };
}

function joined(...readings: readonly { problem: string | null }[]): string | null {
  // Most signals have none, and this runs for each of them.
  if (readings.every(({ problem }) => problem === null)) return null;
  return readings.flatMap(({ problem }) => problem ?? []).join(" ");
}
