/**
 * Spec §6: converts payloads of CDPs, marketing platforms and other senders into one shape. Every JSON
 * object becomes a signal; validate-signal.ts decides what the edge rejects.
 */
import { NAME_MAX_CODE_POINTS } from "../../limits.ts";
import { emailProblem, idProblem, normaliseEmail, usableId } from "./identity.ts";
import { isAbsent, parsed, presentText, WrittenNumber, type JsonObject, isJsonObject } from "../json/json-value.ts";
import { CDP_CALL_TYPES, type NormalisedSignal } from "./signal.ts";
import { traitsSent } from "./traits.ts";

const PAGE_VIEW_EVENT = "Page Viewed";

/** A missing source. The edge rejects signals without an event. */
const UNKNOWN = "unknown";

const CALL_TYPES: ReadonlyMap<string, string> = new Map(CDP_CALL_TYPES.map((type) => [type, type]));
const EMPTY: Readonly<JsonObject> = Object.freeze({});

/** One of the six call types, in any letter case; undefined: another text, or none. */
export function knownCallType(type: unknown): string | undefined {
  return typeof type === "string" ? CALL_TYPES.get(type.trim().toLowerCase()) : undefined;
}

/**
 * The call type of a CDP's payload (spec §6), which has `type`, `messageId` and `anonymousId`. Real senders omit ids, so
 * any id is enough for the six known types.
 */
export function cdpCallType(payload: JsonObject): string | undefined {
  const known = knownCallType(payload["type"]);
  const type = known ?? presentText(payload["type"]);
  if (type === undefined) return undefined;
  const messageId = isPresentId(payload["messageId"]);
  const anonymousId = isPresentId(payload["anonymousId"]);
  if (messageId && anonymousId) return type;
  return known !== undefined && (messageId || anonymousId || isPresentId(payload["userId"])) ? type : undefined;
}

/** @param pathSource `{source}` of the webhook's path, decoded. */
export function normalise(payload: JsonObject, pathSource: string | undefined): NormalisedSignal {
  const callType = cdpCallType(payload);
  const context = object(payload["context"]);
  const { traits, contextTraits } = traitsOf(payload, callType);
  const [email] = emailsSent(payload, callType)
    .map(normaliseEmail)
    .filter((usable) => usable !== undefined);
  const properties = propertiesOf(payload, callType, context);
  // Spec §2.2: the marketing template has the person's fields among the properties.
  const template = callType === undefined && email !== undefined ? properties : null;

  const signal: NormalisedSignal = {
    kind: callType === "identify" ? "identify" : "signal",
    event: comparable(eventOf(payload, callType)),
    source: comparable(
      presentText(pathSource) ??
        (callType === undefined ? presentText(payload["source"]) : cdpSource(payload, context)) ??
        UNKNOWN,
    ),
    hasOwnId: isPresentId(payload["messageId"]) || isPresentId(payload["id"]),
    properties,
    traits: traitsSent(traits, contextTraits, template),
  };
  const accountId = accountIdOf(payload, callType);
  if (accountId !== undefined) signal.traits.account = accountId;
  if (accountId !== undefined && callType === "group" && isJsonObject(payload["traits"])) {
    signal.groupTraits = payload["traits"];
  }
  if (email !== undefined) signal.email = email;
  const userId = usableId(payload["userId"]);
  if (userId !== undefined) signal.userId = userId;
  const anonymousId = usableId(payload["anonymousId"]);
  if (anonymousId !== undefined) signal.anonymousId = anonymousId;
  const previousId = previousIdOf(payload);
  if (previousId !== undefined) signal.previousId = previousId;
  return signal;
}

/** The names in a payload that could not be processed, as far as it says them. */
export function namesSent(payload: string | null): Record<"event" | "source" | "email", string | null> {
  const sent = parsed(payload);
  if (!isJsonObject(sent)) return { event: null, source: null, email: null };
  const { event, source, email = null } = normalise(sent, undefined);
  const known = (name: string): string | null => (name === UNKNOWN ? null : name);
  return { event: known(event), source: known(source), email };
}

/** One form (NFC) for names that look the same, so that they are one group, match one rule, and are found. */
export function comparable(name: string): string {
  return name.normalize("NFC");
}

function eventOf(payload: JsonObject, callType: string | undefined): string {
  if (callType === undefined) return presentText(payload["event"]) ?? UNKNOWN;
  if (callType === "page") return PAGE_VIEW_EVENT;
  const isNamed = callType === "track" || knownCallType(callType) === undefined;
  const name = isNamed ? presentText(payload["event"]) : undefined;
  return name ?? Array.from(callType).slice(0, NAME_MAX_CODE_POINTS).join("");
}

/**
 * The CDP that sent a call. RudderStack's Node SDK is called `analytics-node`, like an old SDK of Segment. But
 * RudderStack's libraries send `channel` and `originalTimestamp`. Segment's server adds these, together with
 * `receivedAt`. RudderStack's server adds `rudderId`.
 */
function cdpSource(payload: JsonObject, context: JsonObject): string {
  const library = presentText(object(context["library"])["name"]) ?? "";
  const rudderstack =
    library.toLowerCase().includes("rudder") ||
    isPresentId(payload["rudderId"]) ||
    (!isAbsent(payload["channel"]) && !isAbsent(payload["originalTimestamp"]) && isAbsent(payload["receivedAt"]));
  return rudderstack ? "rudderstack" : "segment";
}

/** The traits of a `group` call belong to the group, not to the person. */
function traitsOf(payload: JsonObject, callType: string | undefined): Record<"traits" | "contextTraits", JsonObject> {
  const traits = callType === "group" ? EMPTY : object(payload["traits"]);
  return { traits, contextTraits: object(object(payload["context"])["traits"]) };
}

/** The external id of the account that a `group` or identify call makes its visitor a member of. */
function accountIdOf(payload: JsonObject, callType: string | undefined): string | undefined {
  if (callType === "group") return usableId(payload["groupId"]);
  if (callType !== "identify") return undefined;
  const { traits, contextTraits } = traitsOf(payload, callType);
  return usableId(object(traits["company"])["id"]) ?? usableId(object(contextTraits["company"])["id"]);
}

/**
 * The emails of a payload; the first usable one counts. Spec §6.2: an identify without an email _trait_ creates no
 * person, so its top-level `email` does not count.
 */
function emailsSent(payload: JsonObject, callType: string | undefined): unknown[] {
  if (callType === undefined) return [payload["email"]];
  const { traits, contextTraits } = traitsOf(payload, callType);
  const inTraits = [traits["email"], contextTraits["email"]];
  return callType === "identify" ? inTraits : [...inTraits, payload["email"]];
}

/** Explains in a sentence why the email of a payload is unusable. Null: it is usable or absent. */
export function emailProblemOf(payload: unknown): string | null {
  if (!isJsonObject(payload)) return null;
  const sent = emailsSent(payload, cdpCallType(payload));
  if (sent.some((email) => normaliseEmail(email) !== undefined)) return null;
  return sent.map((email) => emailProblem(email)).find((problem) => problem !== null) ?? null;
}

/** Explains in a sentence why the ids of a payload identify no person. Null: they are usable or absent. */
export function idProblemOf(payload: unknown): string | null {
  if (!isJsonObject(payload)) return null;
  const names = ["userId", "anonymousId", ...(cdpCallType(payload) === "alias" ? ["previousId"] : [])];
  const problems = names.flatMap((name) => idProblem(name, payload[name]) ?? []);
  return problems.length === 0 ? null : problems.join(" ");
}

/**
 * What `properties.` in a rule reads of a payload.
 *
 * @param mapped whether a template made the signal: it replaces no field, so rules read the payload itself.
 */
export function propertiesRead(payload: JsonObject, mapped: boolean): JsonObject {
  return mapped ? payload : propertiesOf(payload, cdpCallType(payload), object(payload["context"]));
}

/** The id that an alias call replaces; undefined: another signal, or a worthless id. */
export function previousIdOf(payload: JsonObject): string | undefined {
  return cdpCallType(payload) === "alias" ? usableId(payload["previousId"]) : undefined;
}

/** Server-side SDKs send a page's name and category at the top level; browsers send its address in the context. */
function propertiesOf(payload: JsonObject, callType: string | undefined, context: JsonObject): JsonObject {
  const properties = isJsonObject(payload["properties"]) ? payload["properties"] : {};
  if (callType !== "page" && callType !== "screen") return properties;
  const ofCall = (field: string): string | undefined =>
    isAbsent(properties[field]) ? presentText(payload[field]) : undefined;
  const [name, category] = [ofCall("name"), ofCall("category")];
  const isUrlMissing = callType === "page" && isAbsent(properties["url"]);
  const url = isUrlMissing ? presentText(object(context["page"])["url"]) : undefined;
  if (name === undefined && category === undefined && url === undefined) return properties;
  const filled = { ...properties };
  if (name !== undefined) filled["name"] = name;
  if (category !== undefined) filled["category"] = category;
  if (url !== undefined) filled["url"] = url;
  return filled;
}

/** Whether a payload has a value of an id, even one that identifies no person. */
export function isPresentId(value: unknown): boolean {
  return typeof value === "number" || value instanceof WrittenNumber || presentText(value) !== undefined;
}

function object(value: unknown): Readonly<JsonObject> {
  return isJsonObject(value) ? value : EMPTY;
}

/**
 * Why fields of a signal's payload are not used, in sentences for its trace. An absent field has no problem. `traits`: of a group call,
 * which quotes their names. Found once, when the signal is processed, and stored with it: so the trace also explains a signal whose payload
 * is not kept, or does not arrive from cold storage.
 */
export interface Problems {
  email?: string;
  id?: string;
  traits?: string;
  time?: string;
}

/** @param others problems that other fields have; null: none. @returns undefined: there is none, as in most signals. */
export function problemsOf(
  payload: JsonObject,
  others: Record<"traits" | "time", string | null>,
): Problems | undefined {
  const found = { email: emailProblemOf(payload), id: idProblemOf(payload), ...others };
  const problems = Object.entries(found).filter(([, problem]) => problem !== null);
  return problems.length === 0 ? undefined : Object.fromEntries(problems);
}
