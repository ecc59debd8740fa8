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

/** Reads what is at a path: every value, `null` included; at most one unless the path has a `[]`. */
export class PathReading {
  readonly found: unknown[] = [];
  readonly #path: DotPath;
  readonly #maxLooks: number;
  #looked = 0;

  /** @param maxLooks elements that `[]` looks at; the ones behind them are passed over. */
  constructor(path: DotPath, maxLooks = Number.POSITIVE_INFINITY) {
    this.#path = path;
    this.#maxLooks = maxLooks;
  }

  /** Elements that a `[]` has looked at. */
  get looked(): number {
    return this.#looked;
  }

  /** Adds what is at the path, or at its steps `from` on, to `found`. */
  read(root: unknown, from = 0): void {
    let value = root;
    for (let at = from; at < this.#path.length; at += 1) {
      const step = this.#path[at];
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
        this.#readEach(value, at + 1);
        return;
      }
    }
    if (value !== undefined) this.found.push(value);
  }

  #readEach(elements: readonly unknown[], from: number): void {
    for (const element of elements) {
      if (this.#looked >= this.#maxLooks) return;
      this.#looked++;
      this.read(element, from);
    }
  }
}

/** The value at `path`, the first one where the path has a `[]`; undefined where there is none. */
export function readValue(root: unknown, path: DotPath): unknown {
  const reading = new PathReading(path);
  reading.read(root);
  return reading.found[0];
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
