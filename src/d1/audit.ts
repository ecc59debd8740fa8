/** The audit log. Each entry is written in the same batch as its change. */
import { and, desc, eq, getTableColumns, gte, lt, notLike, sql, type SQL } from "drizzle-orm";
import { auditLog, controlDatabase, insertIf, iso, isOneOf, type Change, type ControlDatabase } from "./database.ts";
import { cut } from "../domain/text.ts";
import { DAY_MS } from "../domain/duration.ts";
import { isJsonObject, type JsonObject } from "../domain/json/json-value.ts";
import { AUDIT_DETAIL_MAX_BYTES, ACTOR_MAX_CHANGES_A_DAY } from "../limits.ts";
import { newId, uuidv7From } from "../platform/ids.ts";
import { listPage, type ListQuery, type ListPage } from "../platform/list-page.ts";

/** Maximum characters of one value in an entry's detail; fewer if the detail has many long values. */
const AUDIT_VALUE_MAX_CHARACTERS = 1_000;

export type AuditAction =
  | "plan.created"
  | "plan.updated"
  | "workspace.created"
  | "workspace.updated"
  | "workspace.reconciled"
  | "workspace.ended"
  | "workspace.exported"
  | "workspace.imported"
  | "workspace.closed"
  | "workspace.opened"
  | "held.released"
  | "member.added"
  | "member.role_changed"
  | "member.removed"
  | "key.created"
  | "key.rotated"
  | "key.renamed"
  | "key.template_changed"
  | "key.webhook_changed"
  | "key.deactivated"
  | "rule.created"
  | "rule.updated"
  | "rule.deleted"
  | "rule.scores_removed"
  | "rules.imported"
  | "exclusions.changed"
  | "exclusions.applied"
  | "data.exported"
  | "person.deleted"
  | "rule.applied"
  | "dead_letters.replayed"
  | "key.silence_changed"
  | "key.limit_changed"
  | "token.created"
  | "token.revoked"
  | "destination.created"
  | "destination.updated"
  | "destination.paused"
  | "destination.resumed"
  | "destination.switched_off"
  | "destination.deleted"
  | "destination.secret_rotated"
  | "destination.confirmed"
  | "destination.tested"
  | "delivery.repeated"
  | "thresholds.changed";

/** Prefixes of actions that only owners and admins see: members see no keys (spec §1), API tokens and notifications. */
export const MANAGER_ACTION_PREFIXES = ["key.", "token.", "destination.", "delivery.", "thresholds."] as const;

interface AuditEntry {
  /** Given if the entry is written before a long operation; completeAuditEntries adds the numbers later. */
  id?: string;
  /** Null for a change of a plan or the end of a workspace, which belong to none. */
  workspaceId: string | null;
  action: AuditAction;
  target: string;
  detail?: JsonObject;
}

export function newAuditId(by: Change): string {
  return newId("aud", by.nowMs);
}

/**
 * The statement that writes `entry`, for a batch with the change. It writes nothing if `onlyIf` is false at this point of
 * the batch, so that a repeated call leaves no entry.
 */
export function auditEntry(db: ControlDatabase, by: Change, entry: AuditEntry, onlyIf: SQL = sql`true`) {
  const { id = newAuditId(by), detail = {}, ...rest } = entry;
  const row = { id, ...rest, at: iso(by.nowMs), actor: by.actor, detail: withinLimit(detail) };
  return insertIf(db, auditLog, row, onlyIf);
}

/** Random bytes at the end of an id that a statement generates. */
const TAIL_BYTES = 6;

/** The statement that writes an entry for each row of `from`, for a batch with the change. Target and detail are columns. */
export function auditEntryForEach(
  db: ControlDatabase,
  by: Change,
  { workspaceId, action, target, detail }: { workspaceId: string; action: AuditAction; target: SQL; detail: SQL },
  from: SQL,
) {
  const id = newAuditId(by).slice(0, -2 * TAIL_BYTES);
  return db.insert(auditLog).select(sql`
    select ${id} || lower(hex(randomblob(${TAIL_BYTES}))), ${workspaceId}, ${iso(by.nowMs)}, ${by.actor}, ${action},
      ${target}, ${detail}
    from ${from}`);
}

/**
 * The detail, with its values cut until its JSON has at most AUDIT_DETAIL_MAX_BYTES. The field names come from the code and
 * are few, so the JSON always fits in the end.
 */
function withinLimit(detail: JsonObject): JsonObject {
  for (let characters = AUDIT_VALUE_MAX_CHARACTERS; ; characters = Math.floor(characters / 2)) {
    const short = withShortValues(detail, characters);
    if (characters === 0 || Buffer.byteLength(JSON.stringify(short)) <= AUDIT_DETAIL_MAX_BYTES) return short;
  }
}

function withShortValues(detail: JsonObject, characters: number): JsonObject {
  return Object.fromEntries(
    Object.entries(detail).map(([name, value]) => {
      if (isJsonObject(value)) return [name, withShortValues(value, characters)];
      const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
      if (text.length <= characters) return [name, value];
      // Of a long list of objects, such as the conditions of a rule, the number says more than the beginning of its JSON.
      const isList = Array.isArray(value) && value.some(isJsonObject);
      return [name, isList ? value.length : cut(text, characters)];
    }),
  );
}

/** Whether the actor has reached ACTOR_MAX_CHANGES_A_DAY audit entries in the workspace. */
export async function hasReachedDailyChanges(
  db: ControlDatabase,
  workspaceId: string,
  { actor, nowMs }: Change,
): Promise<boolean> {
  // Ids begin with their creation time.
  const since = `aud_${uuidv7From(nowMs - DAY_MS)}`;
  const ofActor = and(eq(auditLog.workspaceId, workspaceId), eq(auditLog.actor, actor), gte(auditLog.id, since));
  const entries = db.select({ id: auditLog.id }).from(auditLog).where(ofActor).orderBy(desc(auditLog.id));
  const last = entries.limit(1).offset(ACTOR_MAX_CHANGES_A_DAY - 1);
  return (await last.get()) !== undefined;
}

/**
 * Sets the detail of an entry that was written before a long operation. Idempotent.
 *
 * @param joined ids of entries whose calls joined the running operation; their detail gets the id of this entry.
 */
export async function completeAuditEntries(
  d1: D1Database,
  id: string,
  detail: JsonObject,
  joined: readonly string[],
): Promise<void> {
  const db = controlDatabase(d1);
  const setDetail = (value: JsonObject, condition: SQL) => db.update(auditLog).set({ detail: value }).where(condition);
  await db.batch([setDetail(detail, eq(auditLog.id, id)), setDetail({ joined: id }, isOneOf(auditLog.id, joined))]);
}

export const AUDIT_WINDOW_ENTRIES = 1_000;

export interface AuditFilter {
  actor?: string | undefined;
  /** Part of the actor, in lower case. No index covers it. */
  actorPart?: string | undefined;
  action?: string | undefined;
  target?: string | undefined;
  /** Half-open interval in milliseconds since 1970; undefined means unbounded. */
  sinceMs?: number | undefined;
  untilMs?: number | undefined;
  forManagers: boolean;
}

const { workspaceId: _, ...COLUMNS } = getTableColumns(auditLog);
export type AuditRecord = Omit<typeof auditLog.$inferSelect, "workspaceId">;

/**
 * Lists entries, newest first. Target, actor and action have one index each. A filter that no single index covers scans
 * AUDIT_WINDOW_ENTRIES entries of one index; the slice may then be short, with a cursor for the next one.
 */
export async function listAudit(
  db: ControlDatabase,
  workspaceId: string,
  { target, actor, actorPart, action, sinceMs, untilMs, forManagers }: AuditFilter,
  listQuery: ListQuery,
): Promise<ListPage<AuditRecord>> {
  const { id } = auditLog;
  const indexed = and(
    eq(auditLog.workspaceId, workspaceId),
    target !== undefined ? eq(auditLog.target, target) : undefined,
    target === undefined && actor !== undefined ? eq(auditLog.actor, actor) : undefined,
    target === undefined && actor === undefined && action !== undefined ? eq(auditLog.action, action) : undefined,
    listQuery.cursor === null ? undefined : lt(id, listQuery.cursor),
    // Ids begin with their creation time.
    sinceMs === undefined ? undefined : gte(id, `aud_${uuidv7From(sinceMs)}`),
    untilMs === undefined ? undefined : lt(id, `aud_${uuidv7From(untilMs)}`),
  );
  const endOfWindow = db
    .select({ id })
    .from(auditLog)
    .where(indexed)
    .orderBy(desc(id))
    .limit(1)
    .offset(AUDIT_WINDOW_ENTRIES - 1);
  const [ends, rows] = await db.batch([
    endOfWindow,
    db
      .select(COLUMNS)
      .from(auditLog)
      .where(
        and(
          indexed,
          gte(id, sql`coalesce(${endOfWindow}, '')`),
          // The plus makes SQLite use the index of the target or actor instead of this column's.
          target !== undefined && actor !== undefined ? sql`+${auditLog.actor} = ${actor}` : undefined,
          actorPart === undefined ? undefined : sql`instr(lower(${auditLog.actor}), ${actorPart}) > 0`,
          action !== undefined ? sql`+${auditLog.action} = ${action}` : undefined,
          ...(forManagers ? [] : MANAGER_ACTION_PREFIXES.map((prefix) => notLike(auditLog.action, `${prefix}%`))),
        ),
      )
      .orderBy(desc(id))
      .limit(listQuery.limit + 1),
  ]);
  const { items, next } = listPage(rows, listQuery, (entry) => entry.id);
  return { items, next: next ?? ends[0]?.id ?? null };
}
