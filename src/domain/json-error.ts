/**
 * What to tell the sender of a body that is no JSON: where it goes wrong and, for the mistakes that templates of
 * marketing platforms make, the likely cause and the fix. Repeats no more of the body than one character, since it may
 * hold personal data or secrets.
 */
import { findJsonError } from "./json-check.ts";
import type { JsonError } from "./json-check.ts";

const ENCODE_TOKENS =
  "If a token of your marketing platform stands here, set Request Token Encoding to JSON and put no quotes around the token in the template.";

/** Of an absent value, of the literals of other languages, and so on: what may follow a complete value. */
const VALUE_END = /^\s*(?:[,}\]]|$)/;
const FOREIGN_LITERALS: readonly (readonly [RegExp, string])[] = [
  [/^[+-]?(?:NaN|Infinity|inf)/i, "JSON has no NaN and no Infinity. Send null or leave the field out."],
  [/^(?:undefined|None|nil)/i, "JSON's word for no value is null. Send null or leave the field out."],
  [/^(?:true|false|null)/i, "true, false and null are written in small letters. Write them so, and without quotes."],
];

/** A name and an equals sign: no JSON text begins so. */
const FORM_ENCODED = /^\s*[A-Za-z_%][\w.%+~[\]-]*=/;

/**
 * One or two sentences that name the line, column and character (each from 1, in UTF-16 units) of the first error.
 *
 * @param text one that JSON.parse has refused.
 */
export function explainJsonError(text: string): string {
  const error = findJsonError(text);
  if (error === null) return "The text is valid JSON.";
  return `Not valid JSON at ${place(text, error.position)}: ${explain(text, error)}`;
}

function place(text: string, position: number): string {
  let line = 1;
  let lineStart = 0;
  for (let at = text.indexOf("\n"); at !== -1 && at < position; at = text.indexOf("\n", at + 1)) {
    line++;
    lineStart = at + 1;
  }
  return `line ${line}, column ${position - lineStart + 1} (character ${position + 1})`;
}

function explain(text: string, { position, kind }: JsonError): string {
  if (FORM_ENCODED.test(text)) {
    return "the body is form-encoded (name=value pairs). Set Request Token Encoding to JSON and write the template as a JSON object.";
  }
  const char = characterAt(text, position);
  const before = lastBefore(text, position);
  switch (kind) {
    case "empty":
      return "the text is empty. Send a JSON object.";
    case "truncated":
      return "the text ends in the middle. It was cut off on its way, or a closing quote or bracket is missing at its end.";
    case "text_after_end":
      return char === "{" || char === "["
        ? "another JSON text follows the first one. Only the bulk endpoint takes newline-delimited JSON; elsewhere send several signals as an array."
        : `the JSON text is complete, but ${named(char)} follows. Remove what comes after the last closing bracket.`;
    case "control_character":
      return `there is ${controlName(char)} within a quoted text. ${ENCODE_TOKENS} Else write it as an escape such as \\n, or add the closing quote if it is missing.`;
    case "bad_escape":
      return "a backslash begins no valid escape. Write a backslash that belongs to the text twice (\\\\).";
    case "bad_number":
      return explainNumber(text, position);
    case "value_expected":
      return explainValue(text, position);
    case "name_expected":
      return explainName(text, position);
    case "colon_expected":
      return before === '"' && isDoubledQuote(text, position)
        ? DOUBLED_QUOTE
        : `a colon was expected after the name, but there is ${named(char)}. Names are followed by a colon and a value.`;
    case "comma_expected":
      return explainNeighbour(text, position);
  }
}
