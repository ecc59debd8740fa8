/**
 * Brings a workspace in line after a restore of its objects (restore-workspace.ts) or of D1. Repeating it is harmless, and
 * finishes what was interrupted; a healthy workspace stays as it is.
 */
import { writeAuditEntry } from "../control/audit.ts";
import type { Change, ControlDatabase } from "../control/database.ts";
import { passOverVersions } from "../control/restores.ts";
import { deletionsSince, endRestore, findRestore, unfinishedRestore, type Restore } from "../control/restores.ts";
import { deactivatedKeyIds } from "../control/api-keys.ts";
import { raiseConfigVersion } from "../control/workspaces.ts";
import type { BeforeRestore } from "../domain/restore.ts";
import type { Correction } from "../quota/counter-restore.ts";
import type { UnsettledRow } from "../quota/protocol.ts";
import { configureCounter } from "./configure-workspace.ts";
import { destinationsOf, quotaCounter, signalStore } from "./objects.ts";

export interface Recovered {
  /** Deactivated keys that the counter took for active. */
  revoked: number;
  /** Whether mapping rules were older than what the store had seen of them, and have got later versions. */
  rulesPassedOver: boolean;
  /** Accepted signals that this restore and earlier ones have lost; null where no restore of the objects was to be finished. */
  lost: number | null;
  /** Deletions of persons that were repeated. */
  deletionsRepeated: number;
}

/** @throws where a restore has not restored all objects: it is to be repeated. */
export async function recoverWorkspace(
  env: Env,
  db: ControlDatabase,
  workspaceId: string,
  by: Change,
): Promise<Recovered> {
  const counter = quotaCounter(env, workspaceId);
  // Deactivated keys come first: until the counter knows them again, it accepts calls with them.
  const revoked = await counter.revokeAll(await deactivatedKeyIds(db, workspaceId), by.nowMs);
  const restore = await unfinishedRestore(db, workspaceId);
  // A restored D1 may have an older version of plan and overages than the counter, which would ignore it.
  if (restore === null) await raiseConfigVersion(db, workspaceId, (await counter.usage())?.configVersion ?? 0);
  await configureCounter(env, db, workspaceId);
  const finished = restore === null ? null : await finish(env, db, restore);
  const rulesPassedOver = await passOverVersions(db, workspaceId, await signalStore(env, workspaceId).ruleVersions());
  // Which events are wanted may have changed since the moment restored to.
  await destinationsOf(env, workspaceId).tellSources();
  const detail = {
    revoked,
    rulesPassedOver,
    lost: finished?.lost ?? null,
    deletionsRepeated: finished?.deletions ?? 0,
  };
  await writeAuditEntry(db, by, {
    workspaceId,
    action: "workspace.recovered",
    target: restore?.id ?? workspaceId,
    detail,
  });
  if (restore !== null) await endRestore(db, restore, finished?.lost ?? 0, by.nowMs);
  return detail;
}

async function finish(env: Env, db: ControlDatabase, restore: Restore): Promise<{ lost: number; deletions: number }> {
  const { id, workspaceId } = restore;
  // It has changed since the restore began where that was interrupted.
  const before = (await findRestore(db, workspaceId, id))?.before ?? null;
  if (before === null) throw new Error("a restore that has begun knows what was before");
  const counter = quotaCounter(env, workspaceId);
  if (await counter.awaitsRestore(id)) throw new Error("The restore has not restored all objects. Repeat it.");
  const restored = await counter.afterRestore(before.highestRow);
  const deletions = await deletionsSince(db, workspaceId, await sinceMs(db, restore));
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

/** Deletions since then may be forgotten: an undo may go back to any moment before the restore that it undoes. */
async function sinceMs(db: ControlDatabase, { workspaceId, to, undoes }: Restore): Promise<number> {
  if (to !== null) return Date.parse(to);
  const undone = undoes === null ? null : await findRestore(db, workspaceId, undoes);
  return undone === null ? 0 : Date.parse(undone.requestedAt);
}

/** What is lost of each billing period: what was accepted, and is neither recorded nor waits to be. */
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
    // The store has a signal that is sent once more.
    if (!isResent) waiting[periodStartMs] = (waiting[periodStartMs] ?? 0) + signals;
  }
  return Object.entries(accepted).map(([start, signals]) => ({
    periodStartMs: Number(start),
    forgotten: signals - (now.counted[start] ?? 0),
    lost: Math.max(0, signals - (now.recorded[start] ?? 0) - (waiting[start] ?? 0)),
  }));
}
