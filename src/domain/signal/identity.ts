/**
 * Emails and ids that identify a person (design §8.3). An id that a broken sender gives to everyone must
 * never link, or strangers would become the same person.
 */
import { EMAIL_MAX_LENGTH, IDENTITY_MAX_LENGTH } from "../../limits.ts";
import { hashAtOnce } from "../../platform/hashes.ts";
import { isAbsent, isExact } from "../json/json-value.ts";
import { holdsKey } from "../keys/api-key.ts";
import type { Traits } from "./traits.ts";

/** Words that senders write instead of a missing id, in lower case. */
const WORTHLESS_WORDS: ReadonlySet<string> = new Set(
  (
    "null|undefined|nil|none|nan|infinity|-infinity|true|false|-1|n/a|na|(null)|(none)|(not set)|[object object]|" +
    "anonymous|anon|unknown|guest|visitor|not_authenticated|id|user|userid|user_id|anonymousid|anonymous_id|" +
    "distinctid|distinct_id|email"
  ).split("|"),
);

/** Unfilled placeholders of templates: `{{lead.Id}}`, `${id}`, `*|ID|*`, `%id%`, `<%= id %>`. */
const UNFILLED_PLACEHOLDER = /\{\{|\$\{|\*\||^<?%.*%>?$/s;
/** Zeros, a zero UUID, `{}` and `---` have none. */
const DISTINGUISHING_CHARACTER = /[1-9\p{L}]/u;

export function isWorthlessId(id: string): boolean {
  const text = id.trim();
  return (
    (text.length <= 1 && !/[1-9]/.test(text)) ||
    text.length > IDENTITY_MAX_LENGTH ||
    !DISTINGUISHING_CHARACTER.test(text) ||
    UNFILLED_PLACEHOLDER.test(text) ||
    // Half a surrogate pair is stored as U+FFFD, so different ids would become the same.
    !text.isWellFormed() ||
    WORTHLESS_WORDS.has(text.toLowerCase()) ||
    holdsKey(text)
  );
}

/**
 * An id in the form that links: trimmed, a number as its decimal text; undefined if missing or worthless. A number that
 * JSON.parse rounded is worthless, because different ids round to the same number.
 */
export function usableId(value: unknown): string | undefined {
  if (typeof value === "number") {
    return isExact(value) ? usableId(String(value)) : undefined;
  }
  return typeof value === "string" && !isWorthlessId(value) ? value.trim() : undefined;
}

const EMAIL_SHAPE = /^[^\s\p{Cc}@]+@[^\s\p{Cc}@]+$/u;
/** Characters that turn an apparent address into a link, such as `https://evil.example/sign-in#@x.co`. */
const LINK_CHARACTER = /[/:<>]/;

export function hasEmailShape(text: string): boolean {
  return text.length <= EMAIL_MAX_LENGTH && EMAIL_SHAPE.test(text) && text.isWellFormed();
}

export function isPlausibleEmail(text: string): boolean {
  return hasEmailShape(text) && !LINK_CHARACTER.test(text) && !holdsKey(text);
}

/** Explains in a sentence why a signal's email is unusable. Null: it is usable or absent. */
export function emailProblem(value: unknown): string | null {
  if (isAbsent(value)) return null;
  if (typeof value !== "string") return "Its email is not a text, so it names nobody.";
  const address = value.trim();
  if (isPlausibleEmail(address)) return null;
  if (holdsKey(address)) return "Its email holds an API key, so it names nobody.";
  return hasEmailShape(address)
    ? 'Its email has a "/", ":", "<" or ">", which no address of a person may have, so it names nobody.'
    : "Its email is not an email address, so it names nobody.";
}

/** The form in which emails are stored and compared. Does not check that the text is an email. */
export function emailAsStored(text: string): string {
  return text.trim().toLowerCase();
}

/** Design §8.1. Undefined: the value names no person. */
export function normaliseEmail(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  const email = emailAsStored(value);
  return isPlausibleEmail(email) ? email : undefined;
}

const ASIAN_WITH_LATIN = "Latin Han Hiragana Katakana Bopomofo Hangul";
const ALONE =
  "Arabic Armenian Bengali Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Hebrew Kannada Khmer Lao " +
  "Malayalam Myanmar Oriya Sinhala Tamil Telugu Thaana Thai Tibetan";
/** The scripts in everyday use (UAX 31, Table 5). An address may mix only the scripts of one entry. */
const SCRIPTS = [ASIAN_WITH_LATIN, ...ALONE.split(" ")];
/** Created on first use: it takes milliseconds, and most addresses are ASCII. */
let ofScripts: RegExp[] | undefined;

function hasOneScript(text: string): boolean {
  if (/^\p{ASCII}*$/u.test(text)) return true;
  ofScripts ??= SCRIPTS.map((names) => {
    const letters = names.replaceAll(/(\w+) ?/g, String.raw`\p{Script=$1}`);
    return new RegExp(String.raw`^[${letters}\p{Script=Common}\p{Script=Inherited}]*$`, "u");
  });
  return ofScripts.some((script) => script.test(text));
}

/**
 * The normalised address of a member or of a user who signs in; undefined if it could be confused with another address:
 * by Unicode normalisation (such as a Kelvin sign for a K), by invisible characters (Cf), or by mixed scripts, such as a
 * Cyrillic а. The top-level domain may use another script.
 */
export function memberEmail(value: unknown): string | undefined {
  if (typeof value !== "string" || value.trim().length > EMAIL_MAX_LENGTH) return undefined;
  if (value !== value.normalize("NFKC") || /\p{Cf}/u.test(value)) return undefined;
  const email = normaliseEmail(value);
  return email !== undefined && hasOneScript(withoutTopLevel(email)) ? email : undefined;
}

function withoutTopLevel(email: string): string {
  const dot = email.lastIndexOf(".");
  return dot > email.lastIndexOf("@") ? email.slice(0, dot) : email;
}

export function hashOfName({ kind, value }: { kind: "email" | "anonymous_id" | "user_id"; value: string }): string {
  return hashAtOnce(`${kind} ${value}`).digest("base64url");
}

/** A shorter name may occur in a source by chance. */
const NAME_MIN_LENGTH = 3;

interface NamesOfSignal {
  email?: string | null;
  userId?: string | null;
  anonymousId?: string | null;
  traits: Traits;
}

/**
 * The source of the event group that counts a signal. Empty if the source names the signal's person (`newsletter for
 * ann@example.com`), because the group outlives the signal.
 */
export function groupSource(source: string, { email, userId, anonymousId, traits }: NamesOfSignal): string {
  if (source.includes("@")) return "";
  const names = [email?.split("@")[0], userId, anonymousId, traits.name, ...(traits.name?.split(/\s+/) ?? [])];
  const text = source.toLowerCase();
  const isNamed = names.some((name) => name && name.length >= NAME_MIN_LENGTH && hasWords(text, name.toLowerCase()));
  return isNamed ? "" : source;
}

function hasWords(text: string, words: string): boolean {
  for (let at = text.indexOf(words); at !== -1; at = text.indexOf(words, at + 1)) {
    if (!isLetter(text.slice(0, at).at(-1)) && !isLetter(text[at + words.length])) return true;
  }
  return false;
}

function isLetter(character: string | undefined): boolean {
  return character !== undefined && /[\p{L}\p{N}]/u.test(character);
}
