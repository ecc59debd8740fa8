/** Restores of workspaces (workspace/restore-workspace.ts). */
import { and, desc, eq, isNull, lt } from "drizzle-orm";
import { auditEntry } from "./audit.ts";
import { restores, workspaces, hasRow, isOneOf, iso, type ControlContext, type ControlDatabase } from "./database.ts";
import type { OpenRestore } from "../domain/health/alarm.ts";
import type { BeforeRestore } from "../domain/restore.ts";
import { newId } from "../platform/ids.ts";

/** Times are ISO 8601 UTC. */
export type Restore = typeof restores.$inferSelect;

/** The moment to restore to, in milliseconds since 1970, or the id of the restore to undo. */
export type RestoreTarget = { atMs: number } | { undo: string };

/**
 * Creates a restore and its audit entry. Marks an abandoned restore of the workspace, which was still preparing, as refused.
 */
export async function createRestore({ db, workspaceId, by }: ControlContext, target: RestoreTarget): Promise<Restore> {
  const created: Restore = {
    id: newId("rst", by.nowMs),
    workspaceId,
    requestedAt: iso(by.nowMs),
    to: "atMs" in target ? iso(target.atMs) : null,
    undoes: "undo" in target ? target.undo : null,
    state: "preparing",
    before: null,
    lost: null,
    acknowledgedAt: null,
  };
  const { to, undoes } = created;
  const isPreparing = and(eq(restores.workspaceId, workspaceId), eq(restores.state, "preparing"));
  await db.batch([
    db.update(restores).set({ state: "refused", acknowledgedAt: created.requestedAt }).where(isPreparing),
    db.insert(restores).values(created),
    auditEntry(db, by, { workspaceId, action: "workspace.restored", target: created.id, detail: { to, undoes } }),
  ]);
  return created;
}

export async function findRestore(db: ControlDatabase, workspaceId: string, id: string): Promise<Restore | null> {
  const isThis = and(eq(restores.workspaceId, workspaceId), eq(restores.id, id));
  return (await db.select().from(restores).where(isThis).get()) ?? null;
}

/** The restore of the workspace that has begun to change its objects and has not ended. */
export async function unfinishedRestore(db: ControlDatabase, workspaceId: string): Promise<Restore | null> {
  const isUnfinished = and(eq(restores.workspaceId, workspaceId), eq(restores.state, "restoring"));
  return (await db.select().from(restores).where(isUnfinished).get()) ?? null;
}

export async function listRestores(db: ControlDatabase, workspaceId: string, limit: number): Promise<Restore[]> {
  const ofWorkspace = eq(restores.workspaceId, workspaceId);
  return db.select().from(restores).where(ofWorkspace).orderBy(desc(restores.id)).limit(limit);
}

/** Restores that need attention, by workspace: unfinished ones, and those that lost signals. */
export async function openRestores(
  db: ControlDatabase,
  workspaceIds: readonly string[],
): Promise<Map<string, OpenRestore[]>> {
  const found = await db
    .select()
    .from(restores)
    .where(and(isNull(restores.acknowledgedAt), isOneOf(restores.workspaceId, workspaceIds)));
  const open = new Map<string, OpenRestore[]>();
  for (const { workspaceId, id, state, lost } of found) {
    if (state !== "restoring" && (state !== "done" || !lost)) continue;
    const shown = { id, isFinished: state === "done", lost: lost ?? 0 };
    open.set(workspaceId, [...(open.get(workspaceId) ?? []), shown]);
  }
  return open;
}

export async function refuseRestore(db: ControlDatabase, restore: Restore, nowMs: number): Promise<void> {
  await db.batch(transition(db, restore, { state: "refused", acknowledgedAt: iso(nowMs) }, null));
}

/** The point of no return: the consumer records nothing until the restore ends. */
export async function beginRestoring(db: ControlDatabase, restore: Restore, before: BeforeRestore): Promise<void> {
  await db.batch(transition(db, restore, { state: "restoring", before }, restore.id));
}

function transition(
  db: ControlDatabase,
  { id, workspaceId }: Restore,
  change: Partial<Restore>,
  restoring: string | null,
) {
  return [
    db.update(restores).set(change).where(eq(restores.id, id)),
    db.update(workspaces).set({ restoring }).where(eq(workspaces.id, workspaceId)),
  ] as const;
}

/** Updates the counts before the restore. An interrupted restore calls it before it resets the counter. */
export async function updateBefore(db: ControlDatabase, id: string, before: BeforeRestore): Promise<void> {
  await db.update(restores).set({ before }).where(eq(restores.id, id));
}

/** @param lost number of accepted signals lost by this and all earlier restores. */
export async function endRestore(db: ControlDatabase, restore: Restore, lost: number, nowMs: number): Promise<void> {
  const { id, workspaceId } = restore;
  const isEarlier = and(eq(restores.workspaceId, workspaceId), lt(restores.id, id), isNull(restores.acknowledgedAt));
  await db.batch([
    db
      .update(restores)
      .set({ acknowledgedAt: iso(nowMs) })
      .where(isEarlier),
    ...transition(db, restore, { state: "done", lost }, null),
  ]);
}

/** Acknowledges the losses of a restore. Returns null if there is no such restore. */
export async function acknowledgeRestore({ db, workspaceId, by }: ControlContext, id: string): Promise<Restore | null> {
  const isThis = and(eq(restores.id, id), eq(restores.workspaceId, workspaceId), eq(restores.state, "done"));
  const isChange = and(isThis, isNull(restores.acknowledgedAt));
  const entry = { workspaceId, action: "workspace.restore_acknowledged", target: id } as const;
  await db.batch([
    auditEntry(db, by, entry, hasRow(restores, isChange)),
    db
      .update(restores)
      .set({ acknowledgedAt: iso(by.nowMs) })
      .where(isChange),
  ]);
  return findRestore(db, workspaceId, id);
}
