/**
 * The payload template of a Product Org Updates key (spec §2.1, design §8.7): maps paths of a payload to fields of an
 * account. Templates are compiled once; `mapAccount` runs at the edge for every account update.
 */
import { parseDotPath, PathReading, type DotPath } from "../json/dot-path.ts";
import { echo, type Described } from "../keys/echo.ts";
import { isWorthlessId } from "../signal/identity.ts";
import { numberOfText } from "../rules/mapping-condition.ts";
import { isAbsent, isExact, kindInWords, type JsonObject } from "../json/json-value.ts";
import type { SignalRefusal } from "../keys/refusal.ts";
import { ok, refuse, type Result } from "../result.ts";
import { IDENTITY_MAX_LENGTH } from "../../limits.ts";

export const PAYLOAD_TYPES = ["string", "number", "boolean", "json"] as const;
type PayloadType = (typeof PAYLOAD_TYPES)[number];

/** Named fields of an account; any other field is `attributes.<name>`. */
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
  /** One of ACCOUNT_TARGETS, or `attributes.` and a name. A template has each target at most once. */
  target: string;
  path: string;
  type: PayloadType;
  /** Whether a payload without this field is refused. Always true for `external_id`. */
  required: boolean;
}

/**
 * An account update, upserted by `externalId` field by field. Fields missing from the payload are missing here and
 * keep their stored value. `null` and blank texts count as missing, because empty tokens arrive like that.
 */
export interface AccountRecord {
  /** The trimmed id as text. A number becomes its decimal text, whatever type the template declares. */
  externalId: string;
  fields: Partial<Record<AccountField, unknown>>;
  attributes: Record<string, unknown>;
}

export interface TemplateError extends Described {
  target: string;
  path: string;
  /** `out_of_reach`: the path leads through more elements or longer names than the step budget allows. */
  code: "missing" | "wrong_type" | "out_of_reach";
}

export type CompiledTemplate = readonly (Omit<PayloadMapping, "path"> & { path: DotPath; pathText: string })[];

const ATTRIBUTE = /^attributes\.([^\p{C}\s.]+)$/u;
const ATTRIBUTE_PREFIX = "attributes.";
/** Step budget of an update, about 4 ms: enough for 1,000 elements in each of 100 mappings. */
export const TEMPLATE_MAX_STEPS = 100_000;
/** Step budget of all updates of a request: about 0.4 s. */
export const REQUEST_MAX_STEPS = 10_000_000;
export interface StepBudget {
  stepsLeft: number;
}
/** Maximum characters of all details in a refusal; further errors are only counted. A single error is shorter. */
const DETAIL_MAX_LENGTH = 1_000;

export function isAccountTarget(target: string): boolean {
  return ACCOUNT_TARGETS.some((known) => known === target) || isAttributeName(ATTRIBUTE.exec(target)?.[1]);
}

function isAttributeName(name: string | undefined): boolean {
  return name !== undefined && name !== "__proto__";
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

/**
 * Maps a payload to an account. A path with `[]` reads the first element that has a value. A refusal lists every
 * error, in the template's order.
 *
 * @param request the budget that the steps are taken from; without it only the limit of one update applies.
 */
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
    const refuseValue = (
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
      const most = maxSteps < TEMPLATE_MAX_STEPS ? "all updates of one request: send fewer in a request" : "one update";
      const detail = `\`${pathText}\` (for \`${target}\`) lies behind more elements than are looked through for ${most}.`;
      return refuse([...errors, { target, path: pathText, code: "out_of_reach", detail }]);
    }
    if (isAbsent(sent)) {
      if (required) refuseValue("missing", "is required");
      continue;
    }
    const value = convert(sent, type);
    if (value === undefined) refuseValue("wrong_type", `must be ${EXPECTED[type]}`);
    else if (isField(target)) record.fields[target] = value;
    else if (target !== "external_id") record.attributes[target.slice(ATTRIBUTE_PREFIX.length)] = value;
    else {
      // An external id stays the text that was sent, whatever its type, so that no digit is lost.
      const id = convert(sent, "string");
      if (typeof id !== "string") refuseValue("wrong_type", `must be ${EXPECTED.string}`);
      else if (isWorthlessId(id)) refuseValue("wrong_type", "must name one account", NAMES_NONE);
      else record.externalId = id.trim();
    }
  }
  return errors.length === 0 ? ok(record) : refuse(errors);
}

/** The refusal of a payload: names errors while they fit, then counts the rest. */
export function templateRefusal(errors: readonly TemplateError[]): SignalRefusal {
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

const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["yes", true],
  ["on", true],
  ["1", true],
  ["false", false],
  ["no", false],
  ["off", false],
  ["0", false],
]);

const BOOLEAN_MAX_CHARACTERS = 1_000;

/** Converts `sent` to a type; undefined if that is impossible. Numeric text is plain decimal, as in mapping rules. */
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
  return text.length > BOOLEAN_MAX_CHARACTERS ? undefined : BOOLEANS.get(text.trim().toLowerCase());
}

function isField(target: string): target is AccountField {
  return target !== "external_id" && ACCOUNT_TARGETS.some((known) => known === target);
}

function echoOf(sent: unknown, code: TemplateError["code"]): { sent?: string } {
  if (typeof sent === "number") return isExact(sent) ? { sent: String(sent) } : {};
  return typeof sent === "string" && code !== "missing" ? { sent: echo(sent) } : {};
}

/** The kind of the value, without the value itself. A text that counts as missing is "blank". */
function kindSent(sent: unknown, code: TemplateError["code"]): string {
  if (sent === undefined) return "missing";
  if (typeof sent === "boolean") return String(sent);
  if (typeof sent === "number" && !isExact(sent)) return "a number too large to keep its digits";
  return typeof sent === "string" && code === "missing" ? "blank" : kindInWords(sent);
}
