/** The audit log as it is read: newest first, all of it or by who did it and what was done. */
import type { JsonObject } from "../domain/signal/signal.ts";
import { uuidv7From } from "../platform/uuidv7.ts";
import { AUDIT_WINDOW_ENTRIES } from "../limits.ts";
import type { Page, PageOf } from "../platform/list-page.ts";
import { MANAGERS_ACTIONS } from "./audit.ts";
import { pageOf, type ControlDatabase } from "./database.ts";
import { auditLog } from "./schema.ts";
import { and, desc, eq, gte, lt, notLike, sql } from "drizzle-orm";

export interface AuditFilter {
  /** Exactly as the entry has them. */
  actor?: string;
  action?: string;
  /** Id of what it was done to. */
  target?: string;
  /** Milliseconds since 1970: not before, and before; null: no bound. */
  sinceMs?: number | null;
  untilMs?: number | null;
  /** Spec §1: whoever may not see the keys does not see what was done to them; nor to the notifications. */
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
 * Target, actor and action have an index each. What no index holds (several at once, and what only managers see left out) is looked for
 * among AUDIT_WINDOW_ENTRIES entries of one; then the page ends where it is, perhaps short, with a cursor to go on.
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
          // The plus: another index is the one that is gone by.
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
