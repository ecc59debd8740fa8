/**
 * Where a text stops being JSON (RFC 8259), as strictly as JSON.parse. For texts that JSON.parse has refused, since the
 * message of an engine often has no position. No recursion: a body may be nested as deep as it is long.
 */

export type JsonErrorKind =
  /** Nothing but white space. */
  | "empty"
  /** The text ends within a string, an object or an array. */
  | "truncated"
  /** No value begins here. */
  | "value_expected"
  /** No name in double quotes begins here. */
  | "name_expected"
  | "colon_expected"
  /** Neither a comma nor the bracket that closes. */
  | "comma_expected"
  /** The value was complete. */
  | "text_after_end"
  | "control_character"
  | "bad_escape"
  | "bad_number";

export interface JsonError {
  /** Index of the first UTF-16 unit that cannot stand there; the text's length where it ends too early. */
  position: number;
  kind: JsonErrorKind;
}

/** What the grammar takes next; "item" and "name" also take the bracket that closes an empty array or object. */
type Expected = "value" | "item" | "name" | "name_after_comma" | "colon" | "comma" | "nothing";

const WORDS = ["true", "false", "null"];

/** The first error, null where JSON.parse would take the text. */
export function findJsonError(text: string): JsonError | null {
  const objects = new Levels(text.length);
  let depth = 0;
  let expected: Expected = "value";
  for (let at = skipSpace(text, 0); ; at = skipSpace(text, at)) {
    if (at >= text.length) {
      if (expected === "nothing") return null;
      return { position: text.length, kind: depth === 0 ? "empty" : "truncated" };
    }
    const char = text.charAt(at);
    const inObject = depth > 0 && objects.has(depth);
    if (expected === "nothing") return { position: at, kind: "text_after_end" };
    if (
      (expected === "item" && char === "]") ||
      (expected === "name" && char === "}") ||
      (expected === "comma" && char === (inObject ? "}" : "]"))
    ) {
      at++;
      depth--;
      expected = depth === 0 ? "nothing" : "comma";
    } else if (expected === "comma") {
      if (char !== ",") return { position: at, kind: "comma_expected" };
      at++;
      expected = inObject ? "name_after_comma" : "value";
    } else if (expected === "colon") {
      if (char !== ":") return { position: at, kind: "colon_expected" };
      at++;
      expected = "value";
    } else if (expected === "name" || expected === "name_after_comma") {
      if (char !== '"') return { position: at, kind: "name_expected" };
      const end = afterString(text, at);
      if (end < 0) return errorInString(text, ~end);
      at = end;
      expected = "colon";
    } else if (char === "{" || char === "[") {
      at++;
      depth++;
      objects.set(depth, char === "{");
      expected = char === "{" ? "name" : "item";
    } else {
      const end =
        char === '"' ? afterString(text, at) : isNumberStart(char) ? afterNumber(text, at) : afterWord(text, at);
      if (end < 0) {
        const position = ~end;
        if (position === text.length) return { position, kind: "truncated" };
        if (char === '"') return errorInString(text, position);
        return { position, kind: isNumberStart(char) ? "bad_number" : "value_expected" };
      }
      at = end;
      expected = depth === 0 ? "nothing" : "comma";
    }
  }
}

/** Which levels of nesting are objects: one bit each, since there may be as many as characters. */
class Levels {
  readonly #bits: Uint8Array;

  constructor(max: number) {
    this.#bits = new Uint8Array((max >>> 3) + 1);
  }

  set(level: number, on: boolean): void {
    const bit = 1 << (level & 7);
    const byte = this.#bits[level >>> 3] ?? 0;
    this.#bits[level >>> 3] = on ? byte | bit : byte & ~bit;
  }

  has(level: number): boolean {
    return ((this.#bits[level >>> 3] ?? 0) & (1 << (level & 7))) !== 0;
  }
}

// Each of these returns the index after the token, or the complement (~) of the index where it goes wrong.

function afterString(text: string, open: number): number {
  for (let at = open + 1; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === 0x22) return at + 1;
    if (unit < 0x20) return ~at;
    if (unit === 0x5c) {
      const length = escapeLength(text, at);
      if (length === 0) return at + 6 > text.length && isPrefixOfEscape(text, at) ? ~text.length : ~at;
      at += length - 1;
    }
  }
  return ~text.length;
}
