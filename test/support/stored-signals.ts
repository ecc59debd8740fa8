/** Held signals and dead letters of a workspace, as a release or a replay reads them. */
import type { StoredSignal } from "../../src/store/returns/return-jobs.ts";
import { deadSignals, heldSignals } from "../../src/store/returns/return-jobs.ts";
import { readStore } from "./read-store.ts";

const LAST = Number.MAX_SAFE_INTEGER;

/** @param cursor the ordinal before the first signal. */
export function heldIn(workspaceId: string, periodEndMs: number, cursor = 0, limit = 1_000): Promise<StoredSignal[]> {
  return readStore(workspaceId, (state) => heldSignals(state, periodEndMs, { cursor, last: LAST }, limit));
}

export function deadIn(workspaceId: string): Promise<StoredSignal[]> {
  return readStore(workspaceId, (state) => deadSignals(state, { cursor: 0, last: LAST }, 1_000));
}
