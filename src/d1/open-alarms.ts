/** What the watch over all workspaces (use-cases/watch-health.ts) has to ask for, and what it has posted. */
import { and, asc, eq, inArray, lte, sql } from "drizzle-orm";
import type { BatchItem } from "drizzle-orm/batch";
import type { AlarmName } from "../domain/health/alarm.ts";
import type { OpenAlarm } from "../domain/health/alarm-post.ts";
import { hasRow, healthReports, iso, openAlarms, workspaces, type ControlDatabase } from "./database.ts";
import { IS_COMPLETE } from "./workspaces.ts";

export interface WatchedWorkspace {
  id: string;
  slug: string;
  jurisdiction: string;
  /** Null: no object has reported a new alarm. */
  reportedAt: string | null;
  open: OpenAlarm[];
}

/** Workspaces with a new report, oldest first; then those with an open alarm, in any order. At most `limit`. */
export async function workspacesToWatch(db: ControlDatabase, limit: number): Promise<WatchedWorkspace[]> {
  const { id, slug, jurisdiction } = workspaces;
  const columns = { id, slug, jurisdiction };
  const [reported, open] = await db.batch([
    db
      .select({ ...columns, reportedAt: healthReports.reportedAt })
      .from(healthReports)
      .innerJoin(workspaces, and(eq(id, healthReports.workspaceId), IS_COMPLETE))
      .orderBy(asc(healthReports.reportedAt))
      .limit(limit),
    db
      .select({ ...columns, alarm: openAlarms.alarm, since: openAlarms.since })
      .from(openAlarms)
      .innerJoin(workspaces, and(eq(id, openAlarms.workspaceId), IS_COMPLETE)),
  ]);
  const found = new Map<string, WatchedWorkspace>(reported.map((row) => [row.id, { ...row, open: [] }]));
  for (const { alarm, since, ...workspace } of open) {
    const watched = found.get(workspace.id) ?? { ...workspace, reportedAt: null, open: [] };
    watched.open.push({ alarm, since });
    found.set(workspace.id, watched);
  }
  return [...found.values()].slice(0, limit);
}

/** What the watch found in a workspace. */
interface AlarmChanges {
  workspaceId: string;
  /** Time of the report that led to it. A later report stays. */
  reportedAt: string | null;
  added: readonly { alarm: AlarmName }[];
  gone: readonly { alarm: AlarmName }[];
}

export async function storeAlarmChanges(
  db: ControlDatabase,
  changes: readonly AlarmChanges[],
  nowMs: number,
): Promise<void> {
  const [first, ...rest] = changes.flatMap((change) => statementsOf(db, change, nowMs));
  if (first !== undefined) await db.batch([first, ...rest]);
}

function statementsOf(
  db: ControlDatabase,
  { workspaceId, reportedAt, added, gone }: AlarmChanges,
  nowMs: number,
): BatchItem<"sqlite">[] {
  const statements: BatchItem<"sqlite">[] = [];
  if (reportedAt !== null) {
    const isAnswered = and(eq(healthReports.workspaceId, workspaceId), lte(healthReports.reportedAt, reportedAt));
    statements.push(db.delete(healthReports).where(isAnswered));
  }
  const names = gone.map(({ alarm }) => alarm);
  if (names.length > 0) {
    const isGone = and(eq(openAlarms.workspaceId, workspaceId), inArray(openAlarms.alarm, names));
    statements.push(db.delete(openAlarms).where(isGone));
  }
  if (added.length > 0) {
    const addedNames = JSON.stringify(added.map(({ alarm }) => alarm));
    // It may have ended meanwhile.
    const isComplete = hasRow(workspaces, and(eq(workspaces.id, workspaceId), IS_COMPLETE));
    const rows = sql`SELECT ${workspaceId}, value, ${iso(nowMs)} FROM json_each(${addedNames}) WHERE ${isComplete}`;
    statements.push(db.insert(openAlarms).select(rows).onConflictDoNothing());
  }
  return statements;
}
