/** UUID version 7 (RFC 9562 §5.7): sorts by time, so indexes on it grow at one end. */

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

export const UUIDV7_RANDOM_BYTES = 10;

/**
 * A new id.
 *
 * @param nowMs milliseconds since 1970, in the first 48 bits.
 * @param random at least 10 random bytes from `offset` on.
 */
export function uuidv7(nowMs: number, random: Uint8Array, offset = 0): string {
  const high = Math.floor(nowMs / 0x1_0000_0000);
  const low = nowMs >>> 0;
  const hex = (index: number): string => HEX[random[offset + index] ?? 0] ?? "00";
  return (
    (HEX[(high >>> 8) & 0xff] ?? "") +
    (HEX[high & 0xff] ?? "") +
    (HEX[low >>> 24] ?? "") +
    (HEX[(low >>> 16) & 0xff] ?? "") +
    "-" +
    (HEX[(low >>> 8) & 0xff] ?? "") +
    (HEX[low & 0xff] ?? "") +
    "-" +
    (HEX[0x70 | ((random[offset] ?? 0) & 0x0f)] ?? "") +
    hex(1) +
    "-" +
    (HEX[0x80 | ((random[offset + 2] ?? 0) & 0x3f)] ?? "") +
    hex(3) +
    "-" +
    hex(4) +
    hex(5) +
    hex(6) +
    hex(7) +
    hex(8) +
    hex(9)
  );
}

/** The smallest id of a millisecond. */
export function uuidv7From(ms: number): string {
  const digits = ms.toString(16).padStart(12, "0");
  return `${digits.slice(0, 8)}-${digits.slice(8)}`;
}

/** Time of a UUIDv7 in milliseconds since 1970; null: not a UUIDv7. */
export function uuidv7Ms(uuid: string): number | null {
  const [, high, low] = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.exec(uuid) ?? [];
  return high === undefined || low === undefined ? null : Number.parseInt(high + low, 16);
}

type IdPrefix = "ws" | "key" | "rule" | "aud" | "req" | "sig" | "cold" | "del" | "evt" | "dst" | "dlv" | "rst" | "tok";

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
