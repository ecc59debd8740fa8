/** The audit log: every creation, change and ending, written in the same batch as what it tells of. */
import type { JsonObject } from "../domain/json/json-object.ts";
import { isJsonObject } from "../domain/json/dot-path.ts";
import { newId } from "../platform/ids.ts";
import { iso, type Change, type ControlDatabase } from "./database.ts";
import { auditLog } from "./control-schema.ts";
import { sql, type SQL } from "drizzle-orm";

/** Characters of one value in the detail of an entry of the audit log, which is kept for ever: the rest is cut. */
const AUDIT_VALUE_MAX_CHARACTERS = 1_000;

export type AuditAction =
  | "plan.created"
  | "plan.updated"
  | "workspace.created"
  | "workspace.updated"
  | "workspace.recovered"
  | "workspace.restored"
  | "held.released"
  | "member.added"
  | "member.role_changed"
  | "member.removed"
  | "key.created"
  | "key.rotated"
  | "key.renamed"
  | "key.deactivated"
  | "rule.created"
  | "rule.updated"
  | "rule.deleted"
  | "rule.scores_removed"
  | "rules.imported"
  | "data.exported"
  | "person.deleted"
  | "rule.applied"
  | "dead_letters.replayed"
  | "key.silence_changed"
  | "destination.created"
  | "destination.updated"
  | "destination.paused"
  | "destination.resumed"
  | "destination.switched_off"
  | "destination.deleted"
  | "destination.secret_rotated"
  | "destination.tested"
  | "delivery.repeated"
  | "thresholds.changed";

/** Beginnings of actions that owners and admins see: others see neither the keys (spec §1) nor the notifications. */
export const MANAGERS_ACTIONS = ["key.", "destination.", "delivery.", "thresholds."] as const;

export interface AuditEntry {
  /** Null where a plan is changed, which belongs to no workspace. */
  workspaceId: string | null;
  action: AuditAction;
  /** Id of what the action was done to. */
  target: string;
  detail?: JsonObject;
}

/**
 * The statement that writes `entry`, for a `batch` with the change. With `onlyIf` it writes nothing where that does not
 * hold at this place of the batch: a repeated call, or one that came second, leaves no entry for what it did not do.
 */
export function auditEntry(db: ControlDatabase, by: Change, entry: AuditEntry, onlyIf: SQL = sql`true`) {
  const { workspaceId, action, target, detail = {} } = entry;
  // INSERT … SELECT takes the columns in the order of the table.
  return db.insert(auditLog).select(sql`
    select ${newId("aud", by.nowMs)}, ${workspaceId}, ${iso(by.nowMs)}, ${by.actor}, ${action}, ${target},
      ${JSON.stringify(bounded(detail))}
    where ${onlyIf}`);
}

/** The detail with each long value cut to its beginning, as text: one workspace's changes must not fill the database of all. */
function bounded(detail: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(detail).map(([name, value]) => {
      if (isJsonObject(value)) return [name, bounded(value)];
      const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
      return [name, text.length > AUDIT_VALUE_MAX_CHARACTERS ? `${text.slice(0, AUDIT_VALUE_MAX_CHARACTERS)}…` : value];
    }),
  );
}

/** Writes the entry of an action that changes nothing else in D1. */
export async function writeAuditEntry(db: ControlDatabase, by: Change, entry: AuditEntry): Promise<void> {
  await auditEntry(db, by, entry);
}
