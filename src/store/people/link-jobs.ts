/** Jobs for known visitors with unlinked earlier signals: one row each, see linking.ts. */
import { visitorKey, visitorOfKey } from "./visitors.ts";
import type { VisitorId } from "./visitors.ts";

/** The alarm takes a link job when the consumer that caused it has not within this time. */
export const LINK_ALARM_MS = 10_000;

/** Due time of jobs of a person being deleted: after the deletion has processed the visitor. */
export const AFTER_DELETION = Number.MAX_SAFE_INTEGER;

/** Changes of scores by linking: signals that score now, differently, or no longer. */
export interface LinkCounts {
  personId: number;
  added: number;
  changed: number;
  removed: number;
  /** By how much the scores of all people together have changed. */
  points: number;
}

/** Adds a job for a visitor. An existing job keeps its place. */
export function startLinkJob(sql: SqlStorage, visitor: VisitorId, nowMs: number): void {
  sql.exec("INSERT OR IGNORE INTO link_jobs (key, due_at) VALUES (?, ?)", visitorKey(visitor), nowMs + LINK_ALARM_MS);
}

/** When the next job is due, in milliseconds since 1970; null when there is none, or all are to wait for a deletion. */
export function nextLinkJobMs(sql: SqlStorage): number | null {
  const { at } = sql.exec<{ at: number | null }>("SELECT min(due_at) AS at FROM link_jobs").one();
  return at === AFTER_DELETION ? null : at;
}

/** Visitors whose jobs are due at that time, longest waiting first. */
export function dueLinkJobs(sql: SqlStorage, byMs: number, limit: number): VisitorId[] {
  return sql
    .exec<{ key: ArrayBuffer }>("SELECT key FROM link_jobs WHERE due_at <= ? ORDER BY due_at LIMIT ?", byMs, limit)
    .toArray()
    .map(({ key }) => visitorOfKey(key));
}

/** Whether a job exists that has not failed yet; it runs at once. */
export function hasFreshLinkJob(sql: SqlStorage, nowMs: number): boolean {
  return dueLinkJobs(sql, nowMs + LINK_ALARM_MS, 1).length > 0;
}

export function hasLinkJob(sql: SqlStorage, visitor: VisitorId): boolean {
  return isLinkJobDue(sql, visitor, AFTER_DELETION);
}

/** Whether a visitor's job is due by then: it may have been ended, or put off, meanwhile. */
export function isLinkJobDue(sql: SqlStorage, visitor: VisitorId, byMs: number): boolean {
  const found = sql.exec("SELECT 1 FROM link_jobs WHERE key = ? AND due_at <= ?", visitorKey(visitor), byMs);
  return found.toArray().length > 0;
}

/** Makes the alarm continue at once with the longest waiting job, after an incomplete run. */
export function hurryLinkJobs(sql: SqlStorage, nowMs: number): void {
  const [visitor] = dueLinkJobs(sql, nowMs + LINK_ALARM_MS, 1);
  if (visitor !== undefined) putOffLinkJob(sql, visitor, nowMs);
}

/** Notes with a job what its steps have done so far. */
export function saveLinkCounts(sql: SqlStorage, visitor: VisitorId, counts: readonly LinkCounts[]): void {
  sql.exec("UPDATE link_jobs SET counts = ? WHERE key = ?", JSON.stringify(counts), visitorKey(visitor));
}

/** Sums of a job's steps by person, if a destination wants them. */
export function linkCounts(sql: SqlStorage, visitor: VisitorId): LinkCounts[] {
  const [job] = sql.exec<{ counts: string }>("SELECT counts FROM link_jobs WHERE key = ?", visitorKey(visitor));
  return job === undefined ? [] : (JSON.parse(job.counts) as LinkCounts[]);
}

export function endLinkJob(sql: SqlStorage, visitor: VisitorId): void {
  sql.exec("DELETE FROM link_jobs WHERE key = ?", visitorKey(visitor));
}

export function putOffLinkJob(sql: SqlStorage, visitor: VisitorId, untilMs: number): void {
  sql.exec("UPDATE link_jobs SET due_at = ? WHERE key = ?", untilMs, visitorKey(visitor));
}
