/** The audit log as it is read: newest first, all of it or by who did it and what was done. */
import type { JsonObject } from "../domain/json/json-object.ts";
import { uuidv7From } from "../platform/uuidv7.ts";
import type { Page, PageOf } from "../platform/list-page.ts";
import { MANAGERS_ACTIONS } from "./audit.ts";
import { pageOf, type ControlDatabase } from "./database.ts";
import { auditLog } from "./control-schema.ts";
import { and, desc, eq, gte, lt, notLike, sql } from "drizzle-orm";

/** Entries of the audit log that one page of it looks at, where no index holds all that is asked for. */
const AUDIT_WINDOW_ENTRIES = 1_000;

export interface AuditFilter {
  /** Actor and action of an entry, compared exactly. */
  actor?: string;
  action?: string;
  /** Id of what the action was done to. */
  target?: string;
  /** Entries from `sinceMs` up to and without `untilMs`, in milliseconds since 1970; null: no bound. */
  sinceMs?: number | null;
  untilMs?: number | null;
  /** Whether entries about keys and notifications are included: only managers may see these (spec §1). */
  forManagers: boolean;
}

export interface AuditRecord {
  id: string;
  /** ISO 8601 UTC. */
  at: string;
  actor: string;
  action: string;
  target: string;
  detail: JsonObject;
}

const COLUMNS = {
  id: auditLog.id,
  at: auditLog.at,
  actor: auditLog.actor,
  action: auditLog.action,
  target: auditLog.target,
  detail: auditLog.detail,
};

/**
 * Target, actor and action have an index each. What no index holds (several of them at once, or entries without those that
 * only managers see) is looked for among AUDIT_WINDOW_ENTRIES entries of one index; then the page ends where it is, perhaps
 * short, with a cursor to go on.
 */
export async function listAudit(
  db: ControlDatabase,
  workspaceId: string,
  { target, actor, action, sinceMs = null, untilMs = null, forManagers }: AuditFilter,
  page: Page,
): Promise<PageOf<AuditRecord>> {
  const { id } = auditLog;
  const indexed = and(
    eq(auditLog.workspaceId, workspaceId),
    target !== undefined ? eq(auditLog.target, target) : undefined,
    target === undefined && actor !== undefined ? eq(auditLog.actor, actor) : undefined,
    target === undefined && actor === undefined && action !== undefined ? eq(auditLog.action, action) : undefined,
    page.cursor === null ? undefined : lt(id, page.cursor),
    // An entry's id begins with its time.
    sinceMs === null ? undefined : gte(id, `aud_${uuidv7From(sinceMs)}`),
    untilMs === null ? undefined : lt(id, `aud_${uuidv7From(untilMs)}`),
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
          // The plus keeps SQLite from this column's index: rows are found by that of the target, or of the actor.
          target !== undefined && actor !== undefined ? sql`+${auditLog.actor} = ${actor}` : undefined,
          action !== undefined ? sql`+${auditLog.action} = ${action}` : undefined,
          ...(forManagers ? [] : MANAGERS_ACTIONS.map((begin) => notLike(auditLog.action, `${begin}%`))),
        ),
      )
      .orderBy(desc(id))
      .limit(page.limit + 1),
  ]);
  const { items, next } = pageOf(rows, page, (entry) => entry.id);
  return { items, next: next ?? ends[0]?.id ?? null };
}
