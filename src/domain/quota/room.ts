/** How full a workspace is, as far as somebody has to be told. Long before there is no room, and why it is so then. */
import { STORE_NOTICE_PERCENT } from "../../limits.ts";

/** A database, in bytes. */
export interface Filled {
  bytes: number;
  /** From here on it takes nothing new. */
  maxBytes: number;
}

/**
 * `filling`: the Signal Store will be full one day. `full`: it records nothing, and signals wait in the outbox. `refusing`:
 * the outbox is full, for whatever reason, and new calls get 503. `restored`: the Quota Counter was restored from a backup,
 * and the Signal Store refuses what it sends under numbers that were used before.
 */
export type RoomLevel = "ok" | "filling" | "full" | "restored" | "refusing";

/** The worst of what holds. */
export function roomLevel(store: Filled, outbox: Filled, isRefused: boolean): RoomLevel {
  if (outbox.bytes >= outbox.maxBytes) return "refusing";
  if (isRefused) return "restored";
  if (store.bytes >= store.maxBytes) return "full";
  return store.bytes * 100 >= store.maxBytes * STORE_NOTICE_PERCENT ? "filling" : "ok";
}
