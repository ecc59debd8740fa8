/**
 * Emails and ids that identify a person. An id that a broken sender gives to everyone must
 * never link, or strangers would become the same person.
 */
import { EMAIL_MAX_LENGTH, IDENTITY_MAX_LENGTH } from "../../limits.ts";
import { hashAtOnce, quickHash } from "../../platform/hashes.ts";
import { isAbsent, isExact, WrittenNumber } from "../json/json-value.ts";
import { holdsKey } from "../keys/api-key.ts";
import type { Traits } from "./traits.ts";

/** Words that senders write instead of a missing id, in lower case. */
const WORTHLESS_WORDS: ReadonlySet<string> = new Set(
  (
    "null|undefined|nil|none|nan|infinity|-infinity|true|false|-1|n/a|na|(null)|(none)|(not set)|[object object]|" +
    "anonymous|anon|anonymous-user|anonymous_user|anonymous user|unknown|guest|visitor|not_authenticated|system|backend|id|user|userid|user_id|" +
    "anonymousid|anonymous_id|distinctid|distinct_id|email"
  ).split("|"),
);

/** Unfilled placeholders of templates: `{{lead.Id}}`, `${id}`, `*|ID|*`, `%id%`, `<%= id %>`. */
const UNFILLED_PLACEHOLDER = /\{\{|\$\{|\*\||^<?%.*%>?$/s;
/** The zeros of scripts whose digits are in use. */
const ZEROS = "0٠۰०০੦૦୦௦౦೦൦๐໐༠၀០᠐０";
/** Zeros, a zero UUID, `{}` and `---` have none. */
const DISTINGUISHING_CHARACTER = new RegExp(String.raw`(?![${ZEROS}])[\p{N}\p{L}]`, "u");
const DIGIT = new RegExp(String.raw`(?![${ZEROS}])\p{N}`, "u");

/** Characters without a glyph: soft hyphen, zero-width spaces and joiners, marks of direction, byte order marks. */
const INVISIBLE = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/u;
const SPACE_OR_INVISIBLE = /[\s\p{Cf}\p{Default_Ignorable_Code_Point}]/u;

/** Pairs of quotes and brackets that templates leave around a value. */
const QUOTES: readonly (readonly [open: string, close: string])[] = [
  ['"', '"'],
  ["'", "'"],
  ["`", "`"],
  ["“", "”"],
  ["‘", "’"],
];
const BRACKETS: typeof QUOTES = [
  ["<", ">"],
  ["(", ")"],
  ["[", "]"],
  ["{", "}"],
];

/** Without white space and invisible characters at both ends. A loop, because an expression that ends in `+$` can take quadratic time. */
function visible(text: string): string {
  let [start, end] = [0, text.length];
  while (start < end && SPACE_OR_INVISIBLE.test(text[start] ?? "")) start++;
  while (end > start && SPACE_OR_INVISIBLE.test(text[end - 1] ?? "")) end--;
  return text.slice(start, end);
}

/** Without one pair of quotes or brackets around the text. */
function unwrapped(text: string, pairs: typeof QUOTES): string {
  const isWrapped = pairs.some(([open, close]) => text.length > 1 && text.startsWith(open) && text.endsWith(close));
  return isWrapped ? visible(text.slice(1, -1)) : text;
}

export function isWorthlessId(id: string): boolean {
  return whyWorthless(id) !== null;
}

/** Completes `Its userId …`. Null: the id names somebody. */
function whyWorthless(id: string): string | null {
  const text = id.trim();
  if (text.length > IDENTITY_MAX_LENGTH) return `has more than ${IDENTITY_MAX_LENGTH} characters`;
  return whyBare(text) ?? (BEGINS_PLAINLY.test(text) ? null : whyBare(unwrapped(visible(text), ANY_PAIR)));
}

/** Most ids, which have no quotes around them. */
const BEGINS_PLAINLY = /^\w/;
const ANY_PAIR: typeof QUOTES = [...QUOTES, ...BRACKETS];

/** @param text an id without quotes around it. */
function whyBare(text: string): string | null {
  if (text.length <= 1 && !DIGIT.test(text)) return "has a single character";
  if (!DISTINGUISHING_CHARACTER.test(text)) return "has no letter, and no digit other than zero";
  if (UNFILLED_PLACEHOLDER.test(text)) return "is a placeholder that was not replaced by its value";
  // Half a surrogate pair is stored as U+FFFD, so different ids would become the same.
  if (!text.isWellFormed()) return "has half a character";
  if (WORTHLESS_WORDS.has(text.toLowerCase())) return "is a word that senders write for many people";
  return holdsKey(text) ? "holds an API key" : null;
}

/** Explains in a sentence why an id identifies no person. Null: it is usable or absent. @param name of the field. */
export function idProblem(name: string, value: unknown): string | null {
  if (isAbsent(value)) return null;
  let why: string | null = "is not a text";
  if (typeof value === "number" && !isExact(value)) {
    why = "is a number with more digits than JSON numbers keep (send it as a text)";
  } else if (typeof value === "number" || typeof value === "string") why = whyWorthless(String(value));
  else if (value instanceof WrittenNumber) why = whyWorthless(value.sent);
  return why === null ? null : `Its \`${name}\` ${why}, so it names nobody.`;
}

/**
 * An id in the form that links: trimmed, a number as its decimal text, with the digits that were sent; undefined if missing or worthless.
 * A large number that was not read by `readPayload` is worthless, because different ids round to the same number.
 */
export function usableId(value: unknown): string | undefined {
  if (typeof value === "number") {
    return isExact(value) ? usableId(String(value)) : undefined;
  }
  if (value instanceof WrittenNumber) return usableId(value.sent);
  return typeof value === "string" && !isWorthlessId(value) ? value.trim() : undefined;
}

const EMAIL_SHAPE = /^[^\s\p{Cc}@]+@([^\s\p{Cc}@]+)$/u;
/** Characters that turn an apparent address into a link, such as `https://evil.example/sign-in#@x.co`. */
const LINK_CHARACTER = /[/:<>]/;
/** Most addresses, which need no other check. */
const PLAIN_EMAIL = /^[\w.+-]+@[a-z\d]+(?:[.-][a-z\d]+)*$/i;
/** A domain of RFC 5321 or RFC 6531: labels of letters, digits and inner hyphens. Or an IPv4 address in brackets. */
const DOMAIN_LABEL = /^(?!-)[\p{L}\p{M}\p{N}-]+$/u;
const ADDRESS_LITERAL = /^\[\d{1,3}(?:\.\d{1,3}){3}\]$/;
const LIST_PUNCTUATION = /[,;]$/;

/**
 * Whether a text is an address, or one that the service accepts and ignores: with characters of a link, or with invisible characters. The
 * trace then explains the problem (`emailProblem`), and the signal is not lost.
 */
export function hasEmailShape(text: string): boolean {
  if (text.length > EMAIL_MAX_LENGTH || !text.isWellFormed()) return false;
  if (PLAIN_EMAIL.test(text)) return true;
  const domain = EMAIL_SHAPE.exec(text)?.[1];
  return domain !== undefined && (LINK_CHARACTER.test(text) || INVISIBLE.test(text) || isDomain(domain));
}

function isDomain(text: string): boolean {
  return (
    ADDRESS_LITERAL.test(text) || text.split(".").every((label) => DOMAIN_LABEL.test(label) && !label.endsWith("-"))
  );
}

export function isPlausibleEmail(text: string): boolean {
  if (!hasEmailShape(text) || holdsKey(text)) return false;
  return PLAIN_EMAIL.test(text) || (!LINK_CHARACTER.test(text) && !INVISIBLE.test(text));
}

/** Explains in a sentence why a signal's email is unusable. Null: it is usable or absent. @param name of the field. */
export function emailProblem(value: unknown, name = "email"): string | null {
  if (isAbsent(value)) return null;
  if (typeof value !== "string") return `Its ${name} is not a text, so it names nobody.`;
  const address = addressIn(value);
  if (isPlausibleEmail(address)) return null;
  if (holdsKey(address)) return `Its ${name} holds an API key, so it names nobody.`;
  if (!hasEmailShape(address)) return `Its ${name} is not an email address, so it names nobody.`;
  const invisible = INVISIBLE.exec(address)?.[0].codePointAt(0);
  return invisible === undefined
    ? `Its ${name} has a "/", ":", "<" or ">", which no address of a person may have, so it names nobody.`
    : `Its ${name} has the invisible character U+${invisible.toString(16).toUpperCase().padStart(4, "0")}, so it names nobody.`;
}

/** The address in a text: without white space, invisible characters, a pair of quotes and the comma of a list around it. */
export function addressIn(text: string): string {
  const address = visible(text);
  if (address.length > EMAIL_MAX_LENGTH || PLAIN_EMAIL.test(address)) return address;
  return withoutComma(unwrapped(withoutComma(address), QUOTES));
}

function withoutComma(text: string): string {
  return LIST_PUNCTUATION.test(text) ? visible(text.slice(0, -1)) : text;
}

/** The form in which emails are stored and compared. Does not check that the text is an email. */
export function emailAsStored(text: string): string {
  return addressIn(text).toLowerCase();
}

/** The address as it is stored: trimmed, in lower case. Undefined: the value names no person. */
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

/** FNV-1a, in 32 bits: a text with another mark is another name. A hash takes a hundred times as long. */
export function markOfName(value: string): number {
  return quickHash(value) >>> 0;
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
  const text = source.toLowerCase();
  const isNamed = (name: string | null | undefined): boolean =>
    // Lower case is never shorter, and most names are longer than the source.
    typeof name === "string" &&
    name.length >= NAME_MIN_LENGTH &&
    name.length <= text.length &&
    hasWords(text, name.toLowerCase());
  if (isNamed(email?.split("@")[0]) || isNamed(userId) || isNamed(anonymousId) || isNamed(traits.name)) return "";
  return traits.name?.split(/\s+/).some((word) => isNamed(word)) === true ? "" : source;
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
