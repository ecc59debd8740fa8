/**
 * Restores a workspace to an earlier moment: its Quota Counter, Signal Store and Destinations together (docs/operate.md). Each
 * step may be interrupted and repeated. D1 knows how far it is, since the objects forget.
 */
import {
  beginRestoring,
  createRestore,
  findRestore,
  refuseRestore,
  unfinishedRestore,
  updateBefore,
  type Restore,
  type RestoreTarget,
} from "../control/restores.ts";
import type { Change, ControlDatabase } from "../control/database.ts";
import { RESTORED_OBJECTS, type BeforeRestore, type RestoredObject } from "../domain/restore.ts";
import { ok, refuse, type Result } from "../domain/result.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { destinationsOf, quotaCounter, signalStore } from "./objects.ts";
import { recoverWorkspace, type Recovered } from "./recover-workspace.ts";

/** How long calls are refused at most; each step begins this time anew. */
export const CLOSED_MS = 60_000;
/** How often, and at which distance, is looked whether the outbox is empty: 12 seconds, since an answer may take 30 in all. */
const DRAIN_LOOKS = 48;
const DRAIN_LOOK_MS = 250;
/** Attempts to find an object started anew. */
const ATTEMPTS = 3;
/**
 * The Signal Store is restored to a moment so much later than the counter, since the platform's bookmarks may differ by some
 * milliseconds: a row that the counter takes for settled must be in the store. What the store has and the counter does not know
 * is ignored when it comes again.
 */
const STORE_LEAD_MS = 1_000;

export type RestoreRefusal =
  /** The platform has no such moment; nothing was changed. */
  | { reason: "not_restorable"; detail: string }
  /** So many accepted signals wait to be recorded. They would be lost; nothing was changed. */
  | { reason: "signals_wait"; signals: number }
  /** Another restore has begun: repeat that one first. */
  | { reason: "unfinished"; restore: Restore }
  | { reason: "no_such_restore" };

export interface RestoreDone {
  id: string;
  recovered: Recovered;
}

/** @param force restores although signals wait to be recorded, which are lost. */
export async function restoreWorkspace(
  env: Env,
  db: ControlDatabase,
  workspaceId: string,
  target: RestoreTarget,
  { force, ...by }: Change & { force: boolean },
): Promise<Result<RestoreDone, RestoreRefusal>> {
  const unfinished = await unfinishedRestore(db, workspaceId);
  if (unfinished !== null && !isSame(unfinished, target)) return refuse({ reason: "unfinished", restore: unfinished });
  let restore = unfinished;
  if (restore === null) {
    const undone = "undo" in target ? await findRestore(db, workspaceId, target.undo) : null;
    if ("undo" in target && (undone === null || undone.before === null)) return refuse({ reason: "no_such_restore" });
    const created = await createRestore(db, workspaceId, target, by);
    const prepared = await prepare(env, db, created, undone, force);
    if (!prepared.ok) {
      await quotaCounter(env, workspaceId).open();
      await refuseRestore(db, created, Date.now());
      return prepared;
    }
    restore = { ...created, state: "restoring", before: prepared.value };
  }
  try {
    await restoreObjects(env, db, restore);
  } catch (error) {
    if (await isAnyRestored(env, restore)) throw error;
    await quotaCounter(env, workspaceId).open();
    await refuseRestore(db, restore, Date.now());
    return refuse({ reason: "not_restorable", detail: errorText(error) });
  }
  const recovered = await recoverWorkspace(env, db, workspaceId, by);
  return ok({ id: restore.id, recovered });
}

function isSame({ to, undoes }: Restore, target: RestoreTarget): boolean {
  return "undo" in target ? undoes === target.undo : to === new Date(target.atMs).toISOString();
}

/** Has the workspace take no calls, and takes the bookmarks. Nothing has changed yet. */
async function prepare(
  env: Env,
  db: ControlDatabase,
  restore: Restore,
  undone: Restore | null,
  force: boolean,
): Promise<Result<BeforeRestore, RestoreRefusal>> {
  const { id, workspaceId } = restore;
  const waiting = await drained(env, workspaceId, force ? 1 : DRAIN_LOOKS);
  if (waiting > 0 && !force) return refuse({ reason: "signals_wait", signals: waiting });
  const [target, undo] = [bookmarks(), bookmarks()];
  try {
    // The counter comes first: what is recorded meanwhile is ignored when an undone counter sends it again.
    for (const object of ["quota_counter", "destinations", "signal_store"] as const) {
      const atMs = restore.to === null ? null : momentOf(object, restore.to);
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      const found = await stubOf(env, object, workspaceId).prepareRestore(id, atMs);
      target[object] = found.target ?? undone?.before?.undo[object] ?? "";
      undo[object] = found.undo;
    }
  } catch (error) {
    return refuse({ reason: "not_restorable", detail: errorText(error) });
  }
  const before = { target, undo, ...(await quotaCounter(env, workspaceId).beforeRestore()) };
  await beginRestoring(db, restore, before);
  return ok(before);
}

/** Has the counter take no calls, and looks so often whether its outbox is empty. Returns how many signals still wait. */
async function drained(env: Env, workspaceId: string, looks: number): Promise<number> {
  const counter = quotaCounter(env, workspaceId);
  for (let look = 1; ; look++) {
    // oxlint-disable-next-line no-await-in-loop -- looks again
    const waiting = await counter.close(Date.now() + CLOSED_MS);
    if (waiting === 0 || look >= looks) return waiting;
    // oxlint-disable-next-line no-await-in-loop
    await scheduler.wait(DRAIN_LOOK_MS);
  }
}

function momentOf(object: RestoredObject, to: string): number {
  const atMs = Date.parse(to);
  return object === "signal_store" ? Math.max(atMs, Math.min(atMs + STORE_LEAD_MS, Date.now())) : atMs;
}

/** Restores the objects that have not been restored yet. @throws where one cannot be: who repeats it goes on from there. */
async function restoreObjects(env: Env, db: ControlDatabase, { id, workspaceId, before }: Restore): Promise<void> {
  if (before === null) throw new Error("a restore that has begun knows what was before");
  /* oxlint-disable no-await-in-loop -- one after the other */
  for (const object of RESTORED_OBJECTS) {
    let lastError = "";
    for (let attempt = 1; await stubOf(env, object, workspaceId).awaitsRestore(id); attempt++) {
      if (attempt > ATTEMPTS) throw new Error(`${object} has not been restored: ${lastError}`);
      if (object === "quota_counter") {
        // What was admitted since an interruption is lost, and counted as lost.
        const counter = quotaCounter(env, workspaceId);
        await counter.close(Date.now() + CLOSED_MS);
        await updateBefore(db, id, { ...before, ...(await counter.beforeRestore()) });
      }
      // The call ends the object, and itself: whether the object was restored is asked of the new one.
      const ended = await stubOf(env, object, workspaceId).restoreTo(id, before.target[object]).catch(errorText);
      lastError = ended ?? "";
      logEvent("restored", { workspace: workspaceId, object, error: lastError });
    }
  }
  /* oxlint-enable no-await-in-loop */
}

async function isAnyRestored(env: Env, { id, workspaceId }: Restore): Promise<boolean> {
  const awaits = RESTORED_OBJECTS.map((object) => stubOf(env, object, workspaceId).awaitsRestore(id));
  return (await Promise.all(awaits)).includes(false);
}

function stubOf(env: Env, object: RestoredObject, workspaceId: string) {
  if (object === "quota_counter") return quotaCounter(env, workspaceId);
  return object === "signal_store" ? signalStore(env, workspaceId) : destinationsOf(env, workspaceId);
}

function bookmarks(): Record<RestoredObject, string> {
  return { signal_store: "", destinations: "", quota_counter: "" };
}
