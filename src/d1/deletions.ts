/** Requested deletions of people, for 31 days: the import of an older file repeats them. */
import { and, eq, gte, lt, sql } from "drizzle-orm";
import { auditEntry, newAuditId } from "./audit.ts";
import { auditLog, deletions, iso, type ControlContext, type ControlDatabase } from "./database.ts";
import { DAY_MS } from "../domain/duration.ts";
import { hashOfName } from "../domain/signal/identity.ts";
import { DELETION_REMEMBERED_DAYS } from "../limits.ts";

/** One day longer than D1 can be restored. */
export const DELETIONS_KEPT_DAYS = 31;
/** Maximum number of old rows, of all workspaces, that one deletion clears. */
const CLEARED_AT_ONCE = 100;

/** Records a deletion before it begins. Returns the id of its audit entry. */
export async function recordDeletion(
  { db, workspaceId, by }: ControlContext,
  { id, email }: { id: string; email: string },
): Promise<string> {
  const auditId = newAuditId(by);
  const emailHash = hashOfEmail(email);
  const oldest = iso(by.nowMs - DELETIONS_KEPT_DAYS * DAY_MS);
  const old = db.select({ id: deletions.id }).from(deletions).where(lt(deletions.requestedAt, oldest));
  await db.batch([
    auditEntry(db, by, { id: auditId, workspaceId, action: "person.deleted", target: id }),
    db.insert(deletions).values({ id, workspaceId, requestedAt: iso(by.nowMs), emailHash }),
    db.delete(deletions).where(sql`${deletions.id} IN ${old.limit(CLEARED_AT_ONCE)}`),
  ]);
  return auditId;
}

function hashOfEmail(email: string): string {
  return hashOfName({ kind: "email", value: email });
}

export async function setAuditReceipt(db: ControlDatabase, auditId: string, receiptId: string): Promise<void> {
  await db.update(auditLog).set({ target: receiptId }).where(eq(auditLog.id, auditId));
}

/**
 * Time of a deletion request, in milliseconds since 1970. Null: unknown, or so old that the store has forgotten it.
 *
 * @param deletion the deletion with this receipt, or the latest deletion of this email.
 */
export async function deletionRequestedMs(
  db: ControlDatabase,
  workspaceId: string,
  deletion: { id: string } | { email: string },
  nowMs: number,
): Promise<number | null> {
  const since = iso(nowMs - DELETION_REMEMBERED_DAYS * DAY_MS);
  const isWanted =
    "id" in deletion ? eq(deletions.id, deletion.id) : eq(deletions.emailHash, hashOfEmail(deletion.email));
  const [found] = await db
    .select({ latest: sql<string | null>`max(${deletions.requestedAt})` })
    .from(deletions)
    .where(and(eq(deletions.workspaceId, workspaceId), gte(deletions.requestedAt, since), isWanted));
  const latest = found?.latest ?? null;
  return latest === null ? null : Date.parse(latest);
}
