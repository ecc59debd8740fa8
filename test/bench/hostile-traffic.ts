/** Extreme traffic that the store must handle: signals that share nothing, and only signals of the maximum size. */
import { SIGNAL_MAX_BYTES } from "../../src/limits.ts";
import type { FillOrder } from "./fill-order.ts";
import { chance } from "./growth-traffic.ts";

/** Incompressible characters. */
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/** Bytes around the text. */
const FRAME_BYTES = 200;

/** A new event, source and visitor each time, and a new email every other time; the other signals stay anonymous. */
export function newPayloadOf(n: number): string {
  const [event, source, page] = [noise(n, 1, 40), noise(n, 2, 20), noise(n, 3, 120)];
  const email = n % 2 === 0 ? { email: `${noise(n, 4, 20).toLowerCase()}@${n}.example.com` } : {};
  return JSON.stringify({ type: "track", anonymousId: noise(n, 5, 36), ...email, event, source, properties: { page } });
}

/** A signal of the maximum size. */
export function largePayloadOf(n: number, { size }: FillOrder): string {
  const email = `person.${n % size.people}@example.com`;
  const text = noise(n, 6, SIGNAL_MAX_BYTES - FRAME_BYTES);
  return JSON.stringify({ email, event: "Uploaded", source: "website", properties: { text } });
}

function noise(n: number, salt: number, length: number): string {
  let state = Math.floor(chance(n, salt) * 0xffff_ffff) | 1;
  let text = "";
  for (let index = 0; index < length; index++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    text += ALPHABET[state & 63] ?? "";
  }
  return text;
}
