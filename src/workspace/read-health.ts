/**
 * How a workspace is: how full, what waits, what fails. Asked of its Durable Objects, one call each; only where the books do
 * not balance by these, which signals on their way explain as a rule, they are read once more and with care.
 */
import { balanceBooks } from "../domain/quota/balance.ts";
import type { Balance } from "../domain/quota/balance.ts";
import type { HealthFigures } from "../domain/health/alarm.ts";
import type { RoomLevel } from "../domain/quota/room.ts";
import { roomLevel } from "../domain/quota/room.ts";
import { readBooks } from "./read-books.ts";
import { destinationsOf, quotaCounter, signalStore } from "./objects.ts";

/** The part of a workspace's health that its pages show. */
export interface Room extends Pick<HealthFigures, "store" | "outbox" | "waiting" | "waitingSinceMs"> {
  level: RoomLevel;
  /** How far back signals with an id of their own are compared; less than the window while memory is short. */
  duplicatesCoveredMs: number;
}

/** What the counter and the store say of it. */
export interface StorageHealth extends Omit<HealthFigures, "failingDestinations">, Room {
  books: Balance;
  hasDestinations: boolean;
}

export type Health = Omit<StorageHealth, "hasDestinations"> & HealthFigures;

/** Also how its destinations are, where it has any: one that has none is not asked, since that would make the object. */
export async function readHealth(env: Env, workspaceId: string): Promise<Health> {
  const { hasDestinations, ...stored } = await readStorageHealth(env, workspaceId);
  const failingDestinations = hasDestinations ? await destinationsOf(env, workspaceId).failing() : [];
  return { ...stored, failingDestinations };
}

export async function readStorageHealth(env: Env, workspaceId: string): Promise<StorageHealth> {
  const [kept, backlog] = await Promise.all([
    signalStore(env, workspaceId).health(),
    quotaCounter(env, workspaceId).backlog(),
  ]);
  const store = { bytes: kept.bytes, maxBytes: kept.maxBytes };
  const outbox = { bytes: backlog.outboxBytes, maxBytes: backlog.outboxMaxBytes };
  // A recovery gives all that waits numbers behind the refused ones: an older number says that it is still due.
  const isRestored = backlog.oldestRow !== null && backlog.oldestRow <= kept.refusedUpTo;
  const counted = { admitted: backlog.admitted, unsettled: backlog.unsettledSignals };
  const atOnce = balanceBooks(counted, kept.totals, counted);
  const books = atOnce.balanced ? atOnce : await readBooks(env, workspaceId, undefined);
  return {
    level: roomLevel({ store, outbox, isRestored }),
    store,
    outbox,
    isRestored,
    waiting: backlog.unsettledSignals,
    waitingSinceMs: backlog.oldestAtMs,
    books,
    booksBalanced: books.balanced,
    deadLetters: books.deadLettered,
    deadLetterMs: kept.deadLetterMs,
    failingJobs: kept.failingJobs,
    duplicatesCoveredMs: kept.duplicatesCoveredMs,
    hasDestinations: backlog.hasDestinations,
  };
}
