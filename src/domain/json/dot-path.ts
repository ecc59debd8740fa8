/**
 * Dot paths into JSON: `form_name`, `cart.items[0].sku`, `items[].sku` (any element). Reads only own properties of
 * objects and elements of arrays, so that `constructor` or `__proto__` reach only values that were sent.
 */

import type { JsonObject } from "./json-value.ts";

/**
 * A step of a path. `rest` is the path's text from this name on: a property of exactly that name wins over the steps.
 * `cost` is the price of both look-ups, in steps of a reading.
 */
type Step =
  | { kind: "name"; name: string; rest: string; cost: number }
  | { kind: "index"; index: number }
  | { kind: "any" };

export type DotPath = readonly Step[];

/** Characters of a name that cost about as much to look up as an element costs to read. */
const CHARACTERS_A_STEP = 16;

/** Undefined: a segment has no name. Looks at each character once: the text comes from a form or a sender. */
export function parseDotPath(text: string): DotPath | undefined {
  const steps: Step[] = [];
  for (let start = 0; start <= text.length;) {
    const dot = text.indexOf(".", start);
    const end = dot === -1 ? text.length : dot;
    const nameEnd = endOfName(text, start, end);
    if (nameEnd === start) return undefined;
    const [name, rest] = [text.slice(start, nameEnd), text.slice(start)];
    const isFirst = steps.at(-1)?.kind !== "name";
    steps.push({ kind: "name", name, rest, cost: (isFirst ? 0 : 1) + Math.floor(rest.length / CHARACTERS_A_STEP) });
    for (let open = nameEnd; open < end;) {
      const close = text.indexOf("]", open);
      steps.push(close === open + 1 ? { kind: "any" } : { kind: "index", index: Number(text.slice(open + 1, close)) });
      open = close + 1;
    }
    start = end + 1;
  }
  return steps;
}

/**
 * The position of `[0]`, `[]` or a chain of them at the end of a segment, or its end. Other brackets belong to the name
 * (`utm[source]`).
 */
function endOfName(text: string, start: number, end: number): number {
  let nameEnd = end;
  while (text[nameEnd - 1] === "]") {
    let open = nameEnd - 2;
    while (open > start && isDigit(text.charCodeAt(open))) open--;
    if (open < start || text[open] !== "[") break;
    nameEnd = open;
  }
  return nameEnd;
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

/** Limits of a reading, so that no path and no payload can make it slow. */
interface ReadingBounds {
  /** Elements that `[]` reads; later ones are skipped. */
  maxElements?: number;
  /**
   * Each element costs one step, and so does each further name in a row; long names cost more. At the limit the
   * search for values stops.
   */
  maxSteps?: number;
  firstOnly?: boolean;
}

/** Reads all values at a path, `null` included; at most one unless the path has a `[]`. */
export class PathReading {
  readonly found: unknown[] = [];
  readonly #path: DotPath;
  readonly #maxElements: number;
  readonly #maxSteps: number;
  readonly #firstOnly: boolean;
  #elements = 0;
  #steps = 0;

  constructor(path: DotPath, { maxElements, maxSteps, firstOnly }: ReadingBounds = {}) {
    this.#path = path;
    this.#maxElements = maxElements ?? Number.POSITIVE_INFINITY;
    this.#maxSteps = maxSteps ?? Number.POSITIVE_INFINITY;
    this.#firstOnly = firstOnly ?? false;
  }

  get steps(): number {
    return this.#steps;
  }

  /** Adds the values at the path, or at its steps from `from` on, to `found`. */
  read(root: unknown, from = 0): void {
    let value = root;
    for (let at = from; at < this.#path.length; at += 1) {
      const step = this.#path[at];
      if (step === undefined) return;
      if (step.kind === "name") {
        if (!isJsonObject(value)) return;
        this.#steps += step.cost;
        if (this.#steps > this.#maxSteps) return;
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
      if (this.#elements >= this.#maxElements || this.#steps > this.#maxSteps) return;
      this.#elements++;
      this.#steps++;
      this.read(element, from);
      if (this.#firstOnly && this.found.length > 0) return;
    }
  }
}

export function readValue(root: unknown, path: DotPath): unknown {
  const reading = new PathReading(path, { firstOnly: true });
  reading.read(root);
  return reading.found[0];
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
