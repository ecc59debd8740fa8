/**
 * A payload that a payload template takes (spec §2.1), for the instructions of a Product Org Updates key: mapping it back
 * gives a record with everything that the template names.
 */
import { isJsonObject, parseDotPath } from "../json/dot-path.ts";
import type { PayloadMapping } from "./payload-template.ts";
import type { JsonObject } from "../json/json-object.ts";

/** Steps of a path that are drawn as nested objects; a longer one is written as one dotted name, which is read as well. */
const NESTED_MAX_STEPS = 8;
/** Elements of an array in an example. */
const INDEX_MAX = 3;

/** Mappings that read the same place; `steps` are names and indices. */
interface Place {
  steps: (string | number)[];
  mappings: PayloadMapping[];
}

export function exampleFor(template: readonly PayloadMapping[]): JsonObject {
  const example: JsonObject = {};
  for (const place of placesOf(template)) {
    const value = valueFor(place.mappings);
    if (isShort(place.steps) && put(example, place.steps, value)) continue;
    // Another mapping has a plain value on the way: a property of the path's whole text is read before its steps.
    for (const { path } of place.mappings) define(example, path, value);
  }
  return example;
}

/** Plain values before what lies below them, and `json` last, which is content with whatever is there by then. */
function placesOf(template: readonly PayloadMapping[]): Place[] {
  const places = new Map<string, Place>();
  for (const mapping of template) {
    const steps = (parseDotPath(mapping.path) ?? []).map((step) =>
      step.kind === "name" ? step.name : step.kind === "index" ? step.index : 0,
    );
    const key = JSON.stringify(steps);
    const place = places.get(key) ?? { steps, mappings: [] };
    place.mappings.push(mapping);
    places.set(key, place);
  }
  const isJson = ({ mappings }: Place): boolean =>
    mappings.every(({ type, target }) => type === "json" && !isId(target));
  const order = (place: Place): number => (isJson(place) ? 1_000 : 0) + place.steps.length;
  return [...places.values()].sort((a, b) => order(a) - order(b));
}

function isShort(steps: Place["steps"]): boolean {
  return steps.length <= NESTED_MAX_STEPS && steps.every((step) => typeof step === "string" || step <= INDEX_MAX);
}

function isId(target: string): boolean {
  return target === "external_id";
}

/** One value that has all the types that the mappings ask of it. */
function valueFor(mappings: readonly PayloadMapping[]): unknown {
  const types = new Set(mappings.map(({ type }) => type));
  const target = mappings.find((mapping) => isId(mapping.target))?.target ?? mappings[0]?.target ?? "";
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

/** Puts a value in its place; false, and nothing is changed, where a value of another kind is in the way. */
function put(root: JsonObject, steps: readonly (string | number)[], value: unknown): boolean {
  if (!fits(root, steps)) return false;
  let at: unknown = root;
  for (const [depth, step] of steps.entries()) {
    const next = steps[depth + 1];
    const known = read(at, step);
    if (next === undefined) {
      if (known === undefined) write(at, step, value);
      return true;
    }
    const inner = known ?? (typeof next === "number" ? [] : {});
    if (known === undefined) write(at, step, inner);
    at = inner;
  }
  return true;
}

function fits(root: unknown, steps: readonly (string | number)[]): boolean {
  let at = root;
  for (const step of steps) {
    if (at === undefined) return true;
    if (typeof step === "number" ? !Array.isArray(at) : !isJsonObject(at)) return false;
    at = read(at, step);
  }
  return at === undefined || typeof at === "object";
}

function read(container: unknown, step: string | number): unknown {
  if (typeof step === "number")
    return Array.isArray(container) ? ((container[step] as unknown) ?? undefined) : undefined;
  return isJsonObject(container) && Object.hasOwn(container, step) ? container[step] : undefined;
}

function write(container: unknown, step: string | number, value: unknown): void {
  if (Array.isArray(container)) {
    while (container.length < Number(step)) container.push(null);
    container[Number(step)] = value;
  } else if (isJsonObject(container)) define(container, String(step), value);
}

/** Sets a property as JSON.parse would: also `__proto__` becomes one of the object's own. */
function define(object: JsonObject, name: string, value: unknown): void {
  Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
}
