/**
 * Where a text stops being JSON (RFC 8259), as strictly as JSON.parse: an engine's own message often has no position, and
 * what it makes of 16 MB may take all the memory there is. Reads UTF-8 bytes, as json-scan.ts does. No recursion, because a
 * body may be nested as deep as it is long.
 *
 * jsonc-parser takes the same texts for JSON, and was left: where a text or a number goes wrong it names its beginning, not
 * the character, it wants the body as one text, and 16 MB of brackets overflow its stack.
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
  /** There is text behind a value that is complete. */
  | "text_after_end"
  | "control_character"
  | "bad_escape"
  | "bad_number";

export interface JsonError {
  /** Index of the first byte that cannot stand there; the text's end where it ends too early. */
  position: number;
  kind: JsonErrorKind;
}

/** What the grammar takes next. An item may be the bracket that closes an empty array, a first name likewise. */
type Expected = "value" | "item" | "first_name" | "name" | "colon" | "comma" | "nothing";

/** A byte, or undefined behind the end of the text. */
type Byte = number | undefined;

const QUOTE = 0x22;
const PLUS = 0x2b;
const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const LETTER_A = 0x61;
const LETTER_E = 0x65;
const LETTER_F = 0x66;
const LETTER_U = 0x75;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
/** The bit that makes a letter of ASCII small. */
const LOWER_CASE = 0x20;

const encoder = new TextEncoder();
const WORDS = ["true", "false", "null"].map((word) => encoder.encode(word));
/** Characters that may follow a backslash, besides a `u`. */
const ESCAPES = encoder.encode('"\\/bfnrt');

/** The first error of [start, end); null where JSON.parse takes the text. */
export function findJsonError(bytes: Uint8Array, start: number, end: number): JsonError | null {
  const objects = new Levels(end - start);
  let depth = 0;
  let expected: Expected = "value";
  let at = skipSpace(bytes, start, end);
  for (; at < end; at = skipSpace(bytes, at, end)) {
    const byte = bytes[at];
    if (closes(byte, expected, objects.has(depth))) {
      at++;
      depth--;
      expected = depth === 0 ? "nothing" : "comma";
    } else if (expected === "nothing") {
      return { position: at, kind: "text_after_end" };
    } else if (expected === "comma") {
      if (byte !== COMMA) return { position: at, kind: "comma_expected" };
      at++;
      expected = objects.has(depth) ? "name" : "value";
    } else if (expected === "colon") {
      if (byte !== COLON) return { position: at, kind: "colon_expected" };
      at++;
      expected = "value";
    } else if (expected === "first_name" || expected === "name") {
      if (byte !== QUOTE) return { position: at, kind: "name_expected" };
      const after = afterString(bytes, at, end);
      if (after < 0) return errorInScalar(bytes, at, ~after, end);
      at = after;
      expected = "colon";
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      at++;
      depth++;
      objects.set(depth, byte === OPEN_BRACE);
      expected = byte === OPEN_BRACE ? "first_name" : "item";
    } else {
      const after = afterScalar(bytes, at, end);
      if (after < 0) return errorInScalar(bytes, at, ~after, end);
      at = after;
      expected = depth === 0 ? "nothing" : "comma";
    }
  }
  if (expected === "nothing") return null;
  return { position: end, kind: depth === 0 ? "empty" : "truncated" };
}

function closes(byte: Byte, expected: Expected, inObject: boolean): boolean {
  if (byte === CLOSE_BRACE) return expected === "first_name" || (expected === "comma" && inObject);
  return byte === CLOSE_BRACKET && (expected === "item" || (expected === "comma" && !inObject));
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

// Each function from here on returns the index after its token, or the complement (~) of the index where it goes wrong.

function afterScalar(bytes: Uint8Array, start: number, end: number): number {
  const byte = bytes[start];
  if (byte === QUOTE) return afterString(bytes, start, end);
  return isNumberStart(byte) ? afterNumber(bytes, start, end) : afterWord(bytes, start, end);
}

function afterString(bytes: Uint8Array, open: number, end: number): number {
  let at = open + 1;
  while (at >= 0 && at < end) {
    const byte = bytes[at] ?? 0;
    if (byte === QUOTE) return at + 1;
    if (byte < 0x20) return ~at;
    at = byte === BACKSLASH ? afterEscape(bytes, at, end) : at + 1;
  }
  return at < 0 ? at : ~end;
}

function afterEscape(bytes: Uint8Array, backslash: number, end: number): number {
  if (backslash + 1 === end) return ~end;
  const letter = bytes[backslash + 1];
  if (letter !== LETTER_U) return ESCAPES.includes(letter ?? 0) ? backslash + 2 : ~backslash;
  for (let at = backslash + 2; at < backslash + 6; at++) {
    if (at === end) return ~at;
    if (!isHexDigit(bytes[at])) return ~backslash;
  }
  return backslash + 6;
}

function afterNumber(bytes: Uint8Array, start: number, end: number): number {
  let at = bytes[start] === MINUS ? start + 1 : start;
  if (at === end || bytes[at] !== ZERO) at = afterDigits(bytes, at, end);
  else if (++at < end && isDigit(bytes[at])) return ~at;
  if (at >= 0 && at < end && bytes[at] === DOT) at = afterDigits(bytes, at + 1, end);
  if (at >= 0 && at < end && isLetter(bytes[at], LETTER_E)) {
    const sign = at + 1 < end && (bytes[at + 1] === PLUS || bytes[at + 1] === MINUS);
    at = afterDigits(bytes, sign ? at + 2 : at + 1, end);
  }
  return at;
}

function afterDigits(bytes: Uint8Array, start: number, end: number): number {
  let at = start;
  while (at < end && isDigit(bytes[at])) at++;
  return at === start ? ~at : at;
}

function afterWord(bytes: Uint8Array, start: number, end: number): number {
  for (const word of WORDS) {
    const length = Math.min(word.length, end - start);
    if (!word.subarray(0, length).every((byte, index) => byte === bytes[start + index])) continue;
    return length === word.length ? start + length : ~end;
  }
  return ~start;
}

function errorInScalar(bytes: Uint8Array, start: number, position: number, end: number): JsonError {
  if (position === end) return { position, kind: "truncated" };
  if (bytes[start] === QUOTE) {
    return { position, kind: bytes[position] === BACKSLASH ? "bad_escape" : "control_character" };
  }
  return { position, kind: isNumberStart(bytes[start]) ? "bad_number" : "value_expected" };
}

function isNumberStart(byte: Byte): boolean {
  return byte === MINUS || isDigit(byte);
}

function isDigit(byte: Byte): boolean {
  return byte !== undefined && byte >= ZERO && byte <= NINE;
}

function isHexDigit(byte: Byte): boolean {
  return isDigit(byte) || (byte !== undefined && (byte | LOWER_CASE) >= LETTER_A && (byte | LOWER_CASE) <= LETTER_F);
}

function isLetter(byte: Byte, letter: number): boolean {
  return byte !== undefined && (byte | LOWER_CASE) === letter;
}
