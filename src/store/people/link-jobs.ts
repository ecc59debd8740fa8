/** Which visitors are known by now and have earlier signals that are not their person's yet: one row each, see linking.ts. */
import { LINK_ALARM_MS } from "../../limits.ts";
import type { VisitorId } from "./identities.ts";
import { hasEntries, visitorList } from "./timelines.ts";

/** Notes those of the visitors that have such signals. Returns whether there are any. */
export function startLinkJobs(sql: SqlStorage, visitors: readonly VisitorId[], nowMs: number): boolean {
  let started = false;
  for (const visitor of visitors) {
    if (!hasEntries(sql, visitorList(visitor))) continue;
    const { kind, value } = visitor;
    sql.exec(
      "INSERT OR IGNORE INTO link_jobs (kind, value, due_at) VALUES (?, ?, ?)",
      kind,
      value,
      nowMs + LINK_ALARM_MS,
    );
    started = true;
  }
  return started;
}

/** When the next one is due, in milliseconds since 1970; null when there is none. */
export function nextLinkJobMs(sql: SqlStorage): number | null {
  return sql.exec<{ at: number | null }>("SELECT min(due_at) AS at FROM link_jobs").one().at;
}

/** One that nothing has hindered so far, the one that waits longest. */
export function dueLinkJob(sql: SqlStorage, byMs: number): VisitorId | null {
  const [row] = sql.exec<VisitorId & Record<string, SqlStorageValue>>(
    "SELECT kind, value FROM link_jobs WHERE due_at <= ? ORDER BY due_at LIMIT 1",
    byMs,
  );
  return row ?? null;
}

/** Whether there is one that is to be taken at once. */
export function hasFreshLinkJob(sql: SqlStorage, nowMs: number): boolean {
  return dueLinkJob(sql, nowMs + LINK_ALARM_MS) !== null;
}

/** Whether it is still to be done then: it may have been ended, or put off, meanwhile. */
export function isLinkJobDue(sql: SqlStorage, { kind, value }: VisitorId, byMs: number): boolean {
  const found = sql.exec("SELECT 1 FROM link_jobs WHERE kind = ? AND value = ? AND due_at <= ?", kind, value, byMs);
  return found.toArray().length > 0;
}

/** A turn has ended before all was done: the alarm goes on at once, with the one that waits longest. */
export function hurryLinkJobs(sql: SqlStorage, nowMs: number): void {
  const visitor = dueLinkJob(sql, nowMs + LINK_ALARM_MS);
  if (visitor !== null) putOffLinkJob(sql, visitor, nowMs);
}

export function endLinkJob(sql: SqlStorage, { kind, value }: VisitorId): void {
  sql.exec("DELETE FROM link_jobs WHERE kind = ? AND value = ?", kind, value);
}

export function putOffLinkJob(sql: SqlStorage, { kind, value }: VisitorId, untilMs: number): void {
  sql.exec("UPDATE link_jobs SET due_at = ? WHERE kind = ? AND value = ?", untilMs, kind, value);
}
