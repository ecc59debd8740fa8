/**
 * Dot paths into JSON: `form_name`, `cart.items[0].sku`, `items[].sku` (any element). Reads own properties of objects
 * and elements of arrays only, so that `constructor` or `__proto__` reach nothing that the sender did not send.
 */

import type { JsonObject } from "./json-object.ts";

/** One step of a path. `rest` is the path's text from a name on: a property of exactly that name wins over the steps. */
type Step = { kind: "name"; name: string; rest: string } | { kind: "index"; index: number } | { kind: "any" };

export type DotPath = readonly Step[];

/** `[0]`, `[]` and chains of them at the end of a segment; other brackets belong to the name (`utm[source]`). */
const ELEMENT_STEPS = /(?:\[\d*\])+$/;

/** The steps of a path; undefined where it has an empty segment. */
export function parseDotPath(text: string): DotPath | undefined {
  const steps: Step[] = [];
  let start = 0;
  for (const segment of text.split(".")) {
    const brackets = ELEMENT_STEPS.exec(segment)?.[0] ?? "";
    const name = segment.slice(0, segment.length - brackets.length);
    if (name === "") return undefined;
    steps.push({ kind: "name", name, rest: text.slice(start) });
    for (const [, digits] of brackets.matchAll(/\[(\d*)\]/g)) {
      steps.push(digits ? { kind: "index", index: Number(digits) } : { kind: "any" });
    }
    start += segment.length + 1;
  }
  return steps;
}

/**
 * Appends every value at `path` to `found`, `null` included: at most one unless the path has a `[]`.
 *
 * @param looks elements that a `[]` may still look at; the ones behind them are passed over.
 */
export function readValues(
  root: unknown,
  path: DotPath,
  found: unknown[],
  looks: { left: number } = { left: Number.POSITIVE_INFINITY },
  from = 0,
): void {
  let value = root;
  for (let at = from; at < path.length; at += 1) {
    const step = path[at];
    if (step === undefined) return;
    if (step.kind === "name") {
      if (!isJsonObject(value)) return;
      if (step.rest !== step.name && Object.hasOwn(value, step.rest)) {
        value = value[step.rest];
        break;
      }
      if (!Object.hasOwn(value, step.name)) return;
      value = value[step.name];
    } else if (!Array.isArray(value)) {
      return;
    } else if (step.kind === "index") {
      value = value[step.index];
    } else {
      for (const element of value) {
        if (looks.left <= 0) return;
        looks.left--;
        readValues(element, path, found, looks, at + 1);
      }
      return;
    }
  }
  if (value !== undefined) found.push(value);
}

/** The value at `path`, the first one where the path has a `[]`; undefined where there is none. */
export function readValue(root: unknown, path: DotPath): unknown {
  const found: unknown[] = [];
  readValues(root, path, found);
  return found[0];
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
