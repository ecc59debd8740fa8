/**
 * Finds the depth, the elements and the first error of a JSON text. Each takes one pass over the UTF-8 bytes, without
 * parsing, because each signal keeps its original text. Runs over every request body: no recursion, no
 * allocation per character.
 *
 * Only `findJsonError` validates. The other results are meaningful only if each slice is JSON, and if the text around
 * the array, with `[]` in its place, is JSON.
 */

/** The elements of an array: their slices [starts[i], ends[i]) without surrounding white space, and their depths. */
export interface ItemSpans {
  starts: number[];
  ends: number[];
  depths: number[];
  count: number;
  /** The slice of the array, including its brackets. */
  open: number;
  close: number;
}

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
/** The bit that turns an ASCII letter into lower case. */
const LOWER_CASE = 0x20;

const encoder = new TextEncoder();
const BATCH = encoder.encode("batch");

/**
 * The levels of nesting of [start, end), and an upper bound of its values: one for each comma and each opening
 * bracket. A scalar has 0 levels, `{}` 1, `{"a":{}}` 2. The scan stops at the first level or value beyond its maximum.
 */
export function jsonShape(
  bytes: Uint8Array,
  { start = 0, end = bytes.length, maxDepth = Number.POSITIVE_INFINITY, maxValues = Number.POSITIVE_INFINITY },
): { depth: number; values: number } {
  let depth = 0;
  let deepest = 0;
  let values = 0;
  for (let at = start; at < end && deepest <= maxDepth && values <= maxValues; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      at = closingQuote(bytes, at, end);
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      values++;
      if (++depth > deepest) deepest = depth;
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      depth--;
    } else if (byte === COMMA) {
      values++;
    }
  }
  return { depth: deepest, values };
}

/**
 * The elements of the array that is the text ("array"), or that is at the object's top-level key `batch` ("batch"). The
 * last of several such keys counts, as in JSON.parse. Null: there is no such array.
 *
 * @param max number of slices to return; further elements are only counted.
 */
export function scanItems(bytes: Uint8Array, where: "array" | "batch", max: number): ItemSpans | null {
  if (where === "batch") return scanBatch(bytes, max);
  const open = skipSpace(bytes, 0);
  return bytes[open] === OPEN_BRACKET ? scanArray(bytes, open, max) : null;
}

function scanBatch(bytes: Uint8Array, max: number): ItemSpans | null {
  let items: ItemSpans | null = null;
  let depth = 0;
  let keyNext = false;
  let inBatch = false;
  // Reading the length of the bytes takes as long as reading a byte.
  const end = bytes.length;
  for (let at = skipSpace(bytes, 0); at < end; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      const close = closingQuote(bytes, at, end);
      if (keyNext) {
        keyNext = false;
        inBatch = isBatchKey(bytes, at, close);
        if (inBatch) items = null;
      }
      at = close;
    } else if (byte === OPEN_BRACKET && depth === 1 && inBatch) {
      items = scanArray(bytes, at, max);
      if (items === null) return null;
      at = items.close - 1;
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      depth++;
      keyNext = depth === 1 && byte === OPEN_BRACE;
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      depth--;
    } else if (byte === COMMA) {
      keyNext = depth === 1;
    }
  }
  return items;
}

/** Null: the array does not close. */
function scanArray(bytes: Uint8Array, open: number, max: number): ItemSpans | null {
  const end = bytes.length;
  const items: ItemSpans = { starts: [], ends: [], depths: [], count: 0, open, close: end };
  let count = 0;
  let start = skipSpace(bytes, open + 1);
  if (bytes[start] === CLOSE_BRACKET) {
    items.close = start + 1;
    return items;
  }
  let depth = 0;
  let deepest = 0;
  for (let at = start; at < end; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      at = closingQuote(bytes, at, end);
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      depth++;
      if (depth > deepest) deepest = depth;
    } else if (depth > 0) {
      if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth--;
    } else if (byte === COMMA || byte === CLOSE_BRACKET) {
      if (count++ < max) {
        items.starts.push(start);
        items.ends.push(withoutSpaceBefore(bytes, at, start));
        items.depths.push(deepest);
      }
      if (byte === CLOSE_BRACKET) {
        items.count = count;
        items.close = at + 1;
        return items;
      }
      start = count < max ? skipSpace(bytes, at + 1, end) : at + 1;
      at = start - 1;
      deepest = 0;
    }
  }
  return null;
}

/** Whether the array, object or string that begins the text also ends it, except for white space. */
export function closesAtEnd(bytes: Uint8Array, start: number, end: number): boolean {
  let depth = 0;
  for (let at = skipSpace(bytes, start, end); at < end; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) at = closingQuote(bytes, at, end);
    else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++;
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth--;
    else continue;
    if (depth <= 0) return at < end && skipSpace(bytes, at + 1, end) === end;
  }
  return false;
}

/** Index of the quote that closes the string opened at `open`; `end` if there is none. */
function closingQuote(bytes: Uint8Array, open: number, end: number): number {
  for (let at = open + 1; at < end; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) return at;
    if (byte === BACKSLASH) at++;
  }
  return end;
}

/** Whether the string is `batch`, even with escapes. Decodes nothing: an object may have many keys. */
function isBatchKey(bytes: Uint8Array, open: number, close: number): boolean {
  let at = open + 1;
  for (const letter of BATCH) {
    if (bytes[at] === letter) at++;
    else if (isEscapeOf(letter, bytes, at)) at += 6;
    else return false;
  }
  return at === close;
}

/** Whether the letter is written as an escape, such as `\u0062`. The codes of `batch` have decimal digits only. */
function isEscapeOf(letter: number, bytes: Uint8Array, at: number): boolean {
  return (
    bytes[at] === BACKSLASH &&
    bytes[at + 1] === LETTER_U &&
    bytes[at + 2] === ZERO &&
    bytes[at + 3] === ZERO &&
    bytes[at + 4] === ZERO + (letter >>> 4) &&
    bytes[at + 5] === ZERO + (letter & 15)
  );
}

export function skipSpace(bytes: Uint8Array, from: number, end = bytes.length): number {
  let at = from;
  while (at < end && isSpace(bytes[at])) at++;
  return at;
}

/** The end of the text before `end` without trailing white space; never before `start`. */
export function withoutSpaceBefore(bytes: Uint8Array, end: number, start = 0): number {
  let at = end;
  while (at > start && isSpace(bytes[at - 1])) at--;
  return at;
}

export function isSpace(byte: number | undefined): boolean {
  return byte !== undefined && byte <= 0x20 && (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09);
}

export type JsonErrorKind =
  | "empty"
  | "truncated"
  | "value_expected"
  | "name_expected"
  | "colon_expected"
  | "comma_expected"
  | "text_after_end"
  | "control_character"
  | "bad_escape"
  | "bad_number";

export interface JsonError {
  /** Index of the first invalid byte; the text's end if the text is truncated. */
  position: number;
  kind: JsonErrorKind;
}

// The token that the parser expects next. Numbers, because comparing strings for each byte of 8 MB takes twice as long.
const VALUE = 0;
/** A value, or the bracket that closes an empty array. */
const ITEM = 1;
/** A name, or the bracket that closes an empty object. */
const FIRST_NAME = 2;
const NAME = 3;
const NAME_END = 4;
const VALUE_END = 5;
const NOTHING = 6;

const WORDS = new Map(["true", "false", "null"].map((word) => [word.charCodeAt(0), encoder.encode(word)]));
/** Bytes that may follow a backslash, except `u`. */
const IS_ESCAPE = new Uint8Array(256);
for (const byte of encoder.encode('"\\/bfnrt')) IS_ESCAPE[byte] = 1;

/**
 * Finds the first error of the text [start, end) by RFC 8259; null if JSON.parse accepts the text. JSON.parse itself
 * often reports no position, and may take all memory for 8 MB. No recursion, because a body may be nested as deep as
 * it is long. jsonc-parser reports less exact positions, and overflows its stack on 8 MB of brackets.
 */
export function findJsonError(bytes: Uint8Array, start: number, end: number): JsonError | null {
  // One bit for each open level: whether it is an object. A list of booleans would take ten times as long.
  const levels = new Uint8Array(((end - start) >>> 3) + 1);
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
      inObject = byte === OPEN_BRACE;
      depth++;
      setBit(levels, depth, inObject);
      expected = inObject ? FIRST_NAME : ITEM;
    } else if (closes(byte, expected, inObject)) {
      at++;
      depth--;
      inObject = hasBit(levels, depth);
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

function setBit(bits: Uint8Array, at: number, value: boolean): void {
  const byte = bits[at >>> 3] ?? 0;
  bits[at >>> 3] = value ? byte | (1 << (at & 7)) : byte & ~(1 << (at & 7));
}

function hasBit(bits: Uint8Array, at: number): boolean {
  return ((bits[at >>> 3] ?? 0) & (1 << (at & 7))) !== 0;
}

// Each function from here on returns the index after its token, or the complement (~) of the index of the error.

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

function isNumberStart(byte: number | undefined): boolean {
  return byte === MINUS || isDigit(byte);
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= NINE;
}

function isHexDigit(byte: number | undefined): boolean {
  return isDigit(byte) || (byte !== undefined && (byte | LOWER_CASE) >= LETTER_A && (byte | LOWER_CASE) <= LETTER_F);
}

function isLetter(byte: number | undefined, letter: number): boolean {
  return byte !== undefined && (byte | LOWER_CASE) === letter;
}
