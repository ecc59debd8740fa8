/** The traffics by name, so that the filler and the queries agree. */
import * as z from "zod";
import { SIGNAL_MAX_BYTES } from "../../src/limits.ts";
import type { FillOrder } from "./fill-order.ts";
import { chance, isHeld, payloadOf, receivedAtMs } from "./growth-traffic.ts";
import { mixedGroup, mixedPayloadOf, type Group } from "./store-traffic.ts";

/** Signal `n` as sent at that time. */
export function signalOf(n: number, order: FillOrder, atMs = receivedAtMs(n, order)): string {
  switch (order.traffic) {
    case "visits":
      return payloadOf(n, order.size.people, atMs);
    case "mixed":
    case "unlinked":
      return mixedPayloadOf(n, order);
    case "new":
      return newPayloadOf(n);
    case "large":
      return largePayloadOf(n, order);
  }
}

/** Whether the signal exceeds the plan's limit. */
export function isHeldIn(n: number, { traffic }: FillOrder): boolean {
  return traffic === "visits" && isHeld(n);
}

/** An event and a source that exist in the workspace. */
export function groupIn(index: number, order: FillOrder): Group {
  if (order.traffic === "mixed") return mixedGroup(index);
  return z.object({ event: z.string(), source: z.string() }).parse(JSON.parse(signalOf(index, order)));
}

/** Incompressible characters. */
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/** Bytes around the text. */
const FRAME_BYTES = 200;

/** A new event, source and visitor each time, and a new email every other time; the other signals stay anonymous. */
function newPayloadOf(n: number): string {
  const [event, source, page] = [noise(n, 1, 40), noise(n, 2, 20), noise(n, 3, 120)];
  const email = n % 2 === 0 ? { email: `${noise(n, 4, 20).toLowerCase()}@${n}.example.com` } : {};
  return JSON.stringify({ type: "track", anonymousId: noise(n, 5, 36), ...email, event, source, properties: { page } });
}

/** A signal of the maximum size. */
function largePayloadOf(n: number, { size }: FillOrder): string {
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
