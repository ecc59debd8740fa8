/** How full a workspace is, and what waits (design §8: Full), asked of its two Durable Objects. */
import type { Filled, RoomLevel } from "../domain/quota/room.ts";
import { roomLevel } from "../domain/quota/room.ts";
import { quotaCounter, signalStore } from "./objects.ts";

export interface Health {
  level: RoomLevel;
  store: Filled;
  outbox: Filled;
  /** Signals that are accepted and not recorded yet. */
  waiting: number;
  /** When the oldest of them was admitted, in milliseconds since 1970; null when none waits. */
  waitingSinceMs: number | null;
  /** How far back signals with an id of their own are compared; less than the window while memory is short. */
  duplicatesCoveredMs: number;
}

export async function readHealth(env: Env, workspaceId: string): Promise<Health> {
  const [{ duplicatesCoveredMs, refusedUpTo, ...store }, backlog] = await Promise.all([
    signalStore(env, workspaceId).room(),
    quotaCounter(env, workspaceId).backlog(),
  ]);
  const outbox = { bytes: backlog.outboxBytes, maxBytes: backlog.outboxMaxBytes };
  // Once it is recovered, all that waits has numbers behind those that were refused.
  const isRefused = backlog.oldestRow !== null && backlog.oldestRow <= refusedUpTo;
  return {
    level: roomLevel(store, outbox, isRefused),
    store,
    outbox,
    waiting: backlog.unsettledSignals,
    waitingSinceMs: backlog.oldestAtMs,
    duplicatesCoveredMs,
  };
}
