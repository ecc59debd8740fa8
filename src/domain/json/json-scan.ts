/**
 * Finds the depth and the elements of a JSON text in one pass over its UTF-8 bytes, without parsing it (design §9: each
 * signal keeps its original text). Runs over every request body: no recursion, no allocation per character.
 *
 * The scan does not validate. Its results are meaningful only if each slice is JSON, and if the text around the array,
 * with `[]` in its place, is JSON.
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

export const QUOTE = 0x22;
export const COMMA = 0x2c;
export const ZERO = 0x30;
export const OPEN_BRACKET = 0x5b;
export const BACKSLASH = 0x5c;
export const CLOSE_BRACKET = 0x5d;
export const LETTER_U = 0x75;
export const OPEN_BRACE = 0x7b;
export const CLOSE_BRACE = 0x7d;

const BATCH = new TextEncoder().encode("batch");

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
