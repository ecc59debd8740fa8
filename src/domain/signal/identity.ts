/**
 * What may name a person: email addresses and ids (design §8.3). Ids that a broken sender gives to everybody must never
 * link anybody, or strangers would become one person.
 */
import { EMAIL_MAX_LENGTH, IDENTITY_MAX_LENGTH } from "../../limits.ts";
import { hashAtOnce } from "../../platform/hashes.ts";
import { isAbsent } from "../json/json-value.ts";
import { holdsKey } from "../keys/api-key.ts";
import type { Traits } from "./traits.ts";

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
 * half a character in it, an API key in it, or too long.
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
    WORTHLESS_WORDS.has(text.toLowerCase()) ||
    // Ids are shown, and a key that is sent as everybody's id would make strangers one person.
    holdsKey(text)
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

/** One `@` with something on both sides, and no white space or control characters. */
const EMAIL_SHAPE = /^[^\s\p{Cc}@]+@[^\s\p{Cc}@]+$/u;
/** Characters that make a link of what reads like an address, such as `https://evil.example/sign-in#@x.co`. */
const LINK_CHARACTER = /[/:<>]/;

/** Whether a text has the form of an address, has no half characters, and at most EMAIL_MAX_LENGTH characters. */
export function hasEmailShape(text: string): boolean {
  return text.length <= EMAIL_MAX_LENGTH && EMAIL_SHAPE.test(text) && text.isWellFormed();
}

/** Whether a text may be somebody's address: it has the form of one, no `/`, `:`, `<` or `>`, and no API key in it. */
export function isPlausibleEmail(text: string): boolean {
  return hasEmailShape(text) && !LINK_CHARACTER.test(text) && !holdsKey(text);
}

/** Why a signal's email names nobody, as a sentence; null: it names somebody, or is absent. */
export function emailProblem(value: unknown): string | null {
  if (isAbsent(value)) return null;
  if (typeof value !== "string") return "Its email is no text, so it names nobody.";
  const address = value.trim();
  if (isPlausibleEmail(address)) return null;
  if (holdsKey(address)) return "Its email holds an API key, so it names nobody.";
  return hasEmailShape(address)
    ? 'Its email has a "/", ":", "<" or ">", as no address of a person may here, so it names nobody.'
    : "Its email is not an email address, so it names nobody.";
}

/** An address trimmed and lower-cased (design §8.1); undefined where there is no plausible one. */
export function normaliseEmail(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  const email = value.trim().toLowerCase();
  return isPlausibleEmail(email) ? email : undefined;
}

const ASIAN_WITH_LATIN = "Latin Han Hiragana Katakana Bopomofo Hangul";
const ALONE =
  "Arabic Armenian Bengali Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Hebrew Kannada Khmer Lao " +
  "Malayalam Myanmar Oriya Sinhala Tamil Telugu Thaana Thai Tibetan";
/** The scripts that people write in today (UAX 31, Table 5): those of each entry may stand in one address. */
const SCRIPTS = [ASIAN_WITH_LATIN, ...ALONE.split(" ")];
/** Made when they are needed first: it takes milliseconds, and most addresses are ASCII. */
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
 * The address of somebody who signs in or is a member, as `normaliseEmail` has it. Nobody's is an address that people or
 * programs could take for another one: that Unicode does (NFKC), such as with a Kelvin sign for a K; with characters that
 * nobody sees (Cf); or with letters of several scripts, such as a Cyrillic а. The top-level domain may be of another script.
 */
export function memberEmail(value: unknown): string | undefined {
  if (typeof value !== "string" || value !== value.normalize("NFKC") || /\p{Cf}/u.test(value)) return undefined;
  const email = normaliseEmail(value);
  const named = email?.replace(/\.[^.@]*$/, "");
  return named !== undefined && hasOneScript(named) ? email : undefined;
}

export function hashOfName({ kind, value }: { kind: "email" | "anonymous_id" | "user_id"; value: string }): string {
  return hashAtOnce(`${kind} ${value}`).digest("base64url");
}

/** Characters of a name at least: a shorter one may stand in a source by chance. */
const NAME_MIN_LENGTH = 3;

/** What a signal names its person by; null, or absent, where it does not. */
interface NamesOfSignal {
  email?: string | null;
  userId?: string | null;
  anonymousId?: string | null;
  traits: Traits;
}

/** The source of the group of the signal queue that counts a signal: empty where the signal's own tells whose it is. */
export function groupSource(source: string, signal: NamesOfSignal): string {
  return tellsWhose(source, signal) ? "" : source;
}

/** Whether a source has an address, or something of what the signal names its person by, as words of their own. */
export function tellsWhose(source: string, { email, userId, anonymousId, traits }: NamesOfSignal): boolean {
  if (source.includes("@")) return true;
  const names = [email?.split("@")[0], userId, anonymousId, traits.name, ...(traits.name?.split(/\s+/) ?? [])];
  const text = source.toLowerCase();
  return names.some((name) => name && name.length >= NAME_MIN_LENGTH && hasWords(text, name.toLowerCase()));
}

/** Whether words stand in a text, neither of which goes on where they begin or end. */
function hasWords(text: string, words: string): boolean {
  for (let at = text.indexOf(words); at !== -1; at = text.indexOf(words, at + 1)) {
    if (!isLetter(text.slice(0, at).at(-1)) && !isLetter(text[at + words.length])) return true;
  }
  return false;
}

function isLetter(character: string | undefined): boolean {
  return character !== undefined && /[\p{L}\p{N}]/u.test(character);
}
