/** Restores of workspaces (workspace/restore-workspace.ts), and the deletions that they repeat. */
import { and, desc, eq, gte, inArray, isNull, lt, sql } from "drizzle-orm";
import { auditEntry, newAuditId } from "./audit.ts";
import { auditLog, deletions, mappingRules, restores, workspaces } from "./control-schema.ts";
import { iso, type Change, type ControlDatabase } from "./database.ts";
import { DAY_MS } from "../domain/duration.ts";
import type { OpenRestore } from "../domain/health/alarm.ts";
import type { BeforeRestore, RestoreState } from "../domain/restore.ts";
import type { RuleVersions } from "../domain/rules/rule-content.ts";
import { hashOfName } from "../domain/signal/identity.ts";
import { DELETION_REMEMBERED_DAYS } from "../limits.ts";
import { newId } from "../platform/ids.ts";

/** Times are ISO 8601 UTC. */
export type Restore = typeof restores.$inferSelect;

/** The moment to restore to, in milliseconds since 1970, or the id of the restore to undo. */
export type RestoreTarget = { atMs: number } | { undo: string };

/**
 * Creates a restore and its audit entry. Marks an abandoned restore of the workspace, which was still preparing, as refused.
 */
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

/** Restores that need attention, by workspace: unfinished ones, and those that lost signals. */
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

/** Ends a restore that has changed nothing. */
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

/** The point of no return: the consumer records nothing until the restore ends. */
export async function beginRestoring(db: ControlDatabase, restore: Restore, before: BeforeRestore): Promise<void> {
  const { id, workspaceId } = restore;
  await db.batch([
    db.update(restores).set({ state: "restoring", before }).where(eq(restores.id, id)),
    db.update(workspaces).set({ restoring: id }).where(eq(workspaces.id, workspaceId)),
  ]);
}

/** Updates the counts before the restore. An interrupted restore calls it before it resets the counter. */
export async function updateBefore(db: ControlDatabase, id: string, before: BeforeRestore): Promise<void> {
  await db.update(restores).set({ before }).where(eq(restores.id, id));
}

/** @param lost number of accepted signals lost by this and all earlier restores. */
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

/** Acknowledges the losses of a restore. Returns null if there is no such restore. */
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

/** Deletions of persons that were requested since `sinceMs` (milliseconds since 1970). */
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

/** One day longer than D1 can be restored. */
const DELETIONS_KEPT_DAYS = 31;
/** Maximum number of old rows, of all workspaces, that one deletion clears. */
const CLEARED_AT_ONCE = 100;

/** Records a deletion before it begins. Returns the id of its audit entry. */
export async function beginPersonDeletion(
  db: ControlDatabase,
  by: Change,
  { id, workspaceId, email }: { id: string; workspaceId: string; email: string },
): Promise<string> {
  const auditId = newAuditId(by);
  const emailHash = hashOfName({ kind: "email", value: email });
  const oldest = iso(by.nowMs - DELETIONS_KEPT_DAYS * DAY_MS);
  const old = db.select({ id: deletions.id }).from(deletions).where(lt(deletions.requestedAt, oldest));
  await db.batch([
    auditEntry(db, by, { id: auditId, workspaceId, action: "person.deleted", target: id }),
    db.insert(deletions).values({ id, workspaceId, requestedAt: iso(by.nowMs), emailHash }),
    db.delete(deletions).where(sql`${deletions.id} IN ${old.limit(CLEARED_AT_ONCE)}`),
  ]);
  return auditId;
}

/** Names another receipt in an entry of the audit log: that of the deletion that was under way. */
export async function renameDeletion(db: ControlDatabase, auditId: string, receiptId: string): Promise<void> {
  await db.update(auditLog).set({ target: receiptId }).where(eq(auditLog.id, auditId));
}

/**
 * Time of a deletion request, in milliseconds since 1970; null: unknown, or so old that the store has forgotten it.
 *
 * @param which the deletion with this receipt, or the latest one of this email.
 */
export async function deletionAskedMs(
  db: ControlDatabase,
  workspaceId: string,
  which: { id: string } | { email: string },
  nowMs: number,
): Promise<number | null> {
  const since = iso(nowMs - DELETION_REMEMBERED_DAYS * DAY_MS);
  const isIt =
    "id" in which
      ? eq(deletions.id, which.id)
      : eq(deletions.emailHash, hashOfName({ kind: "email", value: which.email }));
  const [found] = await db
    .select({ latest: sql<string | null>`max(${deletions.requestedAt})` })
    .from(deletions)
    .where(and(eq(deletions.workspaceId, workspaceId), gte(deletions.requestedAt, since), isIt));
  const latest = found?.latest ?? null;
  return latest === null ? null : Date.parse(latest);
}

/**
 * Version numbers skipped beyond the latest known one. Isolates cache rules by the workspace's version, and the
 * versions lost by the restore had other rules. Nobody makes more changes than this between backup and restore.
 */
const PASSED_OVER = 1_000;

/**
 * Raises the rules versions of a workspace above all known ones. Signals are then processed again, and a rule applied
 * to the past is the latest version. Returns whether that was necessary.
 */
export async function passOverVersions(db: ControlDatabase, workspaceId: string, seen: RuleVersions): Promise<boolean> {
  const versions = sql`(SELECT value ->> 1 AS seen FROM json_each(${JSON.stringify(seen.rules)}) WHERE value ->> 0 = ${mappingRules.id})`;
  const isBehind = sql`${mappingRules.version} < ${versions}`;
  const [passed, rules] = await db.batch([
    db
      .update(workspaces)
      .set({ rulesVersion: seen.workspace + PASSED_OVER })
      .where(sql`${eq(workspaces.id, workspaceId)} AND ${lt(workspaces.rulesVersion, seen.workspace)}`)
      .returning({ id: workspaces.id }),
    db
      .update(mappingRules)
      .set({ version: sql`1 + ${versions}` })
      .where(sql`${eq(mappingRules.workspaceId, workspaceId)} AND ${isBehind}`)
      .returning({ id: mappingRules.id }),
  ]);
  return passed.length + rules.length > 0;
}
