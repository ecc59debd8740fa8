/** Restores of workspaces (workspace/restore-workspace.ts), and the deletions that they repeat. */
import { and, desc, eq, gte, inArray, isNull, lt, sql } from "drizzle-orm";
import type { OpenRestore } from "../domain/health/alarm.ts";
import type { BeforeRestore, RestoreState } from "../domain/restore.ts";
import { newId } from "../platform/ids.ts";
import { auditEntry } from "./audit.ts";
import { deletions, restores, workspaces } from "./control-schema.ts";
import { iso, type Change, type ControlDatabase } from "./database.ts";

/** Times are ISO 8601 UTC. */
export type Restore = typeof restores.$inferSelect;

/** What a workspace is restored to: a moment in milliseconds since 1970, or the moment before another restore of it. */
export type RestoreTarget = { atMs: number } | { undo: string };

/** Creates a restore, with its entry in the audit log. One that was given up while it was prepared is refused with it. */
export async function createRestore(
  db: ControlDatabase,
  workspaceId: string,
  target: RestoreTarget,
  by: Change,
): Promise<Restore> {
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

/** The latest restores of a workspace, newest first. */
export async function listRestores(db: ControlDatabase, workspaceId: string, limit: number): Promise<Restore[]> {
  const ofWorkspace = eq(restores.workspaceId, workspaceId);
  return db.select().from(restores).where(ofWorkspace).orderBy(desc(restores.id)).limit(limit);
}

/** By workspace, the restores that somebody has to look at: they are unfinished, or have lost signals. */
export async function openRestores(
  db: ControlDatabase,
  workspaceIds: readonly string[],
): Promise<Map<string, OpenRestore[]>> {
  const isOneOf = inArray(restores.workspaceId, sql`(SELECT value FROM json_each(${JSON.stringify(workspaceIds)}))`);
  const found = await db
    .select()
    .from(restores)
    .where(and(isNull(restores.acknowledgedAt), isOneOf));
  const open = found.filter(({ state, lost }) => state === "restoring" || (state === "done" && (lost ?? 0) > 0));
  const byWorkspace = Map.groupBy(open, ({ workspaceId }) => workspaceId);
  const shown = ({ id, state, lost }: Restore) => ({ id, isFinished: state === "done", lost: lost ?? 0 });
  return new Map([...byWorkspace].map(([workspaceId, some]) => [workspaceId, some.map(shown)] as const));
}

/** Nothing was changed: the workspace goes on as it was. */
export async function refuseRestore(db: ControlDatabase, { id, workspaceId }: Restore, nowMs: number): Promise<void> {
  const state: RestoreState = "refused";
  await db.batch([
    db
      .update(restores)
      .set({ state, acknowledgedAt: iso(nowMs) })
      .where(eq(restores.id, id)),
    db.update(workspaces).set({ restoring: null }).where(eq(workspaces.id, workspaceId)),
  ]);
}

/** From here on the restore only goes forward, and nothing is recorded until it ends. */
export async function beginRestoring(db: ControlDatabase, restore: Restore, before: BeforeRestore): Promise<void> {
  const { id, workspaceId } = restore;
  await db.batch([
    db.update(restores).set({ state: "restoring", before }).where(eq(restores.id, id)),
    db.update(workspaces).set({ restoring: id }).where(eq(workspaces.id, workspaceId)),
  ]);
}

/** Notes what was counted until now, by a restore that was interrupted before it came to the counter. */
export async function updateBefore(db: ControlDatabase, id: string, before: BeforeRestore): Promise<void> {
  await db.update(restores).set({ before }).where(eq(restores.id, id));
}

/** @param lost all accepted signals that are lost: what earlier restores have lost is part of it. */
export async function endRestore(
  db: ControlDatabase,
  { id, workspaceId }: Restore,
  lost: number,
  nowMs: number,
): Promise<void> {
  const isEarlier = and(eq(restores.workspaceId, workspaceId), lt(restores.id, id), isNull(restores.acknowledgedAt));
  await db.batch([
    db
      .update(restores)
      .set({ acknowledgedAt: iso(nowMs) })
      .where(isEarlier),
    db.update(restores).set({ state: "done", lost }).where(eq(restores.id, id)),
    db.update(workspaces).set({ restoring: null }).where(eq(workspaces.id, workspaceId)),
  ]);
}

/** Notes that somebody has seen what a restore has lost. Returns null where there is no such restore. */
export async function acknowledgeRestore(
  db: ControlDatabase,
  workspaceId: string,
  id: string,
  by: Change,
): Promise<Restore | null> {
  const isThis = and(eq(restores.id, id), eq(restores.workspaceId, workspaceId), eq(restores.state, "done"));
  const isNews = and(isThis, isNull(restores.acknowledgedAt));
  const isThere = sql`EXISTS ${db.select({ id: restores.id }).from(restores).where(isNews)}`;
  await db.batch([
    auditEntry(db, by, { workspaceId, action: "workspace.restore_acknowledged", target: id }, isThere),
    db
      .update(restores)
      .set({ acknowledgedAt: iso(by.nowMs) })
      .where(isNews),
  ]);
  return findRestore(db, workspaceId, id);
}

/** Deletions of persons in the workspace that were asked for since then, in milliseconds since 1970. */
export async function deletionsSince(
  db: ControlDatabase,
  workspaceId: string,
  sinceMs: number,
): Promise<{ id: string; requestedAtMs: number; emailHash: string }[]> {
  const found = await db
    .select()
    .from(deletions)
    .where(and(eq(deletions.workspaceId, workspaceId), gte(deletions.requestedAt, iso(sinceMs))));
  return found.map(({ id, requestedAt, emailHash }) => ({ id, requestedAtMs: Date.parse(requestedAt), emailHash }));
}
