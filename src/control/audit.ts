/** The audit log: every creation, change and ending, written in the same batch as what it tells of. */
import { cut } from "../domain/cut.ts";
import type { JsonObject } from "../domain/json/json-object.ts";
import { isJsonObject } from "../domain/json/dot-path.ts";
import { DAY_MS } from "../domain/duration.ts";
import { AUDIT_DETAIL_MAX_BYTES, PERSON_MAX_CHANGES_A_DAY } from "../limits.ts";
import { newId } from "../platform/ids.ts";
import { uuidv7From } from "../platform/uuidv7.ts";
import { iso, type Change, type ControlDatabase } from "./database.ts";
import { auditLog } from "./control-schema.ts";
import { and, desc, eq, gte, sql, type SQL } from "drizzle-orm";

/** Characters of one value in the detail of an entry: the rest is cut. Fewer where the detail has many long values. */
const AUDIT_VALUE_MAX_CHARACTERS = 1_000;

export type AuditAction =
  | "plan.created"
  | "plan.updated"
  | "workspace.created"
  | "workspace.updated"
  | "workspace.recovered"
  | "workspace.restored"
  | "workspace.restore_acknowledged"
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
  /** Id of the entry, where it is written before the action begins: its numbers are added later (complete-audit.ts). */
  id?: string;
  /** Null where a plan is changed, which belongs to no workspace. */
  workspaceId: string | null;
  action: AuditAction;
  /** Id of what the action was done to. */
  target: string;
  detail?: JsonObject;
}

export function newAuditId(by: Change): string {
  return newId("aud", by.nowMs);
}

/**
 * The statement that writes `entry`, for a `batch` with the change. With `onlyIf` it writes nothing where that does not
 * hold at this place of the batch: a repeated call, or one that came second, leaves no entry for what it did not do.
 */
export function auditEntry(db: ControlDatabase, by: Change, entry: AuditEntry, onlyIf: SQL = sql`true`) {
  const { id = newAuditId(by), workspaceId, action, target, detail = {} } = entry;
  // INSERT … SELECT takes the columns in the order of the table.
  return db.insert(auditLog).select(sql`
    select ${id}, ${workspaceId}, ${iso(by.nowMs)}, ${by.actor}, ${action}, ${target},
      ${boundedJson(detail)}
    where ${onlyIf}`);
}

/**
 * The detail as JSON of at most AUDIT_DETAIL_MAX_BYTES. All values have the same maximum of characters, which is halved until
 * the JSON fits. The names come from the code and are few, so that it always fits in the end.
 */
function boundedJson(detail: JsonObject): string {
  for (let characters = AUDIT_VALUE_MAX_CHARACTERS; ; characters = Math.floor(characters / 2)) {
    const json = JSON.stringify(withShortValues(detail, characters));
    if (characters === 0 || Buffer.byteLength(json) <= AUDIT_DETAIL_MAX_BYTES) return json;
  }
}

/** The detail with each value of more than `characters` cut to its beginning, as text. */
function withShortValues(detail: JsonObject, characters: number): JsonObject {
  return Object.fromEntries(
    Object.entries(detail).map(([name, value]) => {
      if (isJsonObject(value)) return [name, withShortValues(value, characters)];
      const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
      return [name, text.length > characters ? cut(text, characters) : value];
    }),
  );
}

/** Whether somebody has as many entries of the last 24 hours in the workspace as one person may have. */
export async function hasMostChangesOfADay(
  db: ControlDatabase,
  workspaceId: string,
  { actor, nowMs }: Change,
): Promise<boolean> {
  // An id begins with the time at which it was made.
  const since = `aud_${uuidv7From(nowMs - DAY_MS)}`;
  const ofPerson = and(eq(auditLog.workspaceId, workspaceId), eq(auditLog.actor, actor), gte(auditLog.id, since));
  const oldest = db.select({ id: auditLog.id }).from(auditLog).where(ofPerson).orderBy(desc(auditLog.id));
  return (
    (await oldest
      .limit(1)
      .offset(PERSON_MAX_CHANGES_A_DAY - 1)
      .get()) !== undefined
  );
}

/** Writes the entry of an action that changes nothing else in D1. */
export async function writeAuditEntry(db: ControlDatabase, by: Change, entry: AuditEntry): Promise<void> {
  await auditEntry(db, by, entry);
}
