/** Ids are UUIDs of version 7 (RFC 9562 §5.7): they sort by time, so indexes on them grow at one end. */

export const UUIDV7_RANDOM_BYTES = 10;

/** The two digits of each byte. In the runtime, the conversion of a buffer takes ten times as long as these look-ups. */
const DIGITS = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** @param random at least UUIDV7_RANDOM_BYTES from `offset` on. */
export function uuidv7(nowMs: number, random: Uint8Array, offset = 0): string {
  const time = nowMs.toString(16).padStart(12, "0");
  const at = (index: number): number => random[offset + index] ?? 0;
  const digits = (index: number): string => DIGITS[at(index)] ?? "";
  const version = (DIGITS[0x70 | (at(0) & 0x0f)] ?? "") + digits(1);
  const variant = (DIGITS[0x80 | (at(2) & 0x3f)] ?? "") + digits(3);
  const rest = digits(4) + digits(5) + digits(6) + digits(7) + digits(8) + digits(9);
  return `${time.slice(0, 8)}-${time.slice(8)}-${version}-${variant}-${rest}`;
}

export function uuidOfHex(hex: string): string {
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const UUID_CHARACTERS = 36;

/** Whether the text is a lower-case UUID. */
export function isUuid(text: string): boolean {
  return text.length === UUID_CHARACTERS && UUID.test(text);
}

/** The 16 bytes of a lower-case UUID; null: the text is none. */
export function uuidBytes(text: string): Buffer | null {
  return isUuid(text) ? Buffer.from(text.replaceAll("-", ""), "hex") : null;
}

export function uuidv7From(ms: number): string {
  const digits = ms.toString(16).padStart(12, "0");
  return `${digits.slice(0, 8)}-${digits.slice(8)}`;
}

export function uuidv7Ms(uuid: string): number | null {
  const [, high, low] = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.exec(uuid) ?? [];
  return high === undefined || low === undefined ? null : Number.parseInt(high + low, 16);
}

type IdPrefix =
  | "ws"
  | "key"
  | "rule"
  | "exc"
  | "aud"
  | "req"
  | "sig"
  | "cold"
  | "del"
  | "ntf"
  | "dst"
  | "dlv"
  | "rst"
  | "tok"
  | "exp";

const pool = new Uint8Array(UUIDV7_RANDOM_BYTES * 400);
let used = pool.length;

export function newId<Prefix extends IdPrefix>(prefix: Prefix, nowMs = Date.now()): `${Prefix}_${string}` {
  if (used >= pool.length) {
    crypto.getRandomValues(pool);
    used = 0;
  }
  const id = uuidv7(nowMs, pool, used);
  used += UUIDV7_RANDOM_BYTES;
  return `${prefix}_${id}`;
}
