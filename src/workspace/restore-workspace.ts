/**
 * Restores a workspace to an earlier moment: Quota Counter, Signal Store and Destinations together (docs/operate.md).
 * Every step can be interrupted and repeated. D1 stores the progress, because the objects are reset.
 */
import { deactivatedKeyIds } from "../control/api-keys.ts";
import { auditEntry } from "../control/audit.ts";
import type { ControlDatabase } from "../control/database.ts";
import {
  beginRestoring,
  createRestore,
  endRestore,
  findRestore,
  refuseRestore,
  unfinishedRestore,
  updateBefore,
  type Restore,
  type RestoreTarget,
} from "../control/restores.ts";
import { deletionsSince } from "../control/deletions.ts";
import { raiseVersionsAbove } from "../control/rule-changes.ts";
import { raiseConfigVersion } from "../control/workspaces.ts";
import { RESTORED_OBJECTS, type BeforeRestore, type RestoredObject } from "../domain/restore.ts";
import { ok, refuse, type Result } from "../domain/result.ts";
import { errorText, logEvent } from "../platform/log.ts";
import type { Correction, UnsettledRow } from "../quota/protocol.ts";
import { configureCounter } from "./configure-workspace.ts";
import { destinationsOf, quotaCounter, signalStore, type WorkspaceContext } from "./objects.ts";

/** Time limit for refusing calls. It starts again with each step. */
const CLOSED_MS = 60_000;
/** Number and interval of checks for an empty outbox: 12 seconds in all, because an answer may take 30. */
const DRAIN_CHECKS = 48;
const DRAIN_CHECK_MS = 250;
/** Attempts to reach a restarted object. */
const ATTEMPTS = 3;
/**
 * The Signal Store is restored to a slightly later moment than the counter, because the platform's bookmarks may
 * differ by milliseconds. A row that is settled in the counter must be in the store. Rows that only the store knows
 * are ignored when they arrive again.
 */
const STORE_LEAD_MS = 1_000;

export type RestoreRefusal =
  /** The platform cannot restore to this moment; nothing was changed. */
  | { reason: "not_restorable"; detail: string }
  /** Accepted signals that wait to be recorded and would be lost; nothing was changed. */
  | { reason: "signals_wait"; signals: number }
  /** Another restore has begun: repeat that one first. */
  | { reason: "restore_unfinished"; restore: Restore }
  | { reason: "no_such_restore" };

/** @param force restores although signals wait to be recorded, which are lost. */
export async function restoreWorkspace(
  context: WorkspaceContext,
  target: RestoreTarget,
  force: boolean,
): Promise<Result<{ id: string; recovered: Recovered }, RestoreRefusal>> {
  const { env, db, workspaceId } = context;
  const unfinished = await unfinishedRestore(db, workspaceId);
  if (unfinished !== null && !isSameTarget(unfinished, target))
    return refuse({ reason: "restore_unfinished", restore: unfinished });
  let restore = unfinished;
  if (restore === null) {
    const undone = "undo" in target ? await findRestore(db, workspaceId, target.undo) : null;
    if ("undo" in target && (undone === null || undone.before === null)) return refuse({ reason: "no_such_restore" });
    const created = await createRestore(context, target);
    const prepared = await prepare(env, db, created, undone, force);
    if (!prepared.ok) {
      await cancelRestore(env, db, created);
      return prepared;
    }
    restore = { ...created, state: "restoring", before: prepared.value };
  }
  try {
    await restoreObjects(env, db, restore);
  } catch (error) {
    if (await isAnyRestored(env, restore)) throw error;
    await cancelRestore(env, db, restore);
    return refuse({ reason: "not_restorable", detail: errorText(error) });
  }
  return ok({ id: restore.id, recovered: await recoverWorkspace(context) });
}

/** Ends a restore that has changed nothing, and accepts calls again. */
async function cancelRestore(env: Env, db: ControlDatabase, restore: Restore): Promise<void> {
  await quotaCounter(env, restore.workspaceId).open();
  await refuseRestore(db, restore, Date.now());
}

function isSameTarget({ to, undoes }: Restore, target: RestoreTarget): boolean {
  return "undo" in target ? undoes === target.undo : to === new Date(target.atMs).toISOString();
}

/** Blocks calls to the workspace and reads the bookmarks. Changes no data yet. */
async function prepare(
  env: Env,
  db: ControlDatabase,
  restore: Restore,
  undone: Restore | null,
  force: boolean,
): Promise<Result<BeforeRestore, RestoreRefusal>> {
  const { id, workspaceId } = restore;
  const waiting = await waitForEmptyOutbox(env, workspaceId, force ? 1 : DRAIN_CHECKS);
  if (waiting > 0 && !force) return refuse({ reason: "signals_wait", signals: waiting });
  const [target, undo] = [noBookmarks(), noBookmarks()];
  try {
    // Take the counter's bookmark first. Signals recorded after it are ignored when the restored counter sends them again.
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

/** Blocks calls to the counter and waits for an empty outbox. Returns the number of signals that still wait. */
async function waitForEmptyOutbox(env: Env, workspaceId: string, maxChecks: number): Promise<number> {
  const counter = quotaCounter(env, workspaceId);
  for (let check = 1; ; check++) {
    // oxlint-disable-next-line no-await-in-loop -- checks again after a pause
    const waiting = await counter.close(Date.now() + CLOSED_MS);
    if (waiting === 0 || check >= maxChecks) return waiting;
    // oxlint-disable-next-line no-await-in-loop
    await scheduler.wait(DRAIN_CHECK_MS);
  }
}

function momentOf(object: RestoredObject, to: string): number {
  const atMs = Date.parse(to);
  return object === "signal_store" ? Math.max(atMs, Math.min(atMs + STORE_LEAD_MS, Date.now())) : atMs;
}

/** Restores the objects that are not restored yet. @throws if one fails; a repeated call continues there. */
async function restoreObjects(env: Env, db: ControlDatabase, { id, workspaceId, before }: Restore): Promise<void> {
  if (before === null) throw new Error("The restore has begun, but D1 has no state from before it.");
  /* oxlint-disable no-await-in-loop -- one after the other */
  for (const object of RESTORED_OBJECTS) {
    let lastError = "";
    for (let attempt = 1; await stubOf(env, object, workspaceId).awaitsRestore(id); attempt++) {
      if (attempt > ATTEMPTS) throw new Error(`${object} has not been restored: ${lastError}`);
      if (object === "quota_counter") {
        // Signals admitted since an interruption are lost, and counted as lost.
        const counter = quotaCounter(env, workspaceId);
        await counter.close(Date.now() + CLOSED_MS);
        await updateBefore(db, id, { ...before, ...(await counter.beforeRestore()) });
      }
      // The call restarts the object and fails with it: ask the new object whether it was restored.
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

function noBookmarks(): Record<RestoredObject, string> {
  return { signal_store: "", destinations: "", quota_counter: "" };
}

interface Recovered {
  /** Deactivated keys that the restored counter had as active. */
  revoked: number;
  /** Whether D1's rules were older than rules that the store has seen, and received later versions. */
  ruleVersionsRaised: boolean;
  /** Accepted signals lost by this and earlier restores; null if no restore was completed. */
  lost: number | null;
  /** Number of repeated deletions of people. */
  deletionsRepeated: number;
}

/** @throws if a restore has not restored all objects yet; it must be repeated. */
export async function recoverWorkspace({ env, db, workspaceId, by }: WorkspaceContext): Promise<Recovered> {
  const counter = quotaCounter(env, workspaceId);
  // Deactivated keys come first: until the counter knows them, it accepts calls with them.
  const revoked = await counter.revokeAll(await deactivatedKeyIds(db, workspaceId), by.nowMs);
  const restore = await unfinishedRestore(db, workspaceId);
  // A restored D1 may have an older configuration version than the counter, which would ignore it.
  if (restore === null) await raiseConfigVersion(db, workspaceId, (await counter.usage())?.configVersion ?? 0);
  await configureCounter(env, db, workspaceId);
  const finished = restore === null ? null : await finishRestore(env, db, restore);
  const ruleVersionsRaised = await raiseVersionsAbove(
    db,
    workspaceId,
    await signalStore(env, workspaceId).ruleVersions(),
  );
  // The wanted notification types may have changed since the restored moment.
  await destinationsOf(env, workspaceId).informSources();
  const detail = {
    revoked,
    ruleVersionsRaised,
    lost: finished?.lost ?? null,
    deletionsRepeated: finished?.deletions ?? 0,
  };
  await auditEntry(db, by, {
    workspaceId,
    action: "workspace.recovered",
    target: restore?.id ?? workspaceId,
    detail,
  });
  if (restore !== null) await endRestore(db, restore, finished?.lost ?? 0, by.nowMs);
  return detail;
}

async function finishRestore(
  env: Env,
  db: ControlDatabase,
  restore: Restore,
): Promise<{ lost: number; deletions: number }> {
  const { id, workspaceId } = restore;
  // The outbox has changed since the start of an interrupted restore.
  const before = (await findRestore(db, workspaceId, id))?.before ?? null;
  if (before === null) throw new Error("The restore has begun, but D1 has no state from before it.");
  const counter = quotaCounter(env, workspaceId);
  if (await counter.awaitsRestore(id)) throw new Error("The restore has not restored all objects. Repeat it.");
  const restored = await counter.afterRestore(before.highestRow);
  const deletions = await deletionsSince(db, workspaceId, await deletionsLostSinceMs(db, restore));
  const unsettled = restored.unsettled.map(({ row }) => row);
  const store = await signalStore(env, workspaceId).afterRestore({
    highestRow: before.highestRow,
    unsettled,
    deletions,
  });
  const recorded = new Set(store.recorded);
  const waiting = restored.unsettled.filter(({ row }) => !recorded.has(row));
  const corrections = correctionsOf(before, { counted: restored.accepted, recorded: store.signals, waiting });
  await counter.correct(corrections);
  const lost = corrections.reduce((sum, correction) => sum + correction.lost, 0);
  return { lost, deletions: deletions.length };
}

/** Repeat all recent deletions: an undo may go back to any moment before the restore that it reverts. */
async function deletionsLostSinceMs(db: ControlDatabase, { workspaceId, to, undoes }: Restore): Promise<number> {
  if (to !== null) return Date.parse(to);
  const undone = undoes === null ? null : await findRestore(db, workspaceId, undoes);
  return undone === null ? 0 : Date.parse(undone.requestedAt);
}

/** Lost signals per billing period: accepted, but neither recorded nor waiting. */
function correctionsOf(
  { accepted }: BeforeRestore,
  now: {
    counted: Readonly<Record<string, number>>;
    recorded: Readonly<Record<string, number>>;
    waiting: readonly UnsettledRow[];
  },
): Correction[] {
  const waiting: Record<string, number> = {};
  for (const { periodStartMs, signals, isResent } of now.waiting) {
    // The store has the signal already, and the counter sends it again.
    if (!isResent) waiting[periodStartMs] = (waiting[periodStartMs] ?? 0) + signals;
  }
  return Object.entries(accepted).map(([start, signals]) => ({
    periodStartMs: Number(start),
    forgotten: signals - (now.counted[start] ?? 0),
    lost: Math.max(0, signals - (now.recorded[start] ?? 0) - (waiting[start] ?? 0)),
  }));
}
