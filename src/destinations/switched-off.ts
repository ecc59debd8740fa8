/** The audit log's entry of a destination that the service has switched off. Loaded when there is one. */
import { writeAuditEntry } from "../control/audit.ts";
import { controlDatabase } from "../control/database.ts";
import type { JsonObject } from "../domain/json/json-object.ts";

export async function noteSwitchedOff(
  db: D1Database,
  workspaceId: string,
  one: { destination_id: string; at_ms: number; detail: string },
): Promise<void> {
  const by = { actor: "service", nowMs: one.at_ms };
  const detail = JSON.parse(one.detail) as JsonObject;
  const entry = { workspaceId, action: "destination.switched_off", target: one.destination_id, detail } as const;
  await writeAuditEntry(controlDatabase(db), by, entry);
}
