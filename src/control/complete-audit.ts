/**
 * Adds the results of a finished operation to its audit entry. The Signal Store imports this file only when an operation
 * ends.
 */
import { eq, sql } from "drizzle-orm";
import type { JsonObject } from "../domain/json/json-value.ts";
import { auditLog } from "./control-schema.ts";
import { controlDatabase } from "./database.ts";

/**
 * Sets the detail of an entry. Idempotent.
 * @param joined ids of entries whose calls joined the running operation; their detail gets the id of this entry.
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
