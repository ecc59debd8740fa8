/**
 * Where a text stops being JSON (RFC 8259), as strictly as JSON.parse: an engine's own message often has no position. No
 * recursion, because a body may be nested as deep as it is long.
 */
import { skipSpace } from "./json-scan.ts";

export type JsonErrorKind =
  /** Nothing but white space. */
  | "empty"
  /** The text ends before its value does. */
  | "truncated"
  /** No value begins here. */
  | "value_expected"
  /** No name in double quotes begins here. */
  | "name_expected"
  | "colon_expected"
  /** Neither a comma nor the closing bracket. */
  | "comma_expected"
  /** The value was complete before. */
  | "text_after_end"
  | "control_character"
  | "bad_escape"
  | "bad_number";

export interface JsonError {
  /** Index of the first UTF-16 unit that cannot stand there; the text's length where it ends too early. */
  position: number;
  kind: JsonErrorKind;
}

/** What the grammar takes next. An item may be the bracket that closes an empty array, a first name likewise. */
type Expected = "value" | "item" | "first_name" | "name" | "colon" | "comma" | "nothing";

/** The first error; null where JSON.parse takes the text. */
export function findJsonError(text: string): JsonError | null {
  const objects = new Levels(text.length);
  let depth = 0;
  let expected: Expected = "value";
  let at = skipSpace(text, 0);
  for (; at < text.length; at = skipSpace(text, at)) {
    const char = text.charAt(at);
    if (closes(char, expected, objects.has(depth))) {
      at++;
      depth--;
      expected = depth === 0 ? "nothing" : "comma";
    } else if (expected === "nothing") {
      return { position: at, kind: "text_after_end" };
    } else if (expected === "comma") {
      if (char !== ",") return { position: at, kind: "comma_expected" };
      at++;
      expected = objects.has(depth) ? "name" : "value";
    } else if (expected === "colon") {
      if (char !== ":") return { position: at, kind: "colon_expected" };
      at++;
      expected = "value";
    } else if (expected === "first_name" || expected === "name") {
      if (char !== '"') return { position: at, kind: "name_expected" };
      const end = afterString(text, at);
      if (end < 0) return errorInScalar(text, at, ~end);
      at = end;
      expected = "colon";
    } else if (char === "{" || char === "[") {
      at++;
      depth++;
      objects.set(depth, char === "{");
      expected = char === "{" ? "first_name" : "item";
    } else {
      const end = afterScalar(text, at);
      if (end < 0) return errorInScalar(text, at, ~end);
      at = end;
      expected = depth === 0 ? "nothing" : "comma";
    }
  }
  if (expected === "nothing") return null;
  return { position: text.length, kind: depth === 0 ? "empty" : "truncated" };
}

function closes(char: string, expected: Expected, inObject: boolean): boolean {
  if (char === "}") return expected === "first_name" || (expected === "comma" && inObject);
  return char === "]" && (expected === "item" || (expected === "comma" && !inObject));
}

/** Which levels of nesting are objects: one bit each, for there may be as many as characters. */
class Levels {
  readonly #bits: Uint8Array;

  constructor(max: number) {
    this.#bits = new Uint8Array((max >>> 3) + 1);
  }

  has(level: number): boolean {
    return ((this.#bits[level >>> 3] ?? 0) & (1 << (level & 7))) !== 0;
  }

  set(level: number, on: boolean): void {
    const bit = 1 << (level & 7);
    const byte = this.#bits[level >>> 3] ?? 0;
    this.#bits[level >>> 3] = on ? byte | bit : byte & ~bit;
  }
}

// Each of these returns the index after the token, or the complement (~) of the index where it goes wrong.

function afterScalar(text: string, start: number): number {
  const char = text.charAt(start);
  if (char === '"') return afterString(text, start);
  return isNumberStart(char) ? afterNumber(text, start) : afterWord(text, start);
}

function afterString(text: string, open: number): number {
  let at = open + 1;
  while (at >= 0 && at < text.length) {
    const unit = text.charCodeAt(at);
    if (unit === 0x22) return at + 1;
    if (unit < 0x20) return ~at;
    at = unit === 0x5c ? afterEscape(text, at) : at + 1;
  }
  return at < 0 ? at : ~text.length;
}

function afterEscape(text: string, backslash: number): number {
  const letter = text.charAt(backslash + 1);
  if (letter === "") return ~text.length;
  if (letter !== "u") return '"\\/bfnrt'.includes(letter) ? backslash + 2 : ~backslash;
  for (let at = backslash + 2; at < backslash + 6; at++) {
    if (at === text.length) return ~at;
    if (!/[\da-fA-F]/.test(text.charAt(at))) return ~backslash;
  }
  return backslash + 6;
}

function afterNumber(text: string, start: number): number {
  let at = text.charAt(start) === "-" ? start + 1 : start;
  if (text.charAt(at) !== "0") at = afterDigits(text, at);
  else if (isDigit(text.charCodeAt(++at))) return ~at;
  if (at >= 0 && text.charAt(at) === ".") at = afterDigits(text, at + 1);
  if (at >= 0 && /[eE]/.test(text.charAt(at))) {
    at = afterDigits(text, /[+-]/.test(text.charAt(at + 1)) ? at + 2 : at + 1);
  }
  return at;
}

function afterDigits(text: string, start: number): number {
  let at = start;
  while (isDigit(text.charCodeAt(at))) at++;
  return at === start ? ~at : at;
}

function afterWord(text: string, start: number): number {
  for (const word of ["true", "false", "null"]) {
    if (text.startsWith(word, start)) return start + word.length;
    if (text.length - start < word.length && word.startsWith(text.slice(start))) return ~text.length;
  }
  return ~start;
}

function errorInScalar(text: string, start: number, position: number): JsonError {
  if (position === text.length) return { position, kind: "truncated" };
  const char = text.charAt(start);
  if (char === '"') return { position, kind: text.charAt(position) === "\\" ? "bad_escape" : "control_character" };
  return { position, kind: isNumberStart(char) ? "bad_number" : "value_expected" };
}

function isDigit(unit: number): boolean {
  return unit >= 0x30 && unit <= 0x39;
}

function isNumberStart(char: string): boolean {
  return char === "-" || isDigit(char.charCodeAt(0));
}
