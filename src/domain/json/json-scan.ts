/**
 * Depth and elements of a JSON text in one pass over its UTF-8 bytes, without parsing it (design §9: each signal keeps the
 * text it came as). All that matters here is ASCII, which in UTF-8 stands for nothing else, and a large body is never made
 * into one text. Runs over every request body: no recursion, nothing allocated per character. The scan does not validate: its results
 * mean something only if each slice is JSON, and if what is around the array is JSON with `[]` in the array's place.
 */

/** The elements of an array: each one's slice [starts[i], ends[i]) without white space around it, and its own depth. */
export interface ItemSpans {
  /** Where the first `max` elements begin; `ends` and `depths` are of the same elements. */
  starts: number[];
  ends: number[];
  depths: number[];
  /** How many elements the array has. */
  count: number;
  /** The array's own slice, with its brackets. */
  open: number;
  close: number;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const ZERO = 0x30;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const LETTER_U = 0x75;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

const BATCH = new TextEncoder().encode("batch");

/**
 * Levels of nesting of [start, end): a scalar has 0, `{}` 1, `{"a":{}}` 2.
 *
 * @param max the scan stops at the first level beyond it, and returns that level.
 */
export function jsonDepth(bytes: Uint8Array, start: number, end: number, max = Number.POSITIVE_INFINITY): number {
  let depth = 0;
  let deepest = 0;
  for (let at = start; at < end; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      at = closingQuote(bytes, at, end);
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      depth++;
      if (depth > deepest) deepest = depth;
      if (depth > max) return deepest;
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      depth--;
    }
  }
  return deepest;
}

/**
 * How deep a JSON text is nested, and how many values it has at most: one for each comma and each opening bracket. The scan
 * stops at the first level beyond `maxDepth`, or value beyond `maxValues`.
 */
export function jsonShape(
  bytes: Uint8Array,
  { maxDepth, maxValues }: { maxDepth: number; maxValues: number },
): { depth: number; values: number } {
  const end = bytes.length;
  let depth = 0;
  let deepest = 0;
  let values = 0;
  for (let at = 0; at < end && deepest <= maxDepth && values <= maxValues; at++) {
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
 * The elements of the array that the text is ("array"), or of the array at the object's own key `batch` ("batch"). Of
 * several such keys the last one counts, as in JSON.parse, also where one is written with escapes. Null when there is no
 * such array.
 *
 * @param max elements whose slices are kept; those beyond are counted.
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
  // To ask for the length of bytes takes as long as to look at one.
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

/** The elements of the array that opens at `open`; null where it does not close. */
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
      // No element stands here: there may be a comma or the end.
      at = start - 1;
      deepest = 0;
    }
  }
  return null;
}

/** Whether the array, object or string that begins the text ends where the text does, but for white space. */
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

/** Where the string that opens at `open` closes; `end` where it does not. */
function closingQuote(bytes: Uint8Array, open: number, end: number): number {
  for (let at = open + 1; at < end; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) return at;
    if (byte === BACKSLASH) at++;
  }
  return end;
}

/** Whether the string is `batch`, with or without escapes. Nothing is decoded: an object may have millions of keys. */
function isBatchKey(bytes: Uint8Array, open: number, close: number): boolean {
  let at = open + 1;
  for (const letter of BATCH) {
    if (bytes[at] === letter) at++;
    else if (isEscapeOf(letter, bytes, at)) at += 6;
    else return false;
  }
  return at === close;
}

/** Whether the letter stands there as an escape, such as `\u0062`. All of `batch` have decimal digits there. */
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

/** The first index from `from` on that holds no white space. */
export function skipSpace(bytes: Uint8Array, from: number, end = bytes.length): number {
  let at = from;
  while (at < end && isSpace(bytes[at])) at++;
  return at;
}

/** The end of what stands before `end` without the white space behind it; no further back than `start`. */
export function withoutSpaceBefore(bytes: Uint8Array, end: number, start = 0): number {
  let at = end;
  while (at > start && isSpace(bytes[at - 1])) at--;
  return at;
}

/** Whether the byte is white space of JSON. */
export function isSpace(byte: number | undefined): boolean {
  return byte !== undefined && byte <= 0x20 && (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09);
}
