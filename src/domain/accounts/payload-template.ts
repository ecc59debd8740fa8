/**
 * The payload template of a Product Org Updates key (spec §2.1): maps paths of a payload to fields of an
 * account. Templates are compiled once; `mapAccount` runs at the edge for every account update.
 */
import { parseDotPath, PathReading, type DotPath } from "../json/dot-path.ts";
import { isWorthlessId } from "../signal/identity.ts";
import { numberOfText } from "../rules/comparators.ts";
import { isAbsent, isExact, kindInWords, WrittenNumber, type JsonObject } from "../json/json-value.ts";
import type { Described, SignalRejection } from "../keys/rejection.ts";
import { ok, reject, type Result } from "../result.ts";
import {
  IDENTITY_MAX_LENGTH,
  GROUP_TRAIT_MAX_BYTES,
  GROUP_TRAITS_MAX,
  TEMPLATE_PATH_MAX_LENGTH,
} from "../../limits.ts";
import { withoutKeys, echo } from "../keys/api-key.ts";
import { cut, grouped } from "../text.ts";

export const PAYLOAD_TYPES = ["string", "number", "boolean", "json"] as const;
type PayloadType = (typeof PAYLOAD_TYPES)[number];

export const ACCOUNT_TARGETS = [
  "external_id",
  "name",
  "plan",
  "user_count",
  "recurring_revenue",
  "trial_status",
  "feature_flags",
] as const;
export type AccountField = Exclude<(typeof ACCOUNT_TARGETS)[number], "external_id">;

export interface PayloadMapping {
  /** One of ACCOUNT_TARGETS, or `attributes.` and a name. */
  target: string;
  path: string;
  type: PayloadType;
  /** Whether a payload without this field is rejected. Always true for `external_id`. */
  required: boolean;
}

/** An account update. Missing fields keep their stored value; so do `null` and blank texts, as empty tokens arrive. */
export interface AccountRecord {
  externalId: string;
  fields: Partial<Record<AccountField, unknown>>;
  attributes: Record<string, unknown>;
}

export interface TemplateError extends Described {
  target: string;
  path: string;
  /** `out_of_reach`: the step budget is used up. */
  code: "missing" | "wrong_type" | "out_of_reach";
}

export type CompiledTemplate = readonly (Omit<PayloadMapping, "path"> & { path: DotPath; pathText: string })[];

const ATTRIBUTE = /^attributes\.([^\p{C}\s.]+)$/u;
const ATTRIBUTE_PREFIX = "attributes.";
/** Step budget of an update, about 4 ms: enough for 1,000 elements in each of 100 mappings. */
const TEMPLATE_MAX_STEPS = 100_000;
/** Step budget of all updates of a request: about 0.4 s. */
export const REQUEST_MAX_STEPS = 10_000_000;
export interface StepBudget {
  stepsLeft: number;
}
/** Maximum characters of all details in a rejection. A single error is shorter. */
const DETAIL_MAX_LENGTH = 1_000;

export function isAccountTarget(target: string): boolean {
  const name = ATTRIBUTE.exec(target)?.[1];
  return ACCOUNT_TARGETS.some((known) => known === target) || (name !== undefined && name !== "__proto__");
}

/** @throws where no key could have been created with this template. */
export function compileTemplate(template: readonly PayloadMapping[]): CompiledTemplate {
  if (!template.some(({ target }) => target === "external_id")) throw new Error("No mapping of external_id");
  return template.map(({ target, path: pathText, type, required }) => {
    const path = parseDotPath(pathText);
    if (path === undefined || !isAccountTarget(target)) throw new Error(`Not a mapping: ${pathText} to ${target}`);
    return { target, path, pathText, type, required: required || target === "external_id" };
  });
}

/** A path with `[]` reads the first element that has a value. @param request the shared budget of its updates. */
export function mapAccount(
  template: CompiledTemplate,
  payload: JsonObject,
  request: StepBudget = { stepsLeft: REQUEST_MAX_STEPS },
): Result<AccountRecord, TemplateError[]> {
  const record: AccountRecord = { externalId: "", fields: {}, attributes: {} };
  const errors: TemplateError[] = [];
  const maxSteps = Math.min(TEMPLATE_MAX_STEPS, request.stepsLeft);
  let stepsLeft = maxSteps;
  for (const { target, path, pathText, type, required } of template) {
    const rejectValue = (
      code: TemplateError["code"],
      expected: string,
      why = `, but is ${kindSent(sent, code)}`,
    ): void => {
      const detail = `\`${pathText}\` (for \`${target}\`) ${expected}${why}.`;
      errors.push({ target, path: pathText, code, detail, ...echoOf(sent, code) });
    };
    const reading = new PathReading(path, { firstOnly: true, maxSteps: stepsLeft });
    reading.read(payload);
    const [sent] = reading.found;
    stepsLeft -= reading.steps;
    request.stepsLeft -= reading.steps;
    if (stepsLeft < 0) {
      const reader =
        maxSteps < TEMPLATE_MAX_STEPS ? "all updates of a request may read: send fewer" : "an update may read";
      const detail = `\`${pathText}\` (for \`${target}\`) is behind more array elements than ${reader}.`;
      return reject([...errors, { target, path: pathText, code: "out_of_reach", detail }]);
    }
    if (isAbsent(sent)) {
      if (required) rejectValue("missing", "is required");
      continue;
    }
    const value = convert(sent, type);
    if (value === undefined) rejectValue("wrong_type", `must be ${EXPECTED[type]}`);
    else if (isAccountField(target)) record.fields[target] = value;
    else if (target !== "external_id") record.attributes[target.slice(ATTRIBUTE_PREFIX.length)] = value;
    else {
      // An external id of any type stays the text that was sent, so that no digit is lost.
      const id = convert(sent, "string");
      if (typeof id !== "string") rejectValue("wrong_type", `must be ${EXPECTED.string}`);
      else if (isWorthlessId(id)) rejectValue("wrong_type", "must name one account", NAMES_NONE);
      else record.externalId = id.trim();
    }
  }
  return errors.length === 0 ? ok(record) : reject(errors);
}

/** Names errors while they fit, then counts the rest. */
export function templateRejection(errors: readonly TemplateError[]): SignalRejection {
  let detail = "";
  let named = 0;
  const sent: string[] = [];
  for (const error of errors) {
    if (detail.length + error.detail.length > DETAIL_MAX_LENGTH) break;
    detail += named === 0 ? error.detail : ` ${error.detail}`;
    if (error.sent !== undefined) sent.push(`${error.sent} at \`${error.path}\``);
    named += 1;
  }
  const more = errors.length - named;
  if (more > 0) detail += ` And ${more} more.`;
  return { code: "template_mismatch", detail, ...(sent.length === 0 ? {} : { sent: sent.join(", ") }) };
}

const NAMES_NONE = `: 0, a single letter, a word such as "unknown", or more than ${IDENTITY_MAX_LENGTH} characters names none`;

const EXPECTED: Readonly<Record<PayloadType, string>> = {
  string: "a text",
  number: "a number such as 1200.5",
  boolean: "true or false",
  json: "any value",
};

const TRUE = ["true", "yes", "on", "1"];
const FALSE = ["false", "no", "off", "0"];
const BOOLEAN_MAX_CHARACTERS = 1_000;

/** Undefined: impossible. Numeric text is plain decimal, as in mapping rules. */
function convert(sent: unknown, type: PayloadType): unknown {
  switch (type) {
    case "string":
      if (typeof sent === "number") return isExact(sent) ? String(sent) : undefined;
      return typeof sent === "string" ? sent : undefined;
    case "number": {
      const number = typeof sent === "string" ? numberOfText(sent) : sent;
      return typeof number === "number" && Number.isFinite(number) ? number : undefined;
    }
    case "boolean":
      return typeof sent === "object" ? undefined : booleanOf(String(sent as string | number | boolean | undefined));
    case "json":
      return sent;
    default:
      return type satisfies never;
  }
}

function booleanOf(text: string): boolean | undefined {
  if (text.length > BOOLEAN_MAX_CHARACTERS) return undefined;
  const word = text.trim().toLowerCase();
  return TRUE.includes(word) || (FALSE.includes(word) ? false : undefined);
}

export function isAccountField(target: string): target is AccountField {
  return target !== "external_id" && ACCOUNT_TARGETS.some((known) => known === target);
}

function echoOf(sent: unknown, code: TemplateError["code"]): { sent?: string } {
  if (typeof sent === "number") return isExact(sent) ? { sent: String(sent) } : {};
  return typeof sent === "string" && code !== "missing" ? { sent: echo(sent) } : {};
}

function kindSent(sent: unknown, code: TemplateError["code"]): string {
  if (sent === undefined) return "missing";
  if (typeof sent === "boolean") return String(sent);
  if (typeof sent === "number" && !isExact(sent)) return "a number too large to keep its digits";
  return typeof sent === "string" && code === "missing" ? "blank" : kindInWords(sent);
}

const UNUSED_TRAITS_NAMED = 3;
const UNUSED_TRAIT_CHARACTERS = 50;

/** Says in a sentence which traits of a group call set nothing, because an attribute cannot have their name. Null: none. */
export function traitsProblemOf(traits: JsonObject): string | null {
  const unused = Object.keys(traits).filter((name) => !isAccountField(name) && !isGroupAttribute(name));
  if (unused.length === 0) return null;
  const named = unused.slice(0, UNUSED_TRAITS_NAMED).map((name) => `“${cut(name, UNUSED_TRAIT_CHARACTERS)}”`);
  const more = unused.length - named.length;
  const names = more > 0 ? [...named, `${grouped(more)} more`] : named;
  return `Group traits that are not used, because of a space, a dot or a control character in the name, or a name that is too long: ${names.join(", ")}.`;
}

function isGroupAttribute(name: string): boolean {
  const target = ATTRIBUTE_PREFIX + name;
  return target.length <= TEMPLATE_PATH_MAX_LENGTH && isAccountTarget(target);
}

/** A number with more digits than JSON numbers keep stays as a text, in an object as a rounded number. */
function plainTrait(sent: unknown): unknown {
  if (typeof sent === "string") return withoutKeys(sent.trim());
  if (sent instanceof WrittenNumber) return sent.sent;
  return typeof sent === "object" ? JSON.parse(JSON.stringify(sent)) : sent;
}

/**
 * Traits with the name of an account's field set the field, others an attribute. Traits beyond the limits are left out: their names would
 * take the room that the account needs for its updates.
 */
export function recordOfGroup(externalId: string, traits: JsonObject): AccountRecord {
  const record: AccountRecord = { externalId, fields: {}, attributes: {} };
  for (const [name, sent] of Object.entries(traits).slice(0, GROUP_TRAITS_MAX)) {
    const value = plainTrait(sent);
    if (isAbsent(value) || Buffer.byteLength(JSON.stringify(value)) > GROUP_TRAIT_MAX_BYTES) continue;
    if (isAccountField(name)) record.fields[name] = value;
    else if (isGroupAttribute(name)) record.attributes[name] = value;
  }
  return record;
}
