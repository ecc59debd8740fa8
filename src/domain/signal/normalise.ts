/**
 * Spec §6, design §8.1: converts payloads of CDPs, marketing platforms and other senders into one shape. Every JSON
 * object becomes a signal; validate-signal.ts decides what the edge refuses.
 */
import { NAME_MAX_CODE_POINTS } from "../../limits.ts";
import { isJsonObject } from "../json/dot-path.ts";
import { emailProblem, normaliseEmail, usableId } from "./identity.ts";
import { isAbsent, presentText, type JsonObject } from "../json/json-value.ts";
import { CDP_CALL_TYPES, type NormalisedSignal } from "./signal.ts";
import { traitsSent } from "./traits.ts";

const PAGE_VIEW_EVENT = "Page Viewed";

/** A missing source. The edge refuses signals without an event. */
const UNKNOWN = "unknown";

const CALL_TYPES: ReadonlySet<string> = new Set(CDP_CALL_TYPES);
const EMPTY: Readonly<JsonObject> = Object.freeze({});

/**
 * The call type of a CDP's payload (spec §6), which has `type`, `messageId` and `anonymousId`. Real senders omit ids, so
 * any id is enough for the six known types.
 */
export function cdpCallType(payload: JsonObject): string | undefined {
  const type = presentText(payload["type"]);
  if (type === undefined) return undefined;
  const messageId = isPresentId(payload["messageId"]);
  const anonymousId = isPresentId(payload["anonymousId"]);
  if (messageId && anonymousId) return type;
  return CALL_TYPES.has(type) && (messageId || anonymousId || isPresentId(payload["userId"])) ? type : undefined;
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
    event: eventOf(payload, callType),
    source:
      presentText(pathSource) ??
      (callType === undefined ? presentText(payload["source"]) : cdpSource(payload, context)) ??
      UNKNOWN,
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
  const previousId = callType === "alias" ? usableId(payload["previousId"]) : undefined;
  if (previousId !== undefined) signal.previousId = previousId;
  return signal;
}

function eventOf(payload: JsonObject, callType: string | undefined): string {
  if (callType === undefined) return presentText(payload["event"]) ?? UNKNOWN;
  if (callType === "track") return presentText(payload["event"]) ?? callType;
  return callType === "page" ? PAGE_VIEW_EVENT : Array.from(callType).slice(0, NAME_MAX_CODE_POINTS).join("");
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

/** The external id of the account that a `group` or identify call makes its visitor a member of (design §8.7). */
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
  return sent.map(emailProblem).find((problem) => problem !== null) ?? null;
}

/** Server-side SDKs send a page's name at the top level; browsers send its address in the context. */
function propertiesOf(payload: JsonObject, callType: string | undefined, context: JsonObject): JsonObject {
  const properties = isJsonObject(payload["properties"]) ? payload["properties"] : {};
  if (callType !== "page" && callType !== "screen") return properties;
  const name = isAbsent(properties["name"]) ? presentText(payload["name"]) : undefined;
  const isUrlMissing = callType === "page" && isAbsent(properties["url"]);
  const url = isUrlMissing ? presentText(object(context["page"])["url"]) : undefined;
  if (name === undefined && url === undefined) return properties;
  const filled = { ...properties };
  if (name !== undefined) filled["name"] = name;
  if (url !== undefined) filled["url"] = url;
  return filled;
}

function isPresentId(value: unknown): boolean {
  return typeof value === "number" || presentText(value) !== undefined;
}

function object(value: unknown): Readonly<JsonObject> {
  return isJsonObject(value) ? value : EMPTY;
}
