/** The traffics by name, so that the filler and the queries agree. */
import * as z from "zod";
import type { FillOrder } from "./fill-order.ts";
import { isHeld, payloadOf, receivedAtMs } from "./growth-traffic.ts";
import { largePayloadOf, newPayloadOf } from "./hostile-traffic.ts";
import { mixedGroup, mixedPayloadOf } from "./store-traffic.ts";
import type { Group } from "./store-traffic.ts";

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
