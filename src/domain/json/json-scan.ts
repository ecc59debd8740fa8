/**
 * Depth and element slices of a JSON text in one pass, without parsing it (design §9: each signal keeps the text it came
 * as). Runs over every request body: no recursion, nothing allocated per character. Of a text that is no JSON the results
 * mean nothing by themselves: but where each slice is JSON, and what is around the array with `[]` in its place, all is.
 */

/** The elements of an array: each one's slice [starts[i], ends[i]) without white space around it, and its own depth. */
export interface ItemSpans {
  /** Of the first `max` elements. */
  starts: number[];
  ends: number[];
  depths: number[];
  /** How many there are. */
  count: number;
  /** The array's own slice, with its brackets. */
  open: number;
  close: number;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** Levels of nesting: a scalar has 0, `{}` 1, `{"a":{}}` 2. */
export function jsonDepth(text: string): number {
  let depth = 0;
  let deepest = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) {
      at = closingQuote(text, at);
    } else if (unit === OPEN_BRACE || unit === OPEN_BRACKET) {
      depth++;
      if (depth > deepest) deepest = depth;
    } else if (unit === CLOSE_BRACE || unit === CLOSE_BRACKET) {
      depth--;
    }
  }
  return deepest;
}

/**
 * The elements of the array that the text is ("array"), or of the array at the object's own key `batch` ("batch"). Of
 * several such keys the last one counts, as in JSON.parse, also where one is written with escapes. Null when there is no
 * such array.
 *
 * @param max elements whose slices are kept; those beyond are counted.
 */
export function scanItems(text: string, where: "array" | "batch", max: number): ItemSpans | null {
  if (where === "batch") return scanBatch(text, max);
  const open = skipSpace(text, 0);
  return text.charCodeAt(open) === OPEN_BRACKET ? scanArray(text, open, max) : null;
}

function scanBatch(text: string, max: number): ItemSpans | null {
  let items: ItemSpans | null = null;
  let depth = 0;
  let keyNext = false;
  let inBatch = false;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) {
      const end = closingQuote(text, at);
      if (keyNext) {
        keyNext = false;
        inBatch = isBatchKey(text, at, end);
        if (inBatch) items = null;
      }
      at = end;
    } else if (unit === OPEN_BRACKET && depth === 1 && inBatch) {
      items = scanArray(text, at, max);
      if (items === null) return null;
      at = items.close - 1;
    } else if (unit === OPEN_BRACE || unit === OPEN_BRACKET) {
      depth++;
      keyNext = depth === 1 && unit === OPEN_BRACE;
    } else if (unit === CLOSE_BRACE || unit === CLOSE_BRACKET) {
      depth--;
    } else if (unit === COMMA) {
      keyNext = depth === 1;
    }
  }
  return items;
}

/** The elements of the array that opens at `open`; null where it does not close. */
function scanArray(text: string, open: number, max: number): ItemSpans | null {
  const items: ItemSpans = { starts: [], ends: [], depths: [], count: 0, open, close: text.length };
  let start = skipSpace(text, open + 1);
  if (text.charCodeAt(start) === CLOSE_BRACKET) return { ...items, close: start + 1 };
  let depth = 0;
  let deepest = 0;
  for (let at = start; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) {
      at = closingQuote(text, at);
    } else if (unit === OPEN_BRACE || unit === OPEN_BRACKET) {
      depth++;
      if (depth > deepest) deepest = depth;
    } else if (depth > 0) {
      if (unit === CLOSE_BRACE || unit === CLOSE_BRACKET) depth--;
    } else if (unit === COMMA || unit === CLOSE_BRACKET) {
      if (items.count++ < max) {
        items.starts.push(start);
        items.ends.push(withoutSpaceBefore(text, at));
        items.depths.push(deepest);
      }
      if (unit === CLOSE_BRACKET) return { ...items, close: at + 1 };
      start = skipSpace(text, at + 1);
      // What stands there may be a comma or the end: an element that is none.
      at = start - 1;
      deepest = 0;
    }
  }
  return null;
}

/** Where the string that opens at `open` closes: at the first quote after an even number of backslashes. */
function closingQuote(text: string, open: number): number {
  for (let at = text.indexOf('"', open + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let before = at - 1;
    while (text.charCodeAt(before) === BACKSLASH) before--;
    if ((at - before) % 2 === 1) return at;
  }
  return text.length;
}

function isBatchKey(text: string, open: number, close: number): boolean {
  const key = text.slice(open + 1, close);
  return key === "batch" || (key.includes("\\") && unescaped(key) === "batch");
}

/** Null where it is no string's text. */
function unescaped(text: string): unknown {
  try {
    return JSON.parse(`"${text}"`);
  } catch {
    return null;
  }
}

/** The first index from `from` on that holds no white space. */
export function skipSpace(text: string, from: number): number {
  let at = from;
  while (isSpace(text.charCodeAt(at))) at++;
  return at;
}

/** The same backwards: the end of what stands before `end` without its white space. */
export function withoutSpaceBefore(text: string, end: number): number {
  let at = end;
  while (isSpace(text.charCodeAt(at - 1))) at--;
  return at;
}

function isSpace(unit: number): boolean {
  return unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09;
}
