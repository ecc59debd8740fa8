/**
 * API keys, API tokens and shared secrets. An API key (spec §2.1) is `sk_`, 34 random base62 characters and 6
 * base62 characters of CRC32. The checksum rejects typos and noise without a look-up. An API token is `wt_` and the same.
 *
 * CRC32 is implemented here: Node's is no faster, and an isolate's first call would wait for its module.
 */
import { IDEMPOTENCY_KEY_MAX_LENGTH } from "../../limits.ts";

export const KEY_PREFIX = "sk_";
const TOKEN_PREFIX = "wt_";
type Prefix = typeof KEY_PREFIX | typeof TOKEN_PREFIX;
const PREFIX_LENGTH = KEY_PREFIX.length;
const RANDOM_CHARACTERS = 34;
const CHECKSUM_CHARACTERS = 6;
const CHECKED_LENGTH = PREFIX_LENGTH + RANDOM_CHARACTERS;
const KEY_LENGTH = CHECKED_LENGTH + CHECKSUM_CHARACTERS;

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** Bytes from here on would favour the first characters of the alphabet: 4 × 62 = 248. */
const UNBIASED_BYTES = 248;
const NOT_BASE62 = 62;

/** Character code → digit. */
const DIGITS = new Uint8Array(128).fill(NOT_BASE62);
for (let digit = 0; digit < BASE62.length; digit++) DIGITS[BASE62.charCodeAt(digit)] = digit;

/** Byte → CRC32 remainder (IEEE 802.3, reflected). */
const CRC32 = Uint32Array.from({ length: 256 }, (_, byte) => {
  let remainder = byte;
  for (let bit = 0; bit < 8; bit++) remainder = remainder & 1 ? (remainder >>> 1) ^ 0xedb88320 : remainder >>> 1;
  return remainder;
});

/** Whether `text` has the form and the checksum of an API key. Runs on every request: no allocation. */
export function isWellFormedKey(text: string): boolean {
  return isWellFormed(text, KEY_PREFIX);
}

/** Whether `text` has the form and the checksum of an API token. */
export function isWellFormedToken(text: string): boolean {
  return isWellFormed(text, TOKEN_PREFIX);
}

function isWellFormed(text: string, prefix: Prefix): boolean {
  if (text.length !== KEY_LENGTH || !text.startsWith(prefix)) return false;
  for (let index = PREFIX_LENGTH; index < KEY_LENGTH; index++) {
    if ((DIGITS[text.charCodeAt(index)] ?? NOT_BASE62) === NOT_BASE62) return false;
  }
  let rest = checksum(text);
  for (let index = KEY_LENGTH - 1; index >= CHECKED_LENGTH; index--) {
    if (DIGITS[text.charCodeAt(index)] !== rest % 62) return false;
    rest = Math.floor(rest / 62);
  }
  return true;
}

/** Whether `text` contains a key or a token, or a text of the same form whose checksum is wrong. */
export function holdsKey(text: string): boolean {
  return /(?:sk|wt)_[0-9A-Za-z]{40}/.test(text);
}

/** A key or token, or the beginning of a truncated one. The end of a word such as `task_` is neither. */
const KEY_OR_BEGINNING = /(?:sk|wt)_[0-9A-Za-z]{40}|(?<![0-9A-Za-z])(?:sk|wt)_[0-9A-Za-z]{16,39}(?![0-9A-Za-z])/g;

/** Masks keys, tokens and their beginnings. */
export function withoutKeys(text: string): string {
  if (!text.includes(KEY_PREFIX) && !text.includes(TOKEN_PREFIX)) return text;
  return text.replaceAll(KEY_OR_BEGINNING, (found) => {
    if (found.length === KEY_LENGTH) return redactorsRecognise(found) ? maskedKey(keyEnds(found)) : found;
    // The beginning of a key may lack digits by chance, but never has letters of only one case and no digits.
    const kinds = [/[a-z]/, /[A-Z]/, /[0-9]/].filter((kind) => kind.test(found.slice(PREFIX_LENGTH)));
    return kinds.length > 1 ? `${keyEnds(found).first8}…` : found;
  });
}

/** @param randomBytes returns `n` bytes from a cryptographic source; called again until there are enough. */
export function composeKey(randomBytes: (n: number) => Uint8Array): string {
  return compose(KEY_PREFIX, randomBytes);
}

/** @param randomBytes as for `composeKey`. */
export function composeToken(randomBytes: (n: number) => Uint8Array): string {
  return compose(TOKEN_PREFIX, randomBytes);
}

function compose(prefix: Prefix, randomBytes: (n: number) => Uint8Array): string {
  for (;;) {
    const checked = prefix + randomCharacters(randomBytes);
    const key = checked + base62(checksum(checked));
    if (redactorsRecognise(key)) return key;
  }
}

function randomCharacters(randomBytes: (n: number) => Uint8Array): string {
  let text = "";
  while (text.length < RANDOM_CHARACTERS) {
    for (const byte of randomBytes(RANDOM_CHARACTERS - text.length)) {
      if (byte < UNBIASED_BYTES && text.length < RANDOM_CHARACTERS) text += BASE62.charAt(byte % 62);
    }
  }
  return text;
}

/** Log redactors recognise a secret only if it has two of each: lower case, upper case, digits. */
function redactorsRecognise(key: string): boolean {
  const tail = key.slice(PREFIX_LENGTH);
  return [/[a-z]/g, /[A-Z]/g, /[0-9]/g].every((kind) => (tail.match(kind)?.length ?? 0) >= 2);
}

function checksum(text: string): number {
  let crc = 0xffffffff;
  for (let index = 0; index < CHECKED_LENGTH; index++) {
    crc = (CRC32[(crc ^ text.charCodeAt(index)) & 0xff] ?? 0) ^ (crc >>> 8);
  }
  return (crc ^ 0xffffffff) >>> 0;
}

function base62(value: number): string {
  let text = "";
  for (let rest = value; text.length < CHECKSUM_CHARACTERS; rest = Math.floor(rest / 62)) {
    text = BASE62.charAt(rest % 62) + text;
  }
  return text;
}

interface KeyEnds {
  first8: string;
  last4: string;
}

export function keyEnds(key: string): KeyEnds {
  return { first8: key.slice(0, 8), last4: key.slice(-4) };
}

export function maskedKey({ first8, last4 }: KeyEnds): string {
  return `${first8}…${last4}`;
}

type KeyStatus = "Active" | "Inactive";

/** A key is expired from the exact millisecond of its expiration (spec §3.1). */
export function isExpired(expiresAtMs: number | null, nowMs: number): boolean {
  return expiresAtMs !== null && nowMs >= expiresAtMs;
}

/** The end of a key by expiration or after a rotation, if earlier. ISO 8601 UTC; null: never. */
export function keyEnd(key: { expiresAt: string | null; overlapEndsAt: string | null }): string | null {
  const { expiresAt, overlapEndsAt } = key;
  if (expiresAt === null || overlapEndsAt === null) return expiresAt ?? overlapEndsAt;
  return expiresAt < overlapEndsAt ? expiresAt : overlapEndsAt;
}

/** Spec §2.1: an expired key is listed as inactive, like a deactivated one. Times are ISO 8601. */
export function keyStatus(key: { endsAt: string | null; deactivatedAt: string | null }, nowMs: number): KeyStatus {
  if (key.deactivatedAt !== null) return "Inactive";
  return isExpired(key.endsAt === null ? null : Date.parse(key.endsAt), nowMs) ? "Inactive" : "Active";
}

const SECRET_LENGTH = 43;
/** Neighbours of different kinds: about 26 of 43 in random text, about 15 in words joined together. */
const MIN_CHANGES = 20;
const MIN_OF_EACH_KIND = 2;

/**
 * Composes a shared secret (spec §5.4). Draws until `holdsSecret` recognises the secret.
 *
 * @param draw returns 32 bytes from a cryptographic source as base64url.
 */
export function composeSecret(draw: () => string): string {
  for (;;) {
    const secret = draw();
    if (holdsSecret(secret)) return secret;
  }
}

/** Whether `text` contains a shared secret, or any text as long and as random. */
export function holdsSecret(text: string): boolean {
  if (text.length < SECRET_LENGTH) return false;
  return (text.match(/[\w-]{43,}/g) ?? []).some(holdsRandomStretch);
}

const DASH = 0x2d;
const UPPER_A = 0x41;
const UNDERSCORE = 0x5f;
const LOWER_A = 0x61;

type Kind = "upper" | "lower" | "digit" | "separator";

/**
 * Whether any SECRET_LENGTH consecutive characters look random. The window moves one character at a time and looks
 * only at the characters that enter and leave: a run may be as long as a signal, and a body holds hundreds of them.
 *
 * @param run base64url characters only, at least SECRET_LENGTH of them.
 */
function holdsRandomStretch(run: string): boolean {
  const ofKind = { upper: 0, lower: 0, digit: 0, separator: 0 };
  /** 1 for each character of another kind than the one before it, separators apart. */
  const isChange = new Uint8Array(run.length);
  let changes = 0;
  let last: Kind = "separator";
  for (let end = 0; end < run.length; end++) {
    const entering = kindAt(run, end);
    ofKind[entering]++;
    if (entering !== "separator") {
      isChange[end] = Number(last !== "separator" && last !== entering);
      changes += isChange[end] ?? 0;
      last = entering;
    }
    const start = Math.max(0, end + 1 - SECRET_LENGTH);
    if (end >= SECRET_LENGTH) {
      ofKind[kindAt(run, start - 1)]--;
      changes -= isChange[start - 1] ?? 0;
    }
    if (changes < MIN_CHANGES || Math.min(ofKind.upper, ofKind.lower, ofKind.digit) < MIN_OF_EACH_KIND) continue;
    // The window's first character changes nothing within it.
    let first = start;
    while (kindAt(run, first) === "separator") first++;
    if (changes - (isChange[first] ?? 0) >= MIN_CHANGES) return true;
  }
  return false;
}

/** Separators are ignored: dashes and underscores are as common between words as in a secret. */
function kindAt(run: string, at: number): Kind {
  const code = run.charCodeAt(at);
  if (code === DASH || code === UNDERSCORE) return "separator";
  if (code < UPPER_A) return "digit";
  return code < LOWER_A ? "upper" : "lower";
}

// Limits the text of a sender that an answer may repeat: only the beginning, and only to the sender. Stored rejections repeat nothing of
// the body.

/** Characters of an echo: fewer than half of a key's random ones. */
const ECHO_MAX_LENGTH = 16;
/** Enough to recognise in full a key or secret that begins within the echo. */
const CHECKED_CHARACTERS = 256;

const BEGINS_LIKE_KEY = /(?:sk|wt)_[0-9A-Za-z]{8,}/g;
const LONG_RUN = /[0-9A-Za-z+/_=-]{21,}/g;

const BLANK = "•••";

/** Whether `text` contains a key, a token or a secret. Names of events and sources must not: they are shown. */
export function holdsCredential(text: string): boolean {
  return holdsKey(text) || holdsSecret(text);
}

/** The beginning of `text` in quotes, with keys and secrets blanked. */
export function echo(text: string): string {
  const blanked = withoutCredentials(text.slice(0, CHECKED_CHARACTERS));
  const shown = blanked.slice(0, ECHO_MAX_LENGTH).toWellFormed();
  const isCut = blanked.length > ECHO_MAX_LENGTH || text.length > CHECKED_CHARACTERS;
  return `${JSON.stringify(shown)}${isCut ? "…" : ""}`;
}

/**
 * Blanks keys, tokens, secrets and parts of them. Long runs go first: otherwise a secret that happens to contain the
 * beginning of a key would lose only its end.
 */
export function withoutCredentials(text: string): string {
  return text.replaceAll(LONG_RUN, (run) => (isMixed(run) ? BLANK : run)).replaceAll(BEGINS_LIKE_KEY, BLANK);
}

function isMixed(run: string): boolean {
  return [/[a-z]/g, /[A-Z]/g].every((kind) => (run.match(kind)?.length ?? 0) >= 2);
}

/** Why the value of an `Idempotency-Key` is invalid; null: it is valid. */
export function problemOfIdempotencyKey(key: string): string | null {
  if (key.length > IDEMPOTENCY_KEY_MAX_LENGTH) {
    return `The Idempotency-Key is longer than ${IDEMPOTENCY_KEY_MAX_LENGTH} characters.`;
  }
  if (!/^[\x20-\x7e]+$/.test(key)) return "The Idempotency-Key is empty or not printable ASCII.";
  return holdsKey(key) ? "The Idempotency-Key holds an API key. Use a value that is new for each request." : null;
}
