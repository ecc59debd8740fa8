/**
 * Numbers of an operation for the entry of the audit log that was written before it began. Loaded by the Signal Store when an
 * operation has ended.
 */
import { eq, sql } from "drizzle-orm";
import type { JsonObject } from "../domain/json/json-object.ts";
import { auditLog } from "./control-schema.ts";
import { controlDatabase } from "./database.ts";

/**
 * Sets the detail of an entry. Repeating it is harmless.
 *
 * @param joined entries of calls that asked for the same while it was under way: their detail names the entry.
 */
export async function completeAuditEntries(
  d1: D1Database,
  id: string,
  detail: JsonObject,
  joined: readonly string[],
): Promise<void> {
  const db = controlDatabase(d1);
  await db.batch([
    db.update(auditLog).set({ detail }).where(eq(auditLog.id, id)),
    db
      .update(auditLog)
      .set({ detail: { joined: id } })
      .where(sql`${auditLog.id} IN (SELECT value FROM json_each(${JSON.stringify(joined)}))`),
  ]);
}
