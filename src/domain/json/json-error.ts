/**
 * Finds the first error of an invalid JSON body and explains it to the sender: the place and, for typical mistakes in
 * templates of marketing platforms, the likely cause and the fix. Repeats at most one character of the body, because
 * the body may hold personal data or secrets.
 */
import { skipSpace, withoutSpaceBefore, type JsonError, type JsonErrorKind } from "./json-scan.ts";

const AROUND_BYTES = 100;

const decoder = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });

const ENCODE_TOKENS =
  "If a token of your marketing platform stands here, set Request Token Encoding to JSON and write the token without quotes in the template.";
const QUOTED_TWICE = `a text is quoted twice. ${ENCODE_TOKENS}`;
const QUOTE_WITHIN = `a quoted text ends here, but more of it follows: a quote within a text is written \\". ${ENCODE_TOKENS}`;
const MISSING_COMMA = "a comma is missing before this. Put one between every two entries.";

/** Beginnings of form bodies: a name and an equals sign, or a boundary and a part's header. */
const FORM_BODIES: readonly (readonly [RegExp, string])[] = [
  [
    /^[A-Za-z_%][\w.%+~[\]-]*=/,
    "the body is form-encoded (name=value pairs). Set Request Token Encoding to JSON and write the template as a JSON object.",
  ],
  [/^--[^\r\n]+\r?\nContent-/i, "the body is multipart/form-data. Send a JSON object instead."],
];
const FORM_BEGINNING_MAX_BYTES = 1_000;
const UNLABELLED_GZIP =
  "the body is compressed, and no header says so. Send `Content-Encoding: gzip` with it, or send it plain.";

const UTF_16 = "the body is UTF-16. JSON is UTF-8: send it in that encoding.";

/** Values that other languages have and JSON does not. */
const FOREIGN_VALUES: readonly (readonly [RegExp, string])[] = [
  [/^(?:NaN|[+-]?Infinity)\s*(?:[,\]}]|$)/i, "JSON has no NaN and no Infinity. Send null, or leave the entry out."],
  [/^(?:undefined|None|nil)\s*(?:[,\]}]|$)/i, "JSON's word for no value is null. Send that, or leave the entry out."],
  [/^(?:true|false|null)\s*(?:[,\]}]|$)/i, "true, false and null are written in small letters."],
];
const FOREIGN_VALUE_MAX_LENGTH = 20;

/**
 * Describes the first error of the UTF-8 text [start, end) in one to three sentences: its line, column and character
 * (from 1, in UTF-16 units), the mistake and the fix.
 *
 * @param ofLine the number of the body's line, if the text is one of several lines; the character is then left out.
 */
export function describeJsonError(
  bytes: Uint8Array,
  start: number,
  end: number,
  error: JsonError | null,
  ofLine?: number,
): string {
  if (error === null) throw new Error("the text is JSON");
  const { text, position } = textAround(bytes, start, end, error.position);
  const found = characterInWords(text, position);
  const explained = explainOtherFormat(bytes, start, end) ?? EXPLAIN[error.kind](text, position, found);
  return `Not valid JSON at ${describePlace(bytes, start, error.position, ofLine)}: ${explained}`;
}

/**
 * The line and column of a byte's position. A single pass counts lines and UTF-16 units, because decoding 8 MB takes
 * longer. A byte that is not UTF-8 may shift the column by one.
 */
export function describePlace(bytes: Uint8Array, start: number, position: number, ofLine?: number): string {
  let line = ofLine ?? 1;
  let units = 0;
  let lineStart = 0;
  for (let at = start; at < position; at++) {
    const byte = bytes[at] ?? 0;
    if (byte < 0x80 || byte >= 0xc0) units++;
    // A character of four bytes is two UTF-16 units.
    if (byte >= 0xf0 && isWithinCharacter(bytes[at + 1])) units++;
    if (byte !== 0x0a) continue;
    line++;
    lineStart = units;
  }
  const column = units - lineStart + 1;
  return `line ${line}, column ${column}${ofLine === undefined ? ` (character ${units + 1})` : ""}`;
}

/** The text around the error, and the error's index in that text. Shortens white space before the error. */
function textAround(
  bytes: Uint8Array,
  start: number,
  end: number,
  position: number,
): { text: string; position: number } {
  const spaceFrom = withoutSpaceBefore(bytes, position, start);
  let from = Math.max(start, spaceFrom - AROUND_BYTES);
  while (from > start && isWithinCharacter(bytes[from])) from--;
  const before = slice(bytes, from, spaceFrom) + slice(bytes, Math.max(spaceFrom, position - AROUND_BYTES), position);
  return { text: before + slice(bytes, position, Math.min(end, position + AROUND_BYTES)), position: before.length };
}

function isWithinCharacter(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}

/** Windows-1252 has letters and punctuation where ISO 8859-1 has control characters, which no sender uses. */
const WINDOWS_1252_FROM = 0x80;
const WINDOWS_1252_TO = 0x9f;

/** Says where the first byte of a text is that is not UTF-8 (RFC 8259 §8.1), and which encoding the text probably has. */
export function describeInvalidByte(bytes: Uint8Array, start: number, end: number): string {
  let at = start;
  while (at < end) {
    const length = characterLength(bytes, at, end);
    if (length === 0) break;
    at += length;
  }
  const byte = bytes[at] ?? 0;
  const hex = byte.toString(16).toUpperCase().padStart(2, "0");
  const likely = byte >= WINDOWS_1252_FROM && byte <= WINDOWS_1252_TO ? "Windows-1252" : "ISO 8859-1 or Windows-1252";
  return `Byte ${at + 1} of the body, 0x${hex}, is not UTF-8. JSON is UTF-8: convert the text, which seems to be ${likely}.`;
}

/** Bytes of the UTF-8 character at a position (Unicode, Table 3-7); 0: there is none. */
function characterLength(bytes: Uint8Array, at: number, end: number): number {
  const [first = 0, second = 0] = [bytes[at], bytes[at + 1]];
  if (first < 0x80) return 1;
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || at + length > end) return 0;
  const lowest = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
  const highest = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
  if (second < lowest || second > highest) return 0;
  for (let next = at + 2; next < at + length; next++) if (!isWithinCharacter(bytes[next])) return 0;
  return length;
}

/** UTF-16 begins with a mark, or writes the first bracket with a zero byte. */
function isUtf16(bytes: Uint8Array, start: number): boolean {
  const [first, second] = [bytes[start], bytes[start + 1]];
  const isMarked = (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);
  return isMarked || (first === 0x00 && isBracket(second)) || (second === 0x00 && isBracket(first));
}

function isBracket(byte: number | undefined): boolean {
  return byte === 0x7b || byte === 0x5b;
}

function explainOtherFormat(bytes: Uint8Array, start: number, end: number): string | undefined {
  if (isUtf16(bytes, start)) return UTF_16;
  if (bytes[start] === 0x1f && bytes[start + 1] === 0x8b) return UNLABELLED_GZIP;
  const first = skipSpace(bytes, start, end);
  const beginning = slice(bytes, first, Math.min(end, first + FORM_BEGINNING_MAX_BYTES));
  return FORM_BODIES.find(([pattern]) => pattern.test(beginning))?.[1];
}

function slice(bytes: Uint8Array, start: number, end: number): string {
  return decoder.decode(bytes.subarray(start, end));
}

type Explain = (text: string, position: number, found: string) => string;

const EXPLAIN: Record<JsonErrorKind, Explain> = {
  empty: () => "the text is empty. Send a JSON object.",
  truncated: () => "the text ends in the middle. It was cut off on its way, or its last quote or bracket is missing.",
  text_after_end: (text, position, found) =>
    /[{[]/.test(text.charAt(position))
      ? "another JSON text follows the first. Newline-delimited JSON is for the bulk endpoint; elsewhere send several signals as one array."
      : `the JSON text is complete, but ${found} follows. Remove what stands after its end.`,
  control_character: (_text, _position, found) =>
    `${found} stands within a quoted text, or the closing quote before it is missing. ${ENCODE_TOKENS} Otherwise write a line break as \\n.`,
  bad_escape: () =>
    `a backslash stands before something that is no escape. Write a backslash that belongs to the text twice. ${ENCODE_TOKENS}`,
  bad_number: explainValue,
  value_expected: explainValue,
  name_expected: explainName,
  colon_expected: (text, position, found) =>
    endsEmptyString(text, position)
      ? QUOTED_TWICE
      : `a colon was expected after the name, but there is ${found}. Write each entry as "name": value.`,
  comma_expected: explainNeighbours,
};

function explainValue(text: string, position: number, found: string): string {
  const char = text.charAt(position);
  const before = lastBefore(text, position);
  const foreign = foreignValue(text, position);
  if (foreign !== null) return foreign;
  if (isQuoteLike(char)) return explainName(text, position, found);
  if (/\d/.test(char) && text.charAt(position - 1) === "0") {
    return `a number begins with a zero. Put it in quotes if the zeros matter. ${ENCODE_TOKENS}`;
  }
  if (char === "]" && before === ",") return "there is a comma after the last entry. Remove it.";
  if (/[,\]}]/.test(char)) return `a value is missing before ${found}. ${ENCODE_TOKENS}`;
  if (before === "") return `a JSON text cannot begin with ${found}. Send a JSON object.`;
  return `a text stands without quotes; it goes wrong at ${found}. ${ENCODE_TOKENS}`;
}

function explainName(text: string, position: number, found: string): string {
  const char = text.charAt(position);
  if (char === "{" && text.charAt(position - 1) === "{") {
    return "a token in double braces was not replaced by its value. Check the token's name in the template, and that the platform fills tokens in this call.";
  }
  if (isQuoteLike(char)) return `there is ${found}. JSON takes straight double quotes (") only.`;
  if (char === "}" && lastBefore(text, position) === ",") return "there is a comma after the last entry. Remove it.";
  return `a name in double quotes was expected, but there is ${found}. Write each entry as "name": value.`;
}

function explainNeighbours(text: string, position: number, found: string): string {
  const char = text.charAt(position);
  const before = lastBefore(text, position);
  if (endsEmptyString(text, position)) return QUOTED_TWICE;
  if (/[\]}]/.test(char)) return `${found} closes what another kind of bracket has opened. Make the brackets match.`;
  if (/["{[]/.test(char) && text.charAt(position - 1) !== '"') return MISSING_COMMA;
  if (before === '"') return QUOTE_WITHIN;
  if (/[\]}]/.test(before)) return `a comma or a closing bracket was expected, but there is ${found}.`;
  return `a text stands without quotes; it goes wrong at ${found}. ${ENCODE_TOKENS}`;
}

function foreignValue(text: string, position: number): string | null {
  const start = /[+-]/.test(text.charAt(position - 1)) ? position - 1 : position;
  const value = text.slice(start, start + FOREIGN_VALUE_MAX_LENGTH);
  return FOREIGN_VALUES.find(([pattern]) => pattern.test(value))?.[1] ?? null;
}

/** Whether an empty string ends right before `position`. */
function endsEmptyString(text: string, position: number): boolean {
  return text.slice(position - 2, position) === '""' && text.charAt(position - 3) !== "\\";
}

function lastBefore(text: string, position: number): string {
  let at = position - 1;
  while (/[ \n\r\t]/.test(text.charAt(at))) at--;
  return text.charAt(at);
}

function isQuoteLike(char: string): boolean {
  return /['`‘’“”„«»]/.test(char);
}

function characterInWords(text: string, position: number): string {
  const code = text.codePointAt(position) ?? 0;
  const char = String.fromCodePoint(code);
  if (char === "\n" || char === "\r") return "a line break";
  if (char === "\t") return "a tab";
  if (char === "'") return "a single quote";
  if (char === '"') return "a double quote";
  if (/^[\p{L}\p{N}\p{P}\p{S}]$/u.test(char)) return `"${char}"`;
  return `an invisible character (U+${code.toString(16).toUpperCase().padStart(4, "0")})`;
}
