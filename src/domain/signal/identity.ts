/**
 * What may name a person: email addresses and ids (design §8.3). Ids that a broken sender gives to everybody must never
 * link anybody, or strangers would become one person.
 */
import { EMAIL_MAX_LENGTH, IDENTITY_MAX_LENGTH } from "../../limits.ts";

/** Words that senders put where an id is missing, in lower case. */
const WORTHLESS_WORDS: ReadonlySet<string> = new Set([
  "null",
  "undefined",
  "nil",
  "none",
  "nan",
  "infinity",
  "-infinity",
  "true",
  "false",
  "-1",
  "n/a",
  "na",
  "(null)",
  "(none)",
  "(not set)",
  "[object object]",
  "anonymous",
  "anon",
  "unknown",
  "guest",
  "visitor",
  "not_authenticated",
  "id",
  "user",
  "userid",
  "user_id",
  "anonymousid",
  "anonymous_id",
  "distinctid",
  "distinct_id",
  "email",
]);

/** Placeholders that the sender's template engine did not fill: `{{lead.Id}}`, `${id}`, `*|ID|*`, `%id%`, `<%= id %>`. */
const UNFILLED_PLACEHOLDER = /\{\{|\$\{|\*\||^<?%.*%>?$/s;
/** A character that tells one id from another: zeros, a zero UUID, `{}` and `---` have none. */
const DISTINGUISHING_CHARACTER = /[1-9\p{L}]/u;

/**
 * Whether `id` must link nobody: empty, one character that is no digit, a filler word, zeros, an unfilled placeholder,
 * half a character in it, or too long.
 */
export function isWorthlessId(id: string): boolean {
  const text = id.trim();
  return (
    (text.length <= 1 && !/[1-9]/.test(text)) ||
    text.length > IDENTITY_MAX_LENGTH ||
    !DISTINGUISHING_CHARACTER.test(text) ||
    UNFILLED_PLACEHOLDER.test(text) ||
    // Half a character cannot be stored as it is; different ones would become the same.
    !text.isWellFormed() ||
    WORTHLESS_WORDS.has(text.toLowerCase())
  );
}

/**
 * An id as it links: trimmed, letter case kept, a number as its decimal text; undefined where it is missing or worthless.
 * Whole numbers that JSON.parse had to round are worthless too, because different ids round to the same one.
 */
export function usableId(value: unknown): string | undefined {
  if (typeof value === "number") {
    return Math.abs(value) <= Number.MAX_SAFE_INTEGER ? usableId(String(value)) : undefined;
  }
  return typeof value === "string" && !isWorthlessId(value) ? value.trim() : undefined;
}

const EMAIL_SHAPE = /^[^\s\p{Cc}@]+@[^\s\p{Cc}@]+$/u;

/** An address has one `@` with something on both sides, no white space, control or half characters, at most EMAIL_MAX_LENGTH. */
export function isPlausibleEmail(text: string): boolean {
  return text.length <= EMAIL_MAX_LENGTH && EMAIL_SHAPE.test(text) && text.isWellFormed();
}

/** An address trimmed and lower-cased (design §8.1); undefined where there is no plausible one. */
export function normaliseEmail(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  const email = value.trim().toLowerCase();
  return isPlausibleEmail(email) ? email : undefined;
}

/**
 * The address of somebody who signs in or is a member, as `normaliseEmail` has it. One that Unicode takes for another (NFKC),
 * such as with a Kelvin sign for a K, is nobody's: it would become that other one.
 */
export function memberEmail(value: unknown): string | undefined {
  return typeof value === "string" && value === value.normalize("NFKC") ? normaliseEmail(value) : undefined;
}
