/**
 * Payload templates and sample payloads (spec §2.1): reads a sample that an admin pastes, proposes a
 * template for it, and makes an example payload for a template.
 */
import { parseDotPath } from "../json/dot-path.ts";
import { type JsonObject, isJsonObject } from "../json/json-value.ts";
import { ok, reject, type Result } from "../result.ts";
import { readSignals } from "../signal/signal-body.ts";
import { TEMPLATE_PATH_MAX_LENGTH } from "../../limits.ts";
import { compileTemplate, isAccountTarget, mapAccount, type PayloadMapping } from "./payload-template.ts";

/** Reads a sample as the endpoint would. An array gives its first element, because each element is an update. */
export function readSample(text: string): Result<JsonObject, string> {
  const parsed = readSignals(new TextEncoder().encode(text), {
    maxSignals: Number.MAX_SAFE_INTEGER,
    lines: false,
    check: ok,
  });
  if (!parsed.ok) return reject(parsed.rejection.detail);
  const [first] = parsed.value.signals;
  if (first === undefined) return reject("The sample holds no payload.");
  if (first.rejection !== null) return reject(first.rejection.detail);
  const payload: unknown = JSON.parse(parsed.value.text.slice(first.start, first.end));
  return isJsonObject(payload)
    ? ok(payload)
    : reject('A payload is a JSON object such as {"company":{"id":"acme-42"}}.');
}

/** Maximum mappings of a proposal: more do not fit on a screen. */
const MAX_MAPPINGS = 15;
const MAX_LEVELS = 4;

/** Common names of each field, the most specific first; compared without case and separators. */
const NAMES: readonly (readonly [target: string, names: readonly string[]])[] = [
  [
    "external_id",
    words(
      "externalid accountid companyid organizationid organisationid orgid workspaceid tenantid groupid teamid customerid id uuid",
    ),
  ],
  ["name", words("accountname companyname organizationname workspacename orgname name")],
  ["plan", words("planname plan subscriptionplan tier edition")],
  ["user_count", words("usercount users seats seatcount numusers membercount members headcount licenses")],
  ["recurring_revenue", words("recurringrevenue monthlyrecurringrevenue annualrecurringrevenue mrr arr revenue")],
  ["trial_status", words("trialstatus trial istrial ontrial")],
  ["feature_flags", words("featureflags flags features featuretoggles")],
];

const FLAG_NAMES = NAMES.find(([target]) => target === "feature_flags")?.[1] ?? [];

interface Leaf {
  path: string;
  value: unknown;
  /** The path and its last name, without case and separators. */
  plainPath: string;
  plainLast: string;
}

/**
 * Known names fill the fields of an account, the rest become attributes. An unchanged proposal maps the sample. The
 * first mapping is always `external_id`; its path is empty if no name in the sample looks like an id.
 */
export function proposeTemplate(sample: JsonObject): PayloadMapping[] {
  const leaves: Leaf[] = [];
  collect(sample, "", MAX_LEVELS, leaves);
  const rows: PayloadMapping[] = [];
  const used = new Set<Leaf>();
  for (const [target, names] of NAMES) {
    const leaf = bestLeaf(target, names, leaves, used);
    if (leaf !== undefined) {
      used.add(leaf);
      rows.push(mapping(target, leaf));
    } else if (target === "external_id") rows.push({ target, path: "", type: "string", required: true });
  }
  const taken = new Set<string>();
  const trial = withTrialId(sample);
  for (const leaf of leaves) {
    const target = `attributes.${lastName(leaf.path)}`;
    if (rows.length >= MAX_MAPPINGS) break;
    if (used.has(leaf) || taken.has(target) || !isAccountTarget(target)) continue;
    const row = mapping(target, leaf);
    if (!isMapped(row, trial)) continue;
    taken.add(target);
    rows.push(row);
  }
  return rows;
}

/**
 * Collects values with their paths; arrays and the flags of `features: {…}` as a whole. Leaves out what is behind a path
 * that is too long for a template, before it builds the path: thousands of values may share one long name.
 */
function collect(value: JsonObject, prefix: string, levels: number, leaves: Leaf[]): void {
  for (const [name, inner] of Object.entries(value)) {
    if (prefix.length + name.length > TEMPLATE_PATH_MAX_LENGTH) continue;
    if (name === "" || name.includes(".") || /\[\d*\]$/.test(name) || inner === null || inner === "") continue;
    const path = prefix + name;
    const plainLast = plainName(name);
    if (isJsonObject(inner) && !FLAG_NAMES.includes(plainLast) && levels > 1) {
      collect(inner, `${path}.`, levels - 1, leaves);
    } else leaves.push({ path, value: inner, plainPath: plainName(path), plainLast });
  }
}

function bestLeaf(
  target: string,
  names: readonly string[],
  leaves: readonly Leaf[],
  used: ReadonlySet<Leaf>,
): Leaf | undefined {
  for (const name of names) {
    for (const leaf of leaves) {
      if ((leaf.plainLast !== name && leaf.plainPath !== name) || used.has(leaf)) continue;
      const isWhole = typeof leaf.value === "object";
      // A dotted path also reads a property of that exact name.
      const alone = withTrialId({ [leaf.path]: leaf.value });
      if (isWhole === (target === "feature_flags") && isMapped(mapping(target, leaf), alone)) return leaf;
    }
  }
  return undefined;
}

function mapping(target: string, { path, value }: Leaf): PayloadMapping {
  return { target, path, type: isId(target) ? "string" : typeOf(target, value), required: isId(target) };
}

function typeOf(target: string, value: unknown): PayloadMapping["type"] {
  if (typeof value === "boolean") return "boolean";
  if (typeof value === "object") return "json";
  if (typeof value === "number") return "number";
  const isAmount = target === "user_count" || target === "recurring_revenue";
  return isAmount && typeof value === "string" && /^\s*-?\d+(\.\d+)?\s*$/.test(value) ? "number" : "string";
}

/**
 * Whether the mapping works for the payload. Tries it, so that no reason for a rejection is overlooked.
 *
 * @param trial made by `withTrialId`, once for many mappings: a copy of the payload takes time.
 */
function isMapped(row: PayloadMapping, trial: JsonObject): boolean {
  const id: PayloadMapping = { target: "external_id", path: ID_OF_TRIAL, type: "string", required: true };
  try {
    const rows = row.target === "external_id" ? [row] : [row, id];
    return mapAccount(compileTemplate(rows), trial).ok;
  } catch {
    return false;
  }
}

/** A property name that no sample has. */
const ID_OF_TRIAL = "\u{f8ff}id";

function withTrialId(payload: JsonObject): JsonObject {
  return { ...payload, [ID_OF_TRIAL]: "trial-1" };
}

function lastName(path: string): string {
  return path.slice(path.lastIndexOf(".") + 1);
}

function plainName(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}

function words(list: string): readonly string[] {
  return list.split(" ");
}

const NESTED_MAX_STEPS = 8;
const INDEX_MAX = 3;

/** Mappings that read the same place. `steps` are names and indices. */
interface Place {
  steps: (string | number)[];
  mappings: PayloadMapping[];
}

export function exampleFor(template: readonly PayloadMapping[]): JsonObject {
  const example: JsonObject = {};
  for (const place of placesOf(template)) {
    const value = valueFor(place.mappings);
    if (isShort(place.steps) && putAt(example, place.steps, value)) continue;
    // Another mapping has a plain value on the way. A property with the path's whole text wins over the steps.
    for (const { path } of place.mappings) setOwnProperty(example, path, value);
  }
  return example;
}

/** Plain values come before the paths below them; `json` comes last, because it accepts any value. */
function placesOf(template: readonly PayloadMapping[]): Place[] {
  const places = new Map<string, Place>();
  for (const rowMapping of template) {
    const steps = stepsOf(rowMapping.path);
    const key = JSON.stringify(steps);
    const place = places.get(key) ?? { steps, mappings: [] };
    place.mappings.push(rowMapping);
    places.set(key, place);
  }
  const isJson = ({ mappings }: Place): boolean =>
    mappings.every(({ type, target }) => type === "json" && !isId(target));
  const order = (place: Place): number => (isJson(place) ? 1_000 : 0) + place.steps.length;
  return [...places.values()].sort((a, b) => order(a) - order(b));
}

function stepsOf(path: string): Place["steps"] {
  const steps = parseDotPath(path) ?? [];
  // A property with the path's whole text wins over a condition.
  if (steps.some(({ kind }) => kind === "selector")) return [path];
  return steps.map((step) => {
    if (step.kind === "name") return step.name;
    return step.kind === "members" ? "*" : step.kind === "index" ? step.index : 0;
  });
}

function isShort(steps: Place["steps"]): boolean {
  return steps.length <= NESTED_MAX_STEPS && steps.every((step) => typeof step === "string" || step <= INDEX_MAX);
}

function isId(target: string): boolean {
  return target === "external_id";
}

function valueFor(mappings: readonly PayloadMapping[]): unknown {
  const types = new Set(mappings.map(({ type }) => type));
  const target = mappings.find((row) => isId(row.target))?.target ?? mappings[0]?.target ?? "";
  if (types.has("boolean")) return types.has("number") || isId(target) ? 1 : types.has("string") ? "true" : true;
  if (types.has("number")) return NUMBERS[target] ?? 42;
  if (types.has("string") || isId(target)) return TEXTS[target] ?? "example";
  return target === "feature_flags" ? { beta_reports: true } : { example: true };
}

const TEXTS: Readonly<Record<string, string>> = {
  external_id: "acme-42",
  name: "Acme Inc.",
  plan: "growth",
  user_count: "25",
  recurring_revenue: "1200.50",
  trial_status: "active",
};
const NUMBERS: Readonly<Record<string, number>> = { external_id: 4_711, user_count: 25, recurring_revenue: 1200.5 };

/** Sets the value at a path. Returns false and changes nothing if a value of another kind is on the way. */
function putAt(container: object, [step, ...rest]: readonly (string | number)[], value: unknown): boolean {
  if (step === undefined || (typeof step === "number") !== Array.isArray(container)) return false;
  const known: unknown = Object.getOwnPropertyDescriptor(container, step)?.value ?? undefined;
  if (known !== undefined && typeof known !== "object") return false;
  const inner: object = known ?? (typeof rest[0] === "number" ? [] : {});
  if (rest.length > 0 && !putAt(inner, rest, value)) return false;
  if (known !== undefined) return true;
  while (Array.isArray(container) && container.length < Number(step)) container.push(null);
  setOwnProperty(container, step, rest.length === 0 ? value : inner);
  return true;
}

/** As JSON.parse does; plain assignment of `__proto__` would set the prototype. */
function setOwnProperty(container: object, name: string | number, value: unknown): void {
  Object.defineProperty(container, name, { value, enumerable: true, configurable: true, writable: true });
}
