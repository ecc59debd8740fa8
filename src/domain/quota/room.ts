/** How full a workspace is, as far as somebody has to be told: long before there is no room, and why there is none. */

/** Percent of STORE_MAX_BYTES from which on admins are told: ten weeks before a store is full that fills in a year. */
const STORE_NOTICE_PERCENT = 80;

/** How full a database is, in bytes. */
export interface Filled {
  bytes: number;
  /** With so many bytes it takes nothing new. */
  maxBytes: number;
}

/**
 * `filling`: the Signal Store will be full one day. `full`: it records nothing, and signals wait in the outbox. `refusing`:
 * the outbox is full, for whatever reason, and new calls get 503.
 */
export type RoomLevel = "ok" | "filling" | "full" | "refusing";

export interface RoomFigures {
  store: Filled;
  outbox: Filled;
}

/** The worst level that holds. */
export function roomLevel({ store, outbox }: RoomFigures): RoomLevel {
  if (outbox.bytes >= outbox.maxBytes) return "refusing";
  if (store.bytes >= store.maxBytes) return "full";
  return store.bytes * 100 >= store.maxBytes * STORE_NOTICE_PERCENT ? "filling" : "ok";
}
