/** Deletions of persons as D1 has them: that they were asked for, without the email. */
import { and, eq, gte, lt, sql } from "drizzle-orm";
import { DAY_MS } from "../domain/duration.ts";
import { hashOfName } from "../domain/signal/hash-name.ts";
import { DELETION_REMEMBERED_DAYS } from "../limits.ts";
import { auditEntry, newAuditId } from "./audit.ts";
import { auditLog, deletions } from "./control-schema.ts";
import { iso, type Change, type ControlDatabase } from "./database.ts";

/** A database can be restored to the last 30 days: rows are kept for a day more. */
const DELETIONS_KEPT_DAYS = 31;
/** Old rows that one deletion clears, of all workspaces. */
const CLEARED_AT_ONCE = 100;

/** Notes a deletion before it begins. Returns the id of its entry in the audit log. */
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
 * When a deletion was asked for, in milliseconds since 1970; null: it was not, or so long ago that the store has forgotten it.
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
