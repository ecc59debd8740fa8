/** New ids: a prefix that says what it names, and a UUIDv7. Randomness is drawn for many ids at once. */
import { UUIDV7_RANDOM_BYTES, uuidv7 } from "./uuidv7.ts";

export type IdPrefix = "ws" | "key" | "rule" | "aud" | "req" | "sig" | "cold" | "del" | "evt" | "dst" | "dlv" | "rst";

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
