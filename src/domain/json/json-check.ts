/**
 * Where a text stops being JSON (RFC 8259), as strictly as JSON.parse: an engine's own message often has no position, and
 * what it makes of 16 MB may take all the memory there is. Reads UTF-8 bytes, as json-scan.ts does. No recursion, because a
 * body may be nested as deep as it is long.
 *
 * jsonc-parser takes the same texts for JSON, and was left: where a text or a number goes wrong it names its beginning, not
 * the character, it wants the body as one text, and 16 MB of brackets overflow its stack.
 */
import { isSpace } from "./json-scan.ts";

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

/** A byte, or undefined behind the end of the text. */
type Byte = number | undefined;

// What the grammar takes next: numbers, because comparing strings for each byte of 16 MB takes twice as long.
const VALUE = 0;
/** A value, or the bracket that closes an empty array. */
const ITEM = 1;
/** A name, or the bracket that closes an empty object. */
const FIRST_NAME = 2;
const NAME = 3;
const NAME_END = 4;
const VALUE_END = 5;
const NOTHING = 6;

const SPACE = 0x20;
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
/** By the first byte. */
const WORDS = new Map(["true", "false", "null"].map((word) => [word.charCodeAt(0), encoder.encode(word)]));
/** Which bytes may follow a backslash, besides a `u`. */
const IS_ESCAPE = new Uint8Array(256);
for (const byte of encoder.encode('"\\/bfnrt')) IS_ESCAPE[byte] = 1;

/** The first error of [start, end); null where JSON.parse takes the text. */
export function findJsonError(bytes: Uint8Array, start: number, end: number): JsonError | null {
  const outer = new OuterLevels();
  let depth = 0;
  let inObject = false;
  let expected = VALUE;
  let at = start;
  while (at < end) {
    const byte = bytes[at] ?? 0;
    if (byte <= SPACE && isSpace(byte)) {
      at++;
    } else if (expected === VALUE_END && byte === COMMA) {
      at++;
      expected = inObject ? NAME : VALUE;
    } else if (expected <= ITEM && (byte === OPEN_BRACE || byte === OPEN_BRACKET)) {
      at++;
      outer.push(inObject);
      depth++;
      inObject = byte === OPEN_BRACE;
      expected = inObject ? FIRST_NAME : ITEM;
    } else if (closes(byte, expected, inObject)) {
      at++;
      depth--;
      inObject = outer.pop();
      expected = depth === 0 ? NOTHING : VALUE_END;
    } else if (expected <= ITEM) {
      const after = afterScalar(bytes, at, end);
      if (after < 0) return errorInScalar(bytes, at, ~after, end);
      at = after;
      expected = depth === 0 ? NOTHING : VALUE_END;
    } else if (expected <= NAME && byte === QUOTE) {
      const after = afterString(bytes, at, end);
      if (after < 0) return errorInScalar(bytes, at, ~after, end);
      at = after;
      expected = NAME_END;
    } else if (expected === NAME_END && byte === COLON) {
      at++;
      expected = VALUE;
    } else {
      return { position: at, kind: UNEXPECTED[expected] ?? "value_expected" };
    }
  }
  if (expected === NOTHING) return null;
  return { position: end, kind: depth === 0 ? "empty" : "truncated" };
}

/** The error where something else stands than what the grammar takes next. */
const UNEXPECTED: JsonErrorKind[] = [];
UNEXPECTED[FIRST_NAME] = "name_expected";
UNEXPECTED[NAME] = "name_expected";
UNEXPECTED[NAME_END] = "colon_expected";
UNEXPECTED[VALUE_END] = "comma_expected";
UNEXPECTED[NOTHING] = "text_after_end";

function closes(byte: number, expected: number, inObject: boolean): boolean {
  if (byte === CLOSE_BRACE) return expected === FIRST_NAME || (expected === VALUE_END && inObject);
  return byte === CLOSE_BRACKET && (expected === ITEM || (expected === VALUE_END && !inObject));
}

/**
 * Which of the levels around the present one are objects: a bit each, for there may be as many as bytes. The innermost 32
 * stand in one number, because to change one bit of an array again and again takes many times as long.
 */
class OuterLevels {
  #depth = 0;
  /** The innermost levels, the present one's neighbour in the lowest bit. */
  #inner = 0;
  /** For each 32 levels what `inner` was there. */
  readonly #kept: number[] = [0];

  push(isObject: boolean): void {
    this.#inner = (this.#inner << 1) | (isObject ? 1 : 0);
    if ((++this.#depth & 31) === 0) this.#kept[this.#depth >>> 5] = this.#inner;
  }

  pop(): boolean {
    const isObject = (this.#inner & 1) === 1;
    this.#inner = (--this.#depth & 31) === 0 ? (this.#kept[this.#depth >>> 5] ?? 0) : this.#inner >>> 1;
    return isObject;
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
  while (at < end) {
    const byte = bytes[at] ?? 0;
    if (byte === QUOTE) return at + 1;
    if (byte < SPACE) return ~at;
    if (byte !== BACKSLASH) {
      at++;
    } else if (at + 1 < end && IS_ESCAPE[bytes[at + 1] ?? 0] === 1) {
      at += 2;
    } else {
      at = afterUnicodeEscape(bytes, at, end);
      if (at < 0) return at;
    }
  }
  return ~end;
}

/** After a backslash with a `u` and four digits. */
function afterUnicodeEscape(bytes: Uint8Array, backslash: number, end: number): number {
  if (backslash + 1 === end) return ~end;
  if (bytes[backslash + 1] !== LETTER_U) return ~backslash;
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
  if (at < 0 || at === end || !isLetter(bytes[at], LETTER_E)) return at;
  const sign = at + 1 < end && (bytes[at + 1] === PLUS || bytes[at + 1] === MINUS);
  return afterDigits(bytes, sign ? at + 2 : at + 1, end);
}

function afterDigits(bytes: Uint8Array, start: number, end: number): number {
  let at = start;
  while (at < end && isDigit(bytes[at])) at++;
  return at === start ? ~at : at;
}

function afterWord(bytes: Uint8Array, start: number, end: number): number {
  const word = WORDS.get(bytes[start] ?? 0);
  if (word === undefined) return ~start;
  for (let index = 1; index < word.length; index++) {
    if (start + index === end) return ~end;
    if (bytes[start + index] !== word[index]) return ~start;
  }
  return start + word.length;
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
