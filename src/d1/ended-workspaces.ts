/** The end of a workspace in D1. The ids of its row stay for ever, so that no other workspace gets them; a receipt stays for 31 days. */
import { eq, gte, isNull, lt, or, sql } from "drizzle-orm";
import { DAY_MS } from "../domain/duration.ts";
import { auditEntry } from "./audit.ts";
import { returnRows } from "./imports.ts";
import {
  apiKeys,
  apiTokens,
  auditLog,
  type Change,
  type ControlDatabase,
  type EndCounts,
  endedWorkspaces,
  exclusionVersions,
  hasRow,
  healthReports,
  importedRows,
  iso,
  keyBudgets,
  mappingRules,
  members,
  openAlarms,
  payloadTemplates,
  ruleVersions,
  workspaceImports,
  workspaces,
  workspaceVersions,
} from "./database.ts";

const RECEIPT_KEPT_DAYS = 31;
/** Entries of the audit log that a statement deletes: far less than the time limit of a statement. */
const ENTRIES_AT_ONCE = 2_000;

/** The tables of which nothing of an ended workspace stays. The audit log goes before them. */
const OF_WORKSPACE = [
  apiKeys,
  payloadTemplates,
  keyBudgets,
  healthReports,
  openAlarms,
  apiTokens,
  members,
  ruleVersions,
  exclusionVersions,
  mappingRules,
  importedRows,
  workspaceImports,
  workspaceVersions,
];

export type EndReceipt = typeof endedWorkspaces.$inferSelect;

/** The receipt of an ended workspace, or of one whose end is in progress; null: there is none, or it is too old. */
export async function findEnd(db: ControlDatabase, workspaceId: string, nowMs: number): Promise<EndReceipt | null> {
  const isKept = or(
    isNull(endedWorkspaces.finishedAt),
    gte(endedWorkspaces.finishedAt, iso(nowMs - RECEIPT_KEPT_DAYS * DAY_MS)),
  );
  const found = await db
    .select()
    .from(endedWorkspaces)
    .where(sql`${eq(endedWorkspaces.workspaceId, workspaceId)} AND ${isKept}`);
  return found[0] ?? null;
}

/** The part of a receipt that D1 counts. */
export async function countRows(
  db: ControlDatabase,
  workspaceId: string,
): Promise<Pick<EndCounts, "keys" | "rules" | "members">> {
  const [keys, rules, people] = await Promise.all([
    db.$count(apiKeys, eq(apiKeys.workspaceId, workspaceId)),
    db.$count(mappingRules, eq(mappingRules.workspaceId, workspaceId)),
    db.$count(members, eq(members.workspaceId, workspaceId)),
  ]);
  return { keys, rules, members: people };
}

export async function hasEnded(db: ControlDatabase, workspaceId: string): Promise<boolean> {
  return (await db.$count(endedWorkspaces, eq(endedWorkspaces.workspaceId, workspaceId))) > 0;
}

/** From now on the operator API and the pages say that the workspace has ended, and the consumer drops its messages. Idempotent. */
export async function markEnded(
  db: ControlDatabase,
  workspaceId: string,
  by: Change,
  counts: EndCounts,
): Promise<void> {
  const isNew = sql`NOT ${hasRow(endedWorkspaces, eq(endedWorkspaces.workspaceId, workspaceId))}`;
  // The entry belongs to no workspace, because those of the workspace are deleted.
  const entry = { workspaceId: null, action: "workspace.ended", target: workspaceId, detail: { ...counts } } as const;
  await db.batch([
    auditEntry(db, by, entry, isNew),
    db
      .insert(endedWorkspaces)
      .select(
        sql`SELECT id, slug, ${iso(by.nowMs)}, NULL, ${JSON.stringify(counts)} FROM ${workspaces} WHERE id = ${workspaceId}`,
      )
      .onConflictDoNothing(),
    db.update(workspaces).set({ state: "ended" }).where(eq(workspaces.id, workspaceId)),
  ]);
}

/**
 * Deletes everything of an ended workspace but its id, its receipt, and the hashes of deleted people: they are repeated when an
 * export of the workspace is imported again. Idempotent.
 */
export async function deleteRows(db: ControlDatabase, workspaceId: string, nowMs: number): Promise<void> {
  await returnRows(db, workspaceId);
  const entries = db
    .select({ id: auditLog.id })
    .from(auditLog)
    .where(eq(auditLog.workspaceId, workspaceId))
    .limit(ENTRIES_AT_ONCE);
  for (let deleted = ENTRIES_AT_ONCE; deleted === ENTRIES_AT_ONCE;) {
    // oxlint-disable-next-line no-await-in-loop -- each deletes the next entries
    deleted = (await db.delete(auditLog).where(sql`${auditLog.id} IN ${entries}`)).meta.changes;
  }
  const isOld = lt(endedWorkspaces.finishedAt, iso(nowMs - RECEIPT_KEPT_DAYS * DAY_MS));
  // One batch: a key without its payload template would count as deactivated, which an isolate remembers for ever.
  await db.batch([
    // No slug has an underscore, so the id cannot be another workspace's.
    db.update(workspaces).set({ slug: workspaceId, name: "" }).where(eq(workspaces.id, workspaceId)),
    ...OF_WORKSPACE.map((table) => db.delete(table).where(eq(table.workspaceId, workspaceId))),
    db
      .update(endedWorkspaces)
      .set({ finishedAt: iso(nowMs) })
      .where(eq(endedWorkspaces.workspaceId, workspaceId)),
    db.delete(endedWorkspaces).where(isOld),
  ]);
}
