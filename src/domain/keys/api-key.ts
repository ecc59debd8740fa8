/**
 * The form of an API key (spec §2.1, design §5): `sk_` + 34 random base62 characters + 6 base62 characters of CRC32 over
 * everything before them. The checksum refuses typos and noise without a look-up.
 *
 * CRC32 is written out: Node's takes as long for 37 characters (half a microsecond), and its module would be loaded with an
 * isolate's first call, see platform/node.ts.
 */

const PREFIX = "sk_";
const RANDOM_CHARACTERS = 34;
const CHECKSUM_CHARACTERS = 6;
const CHECKED_LENGTH = PREFIX.length + RANDOM_CHARACTERS;
const KEY_LENGTH = CHECKED_LENGTH + CHECKSUM_CHARACTERS;

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** Bytes from here on would favour the first characters of the alphabet: 4 × 62 = 248. */
const UNBIASED_BYTES = 248;
const NOT_BASE62 = 62;

/** Character code → its place in the alphabet. */
const DIGITS = new Uint8Array(128).fill(NOT_BASE62);
for (let digit = 0; digit < BASE62.length; digit++) DIGITS[BASE62.charCodeAt(digit)] = digit;

/** Byte → CRC32 remainder (IEEE 802.3, reflected). */
const CRC32 = Uint32Array.from({ length: 256 }, (_, byte) => {
  let remainder = byte;
  for (let bit = 0; bit < 8; bit++) remainder = remainder & 1 ? (remainder >>> 1) ^ 0xedb88320 : remainder >>> 1;
  return remainder;
});

/** Whether `text` can be an API key at all. Runs on every request: no allocation, no look-up. */
export function isWellFormedKey(text: string): boolean {
  if (text.length !== KEY_LENGTH || !text.startsWith(PREFIX)) return false;
  for (let index = PREFIX.length; index < KEY_LENGTH; index++) {
    if ((DIGITS[text.charCodeAt(index)] ?? NOT_BASE62) === NOT_BASE62) return false;
  }
  let rest = checksum(text);
  for (let index = KEY_LENGTH - 1; index >= CHECKED_LENGTH; index--) {
    if (DIGITS[text.charCodeAt(index)] !== rest % 62) return false;
    rest = Math.floor(rest / 62);
  }
  return true;
}

/** Whether a key stands anywhere in `text`, or what only its checksum tells from one. */
export function holdsKey(text: string): boolean {
  return /sk_[0-9A-Za-z]{40}/.test(text);
}

/** A key wherever it stands, or the beginning of one that was cut off, where it is no end of a word such as `task_`. */
const KEY_OR_BEGINNING = /sk_[0-9A-Za-z]{40}|(?<![0-9A-Za-z])sk_[0-9A-Za-z]{16,39}(?![0-9A-Za-z])/g;

/** The text with masked keys in place of full ones, and of beginnings of keys. What senders and people write may hold one. */
export function withoutKeys(text: string): string {
  if (!text.includes(PREFIX)) return text;
  return text.replaceAll(KEY_OR_BEGINNING, (found) => {
    if (found.length === KEY_LENGTH) return redactorsRecognise(found) ? maskedKey(keyEnds(found)) : found;
    // The beginning of a key may by chance have no digit, but not letters of one case alone.
    const kinds = [/[a-z]/, /[A-Z]/, /[0-9]/].filter((kind) => kind.test(found.slice(PREFIX.length)));
    return kinds.length > 1 ? `${keyEnds(found).first8}…` : found;
  });
}

/**
 * A new key value.
 *
 * @param randomBytes gives `n` bytes from a cryptographic source; called again for as long as more are needed.
 */
export function composeKey(randomBytes: (n: number) => Uint8Array): string {
  for (;;) {
    const checked = PREFIX + randomCharacters(randomBytes);
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

/** Log redactors take a long run for a secret only if it has two of each: lower case, upper case, digits. */
function redactorsRecognise(key: string): boolean {
  const tail = key.slice(PREFIX.length);
  return [/[a-z]/g, /[A-Z]/g, /[0-9]/g].every((kind) => (tail.match(kind)?.length ?? 0) >= 2);
}

/** CRC32 over the characters before the checksum, all of them ASCII. */
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

/** The parts of a key that are stored and shown (spec §2.1). */
export interface KeyEnds {
  first8: string;
  last4: string;
}

export function keyEnds(key: string): KeyEnds {
  return { first8: key.slice(0, 8), last4: key.slice(-4) };
}

/** A key as it is shown: its first 8 characters, an ellipsis, its last 4 (spec §8.10). */
export function maskedKey({ first8, last4 }: KeyEnds): string {
  return `${first8}…${last4}`;
}

export type KeyStatus = "Active" | "Inactive";

/** A key is expired from the very millisecond of its expiration on (spec §3.1). */
export function isExpired(expiresAtMs: number | null, nowMs: number): boolean {
  return expiresAtMs !== null && nowMs >= expiresAtMs;
}

/** When a key ends by itself: at its expiration, or with its overlap once it was rotated. ISO 8601 UTC; null: never. */
export function keyEnd(key: { expiresAt: string | null; overlapEndsAt: string | null }): string | null {
  const { expiresAt, overlapEndsAt } = key;
  if (expiresAt === null || overlapEndsAt === null) return expiresAt ?? overlapEndsAt;
  return expiresAt < overlapEndsAt ? expiresAt : overlapEndsAt;
}

/** The status that the list of keys shows: an expired one is inactive like a deactivated one (spec §2.1). Times are ISO 8601. */
export function keyStatus(key: { endsAt: string | null; deactivatedAt: string | null }, nowMs: number): KeyStatus {
  if (key.deactivatedAt !== null) return "Inactive";
  return isExpired(key.endsAt === null ? null : Date.parse(key.endsAt), nowMs) ? "Inactive" : "Active";
}

const SECRET_LENGTH = 43;
/** Letters that stand next to one of another kind: some 26 of 43 where they are random, some 15 in words put together. */
const MIN_CHANGES = 20;
const MIN_OF_EACH_KIND = 2;

/**
 * A new shared secret.
 *
 * @param draw gives 32 bytes from a cryptographic source as base64url; called again until they look random enough.
 */
export function composeSecret(draw: () => string): string {
  for (;;) {
    const secret = draw();
    if (holdsSecret(secret)) return secret;
  }
}

/** Whether a shared secret stands anywhere in `text`, or something as long and as random. */
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
 * Whether any SECRET_LENGTH characters in a row look random. The stretch moves on by a character at a time, of which only
 * the ones that come and go are looked at: a run may be as long as a signal, and a body holds hundreds of them.
 *
 * @param run has as many characters at least, and none but those of base64url.
 */
function holdsRandomStretch(run: string): boolean {
  const ofKind = { upper: 0, lower: 0, digit: 0, separator: 0 };
  let changes = 0;
  /** The kind of the stretch's last character that is no separator. */
  let last: Kind = "separator";
  for (let end = 0; end < run.length; end++) {
    const comes = kindAt(run, end);
    ofKind[comes]++;
    if (comes !== "separator") {
      if (last !== "separator" && last !== comes) changes++;
      last = comes;
    }
    const start = end - SECRET_LENGTH;
    const goes = start < 0 ? null : kindAt(run, start);
    if (goes !== null) {
      ofKind[goes]--;
      const first = goes === "separator" ? goes : firstKind(run, start + 1, end);
      if (first !== "separator" && first !== goes) changes--;
      if (ofKind.separator === SECRET_LENGTH) last = "separator";
    }
    const { upper, lower, digit } = ofKind;
    if (changes >= MIN_CHANGES && Math.min(upper, lower, digit) >= MIN_OF_EACH_KIND) return true;
  }
  return false;
}

/** The kind of the first character of the stretch that is no separator. */
function firstKind(run: string, start: number, end: number): Kind {
  let at = start;
  while (at < end && kindAt(run, at) === "separator") at++;
  return kindAt(run, at);
}

/** A dash and an underscore separate words as often as they stand in a secret. */
function kindAt(run: string, at: number): Kind {
  const code = run.charCodeAt(at);
  if (code === DASH || code === UNDERSCORE) return "separator";
  if (code < UPPER_A) return "digit";
  return code < LOWER_A ? "upper" : "lower";
}
