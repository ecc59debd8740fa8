/**
 * Dot paths into JSON: `form_name`, `cart.items[0].sku`, `items[].sku` (any element), `data.*.id` (any member),
 * `values[name=email].value` (the elements, or the object, whose `name` is `email`), `"a.b".c` (a name with a dot). Reads
 * only own properties of objects and elements of arrays, so that `constructor` or `__proto__` reach only values that
 * were sent.
 */

import type { InnerJson } from "./inner-json.ts";
import { isJsonObject, WrittenNumber, type JsonObject } from "./json-value.ts";

/**
 * A step of a path. All have the same fields, because the engine reads those of a few shapes much slower, and paths are read for each
 * signal.
 */
interface Step {
  kind:
    | "name"
    | "members"
    /** Before a selector at the beginning of a path: the value itself. */
    | "self"
    | "index"
    | "any"
    /** Keeps the elements of an array, or the object, with this `text` at the inner `path`. */
    | "selector";
  name: string;
  /** For a name, members or self: the path's text from this segment on. A property of exactly that name wins over the steps. */
  rest: string;
  /** The price of its look-ups, in steps of a reading. */
  cost: number;
  /** The segment's text with quotes, star and selectors. A property of that name wins over the next `steps` steps. */
  asWritten: { name: string; steps: number } | undefined;
  index: number;
  path: DotPath;
  /** As `textToCompare` gives it. */
  text: string;
  /** Any ending of the text matches. */
  isBeginning: boolean;
}

const BLANK_STEP: Readonly<Step> = {
  kind: "any",
  name: "",
  rest: "",
  cost: 0,
  asWritten: undefined,
  index: 0,
  path: [],
  text: "",
  isBeginning: false,
};

export type DotPath = readonly Readonly<Step>[];

/** Characters of a name that cost about as much to look up as an element costs to read. */
const CHARACTERS_A_STEP = 16;

/** Undefined: a segment has no name. Takes time in proportion to the text, which comes from a form or a sender. */
export function parseDotPath(text: string): DotPath | undefined {
  return new PathParser(text).path();
}

/** A path with a `[]`: the way to the elements of its last `[]`, and the way from an element to the value. */
export interface ListPath {
  /** The text up to and including the last `[]`. */
  list: string;
  /** Finds no property whose name is the text of the whole path: it is no list. */
  elements: DotPath;
  /** Empty: the element itself. */
  inElement: DotPath;
}

/** Undefined: the text is no path, or has no `[]`. */
export function parseListPath(text: string): ListPath | undefined {
  const parser = new PathParser(text);
  const [path, last] = [parser.path(), parser.lastList];
  if (path === undefined || last === undefined) return undefined;
  const elements = path
    .slice(0, last.steps)
    .map((step) => (step.kind === "name" ? { ...step, rest: step.name } : step));
  return { list: text.slice(0, last.end), elements, inElement: path.slice(last.steps) };
}

class PathParser {
  /** Where the last `[]` ends, in the text and in the steps; undefined: there is none. */
  lastList: { end: number; steps: number } | undefined;
  readonly #text: string;
  /** Without a bracket or quote from here on, a search would only read to the end, from each beginning again. */
  readonly #lastClose: number;
  readonly #steps: Step[] = [];
  /** A selector that was read up to here is none. A second attempt within it would read the same characters again. */
  #noSelectorBefore = 0;

  constructor(text: string) {
    this.#text = text;
    this.#lastClose = text.lastIndexOf("]");
  }

  path(): DotPath | undefined {
    for (let start = 0; start <= this.#text.length;) {
      const end = this.#segment(start);
      if (end === undefined) return undefined;
      start = end + 1;
    }
    return this.#steps;
  }

  /** Adds the steps of a segment. @returns the index of the dot after it, or the text's end. */
  #segment(start: number): number | undefined {
    const quotedEnd = this.#quotedEnd(start);
    let segment = this.#nameAndBrackets(quotedEnd ?? start);
    const isQuoted = segment.nameEnd === quotedEnd;
    // Other characters follow the quotes, so these belong to a name.
    if (quotedEnd !== undefined && !isQuoted) segment = this.#nameAndBrackets(start);
    const { nameEnd, brackets, end, selectorsEnd, selectorSteps } = segment;
    const isSelf = nameEnd === start;
    // Only a selector may begin a path, as a condition on the value itself.
    if (isSelf && (start > 0 || brackets[0]?.step.kind !== "selector")) return undefined;
    const name = propertyName(isQuoted ? this.#text.slice(start + 1, nameEnd - 1) : this.#text.slice(start, nameEnd));
    const isMembers = !isQuoted && name === "*";
    const rest = propertyName(this.#text.slice(start));
    const isAfterName = this.#steps.at(-1)?.kind === "name";
    const cost = (isAfterName ? 1 : 0) + Math.floor(rest.length / CHARACTERS_A_STEP);
    const writtenEnd = selectorsEnd ?? (isQuoted || isMembers ? nameEnd : this.#text.length);
    const asWritten =
      writtenEnd < this.#text.length
        ? { name: propertyName(this.#text.slice(start, writtenEnd)), steps: 1 + selectorSteps }
        : undefined;
    const kind = isSelf ? "self" : isMembers ? "members" : "name";
    this.#steps.push({ ...BLANK_STEP, kind, name, rest, cost, asWritten });
    // One by one, because a call with very many arguments overflows the stack.
    for (const { step, end: bracketEnd } of brackets) {
      this.#steps.push(step);
      if (step.kind === "any") this.lastList = { end: bracketEnd, steps: this.#steps.length };
    }
    return end;
  }

  /** The index after a quoted name; undefined: the segment has none. */
  #quotedEnd(start: number): number | undefined {
    if (this.#text[start] !== '"') return undefined;
    const close = this.#text.indexOf('"', start + 1);
    return close === -1 ? undefined : close + 1;
  }

  /** Reads to the segment's end. Brackets before other characters belong to the name (`utm[0]x`). */
  #nameAndBrackets(start: number) {
    let [at, nameEnd]: [number, number] = [start, start];
    let brackets: { step: Step; end: number }[] = [];
    let selectorsStart: number | undefined;
    let selectorsEnd: number | undefined;
    let selectorSteps = 0;
    while (at < this.#text.length && this.#text[at] !== ".") {
      const bracket = this.#text[at] === "[" ? this.#bracket(at) : undefined;
      if (bracket === undefined) {
        // A selector in a name is none, so a dot within it ends the name.
        if (selectorsStart !== undefined) [this.#noSelectorBefore, at] = [at, selectorsStart];
        nameEnd = at += 1;
        brackets = [];
        [selectorsStart, selectorsEnd, selectorSteps] = [undefined, undefined, 0];
        continue;
      }
      brackets.push(bracket);
      if (bracket.step.kind === "selector") {
        [selectorsStart, selectorsEnd, selectorSteps] = [selectorsStart ?? at, bracket.end, brackets.length];
      }
      at = bracket.end;
    }
    return { nameEnd, brackets, end: at, selectorsEnd, selectorSteps };
  }

  /** `[]`, `[0]` or a selector; undefined: the bracket belongs to a name (`utm[source]`). */
  #bracket(open: number): { step: Step; end: number } | undefined {
    if (open > this.#lastClose) return undefined;
    const close = afterDigits(this.#text, open + 1);
    if (this.#text[close] !== "]") return this.#selector(open);
    if (close === open + 1) return { step: { ...BLANK_STEP, kind: "any" }, end: close + 1 };
    const index = Number(this.#text.slice(open + 1, close));
    return { step: { ...BLANK_STEP, kind: "index", index }, end: close + 1 };
  }

  #selector(open: number): { step: Step; end: number } | undefined {
    if (open < this.#noSelectorBefore) return undefined;
    const equals = this.#endOfInnerPath(open + 1);
    if (this.#text[equals] !== "=" || equals > this.#lastClose) return undefined;
    const close = this.#text.indexOf("]", equals);
    const path = parseDotPath(this.#text.slice(open + 1, equals));
    if (path === undefined) {
      this.#noSelectorBefore = close;
      return undefined;
    }
    const value = this.#text.slice(equals + 1, close);
    const isBeginning = value.endsWith("*");
    const text = textToCompare(isBeginning ? value.slice(0, -1) : value);
    return { step: { ...BLANK_STEP, kind: "selector", path, text, isBeginning }, end: close + 1 };
  }

  /** The index of the first `=`, or of a bracket that no inner path has. An inner path may have `[]` and `[0]`. */
  #endOfInnerPath(start: number): number {
    let at = start;
    for (; at < this.#text.length; at += 1) {
      const character = this.#text[at];
      if (character === "=" || character === "]") break;
      if (character !== "[") continue;
      const close = afterDigits(this.#text, at + 1);
      if (this.#text[close] !== "]") break;
      at = close;
    }
    return at;
  }
}

/** Characters. Each rest of a longer path would be copied, which takes quadratic time. */
const PROPERTY_NAME_MAX_LENGTH = 128;

/** The text as the engine keeps the name of a property. A look-up by a part of another text takes up to twice as long. */
function propertyName(text: string): string {
  if (text.length > PROPERTY_NAME_MAX_LENGTH) return text;
  return Object.keys({ [text]: null })[0] ?? text;
}

function afterDigits(text: string, start: number): number {
  let at = start;
  while (isDigit(text.charCodeAt(at))) at += 1;
  return at;
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

/** The form in which a selector compares texts: in lower case, and an accent is part of its letter (NFC). */
function textToCompare(text: string): string {
  const lower = text.toLowerCase();
  return IS_ASCII.test(lower) ? lower : lower.normalize("NFC");
}

/** Such a text has no other form, and to see that takes less time than to normalise it. */
// oxlint-disable-next-line no-control-regex
const IS_ASCII = /^[\0-\x7f]*$/;

/** A longer text is another one: paths are shorter, and no form of a text is a third as long. */
const COMPARED_MAX_CHARACTERS = 1_024;
/** The lower case of some scripts takes longer than a look-up. */
const CHARACTERS_COMPARED_A_STEP = 8;

function hasText(value: unknown, { text, isBeginning }: Readonly<Step>): boolean {
  const sent = value instanceof WrittenNumber ? value.sent : value;
  if (sent === null || sent === undefined || typeof sent === "object") return false;
  const whole = String(sent as string | number | boolean);
  if (isBeginning) return textToCompare(whole.slice(0, COMPARED_MAX_CHARACTERS)).startsWith(text);
  return whole.length <= COMPARED_MAX_CHARACTERS && textToCompare(whole) === text;
}

/** Limits of a reading, so that no path and no payload can make it slow. */
interface ReadingBounds {
  /** Elements and members that `[]`, `*` and selectors read; later ones are skipped. */
  maxElements?: number;
  /**
   * Each element and each member costs one step, and so does each further name in a row; long names cost more. At the
   * limit the search for values stops.
   */
  maxSteps?: number;
  firstOnly?: boolean;
  /** Reads steps into a text that writes JSON. Absent: such steps find nothing. */
  innerJson?: InnerJson;
}

/** Reads all values at a path, `null` included; at most one unless the path has a `[]`, a `*` or a selector. */
export class PathReading {
  readonly found: unknown[] = [];
  /** Whether `[]` or a selector has reached an array, even an empty one. */
  metArray = false;
  /** Whether a limit ended the search. */
  isCut = false;
  readonly #path: DotPath;
  readonly #maxElements: number;
  readonly #maxSteps: number;
  readonly #firstOnly: boolean;
  readonly #innerJson: InnerJson | undefined;
  #elements = 0;
  #steps = 0;
  #key: string | undefined;
  /** Key of each found value. Undefined until a star takes a member, because most paths have none. */
  #keys: (string | undefined)[] | undefined;

  constructor(path: DotPath, { maxElements, maxSteps, firstOnly, innerJson }: ReadingBounds = {}) {
    this.#path = path;
    this.#maxElements = maxElements ?? Number.POSITIVE_INFINITY;
    this.#maxSteps = maxSteps ?? Number.POSITIVE_INFINITY;
    this.#firstOnly = firstOnly ?? false;
    this.#innerJson = innerJson;
  }

  get steps(): number {
    return this.#steps;
  }

  /** The name of the last member that a `*` took on the way to a found value; undefined: none did. */
  keyOf(index: number): string | undefined {
    return this.#keys?.[index];
  }

  /** Adds the values at the path, or at its steps from `from` on, to `found`. */
  read(root: unknown, from = 0): void {
    let value = root;
    for (let at = from; at < this.#path.length; at += 1) {
      const step = this.#path[at];
      if (step === undefined) return;
      if (typeof value === "string") value = this.#inner(value);
      if (step.kind === "index") {
        if (!Array.isArray(value)) return;
        value = value[step.index];
      } else if (step.kind === "any") {
        if (Array.isArray(value)) this.#readEach(value, at + 1);
        return;
      } else if (step.kind === "selector") {
        if (Array.isArray(value)) this.#readEach(value, at + 1, step);
        if (!isJsonObject(value) || !this.#holds(value, step)) return;
      } else {
        if (!isJsonObject(value) || !this.#spend(step.cost)) return;
        const { rest, asWritten } = step;
        if ((step.kind !== "name" || rest !== step.name) && Object.hasOwn(value, rest)) {
          value = value[rest];
          break;
        }
        if (asWritten !== undefined && Object.hasOwn(value, asWritten.name)) {
          value = value[asWritten.name];
          at += asWritten.steps - 1;
        } else if (step.kind === "members") {
          this.#readMembers(value, at + 1);
          return;
        } else if (step.kind === "name") {
          if (!Object.hasOwn(value, step.name)) return;
          value = value[step.name];
        }
      }
    }
    if (value === undefined) return;
    this.found.push(value);
    if (this.#keys !== undefined) this.#keys[this.found.length - 1] = this.#key;
  }

  #inner(text: string): unknown {
    if (this.#innerJson === undefined) return undefined;
    const before = this.#innerJson.steps;
    const value = this.#innerJson.read(text);
    return this.#spend(this.#innerJson.steps - before) ? value : undefined;
  }

  /** False: the limit is reached. */
  #spend(steps: number): boolean {
    this.#steps += steps;
    if (this.#steps > this.#maxSteps) this.isCut = true;
    return !this.isCut;
  }

  #readEach(elements: readonly unknown[], from: number, selector?: Readonly<Step>): void {
    this.metArray = true;
    for (const element of elements) {
      if (this.#elements >= this.#maxElements) this.isCut = true;
      if (this.isCut || !this.#spend(1)) return;
      this.#elements += 1;
      if (selector === undefined || this.#holds(element, selector)) this.read(element, from);
      if (this.#firstOnly && this.found.length > 0) return;
    }
  }

  #readMembers(object: JsonObject, from: number): void {
    const names = Object.keys(object);
    // The names are listed before the first of them is read.
    if (!this.#spend(names.length)) return;
    const outer = this.#key;
    this.#keys ??= [];
    for (const name of names) {
      if (this.#elements >= this.#maxElements) this.isCut = true;
      if (this.isCut) break;
      this.#elements += 1;
      this.#key = name;
      this.read(object[name], from);
      if (this.#firstOnly && this.found.length > 0) break;
    }
    this.#key = outer;
  }

  #holds(value: unknown, selector: Readonly<Step>): boolean {
    const [first] = selector.path;
    // Most selectors look up one name, such as `[type=email]`. A `PathReading` would take several times as long.
    if (selector.path.length === 1 && first?.kind === "name" && first.rest === first.name && isJsonObject(value)) {
      return this.#spend(first.cost) && Object.hasOwn(value, first.name) && this.#hasText(value[first.name], selector);
    }
    const inner = new PathReading(selector.path, {
      maxElements: this.#maxElements - this.#elements,
      maxSteps: this.#maxSteps - this.#steps,
      ...(this.#innerJson === undefined ? {} : { innerJson: this.#innerJson }),
    });
    inner.read(value);
    this.#elements += inner.#elements;
    if (!this.#spend(inner.steps)) return false;
    return inner.found.some((found) => this.#hasText(found, selector));
  }

  #hasText(value: unknown, selector: Readonly<Step>): boolean {
    return value !== undefined && this.#spend(stepsToCompare(value)) && hasText(value, selector);
  }
}

function stepsToCompare(value: unknown): number {
  const characters = typeof value === "string" ? Math.min(value.length, COMPARED_MAX_CHARACTERS) : 0;
  return 1 + Math.floor(characters / CHARACTERS_COMPARED_A_STEP);
}

export function readValue(root: unknown, path: DotPath): unknown {
  const reading = new PathReading(path, { firstOnly: true });
  reading.read(root);
  return reading.found[0];
}
