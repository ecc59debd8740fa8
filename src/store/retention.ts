/**
 * Signals that have been kept as long as the plan says are deleted, by the store's alarm, a bounded number at a time:
 * rows, hashes, payloads in cold storage. People, scores and scoring signals stay; so do the books and the counts of the
 * signal queue, which say what was received. A held signal goes when its period ends, never through here.
 *
 * No index on the receipt is needed: signal ids begin with the time at which the edge gave them, just before.
 */
import { DAY_MS } from "../domain/duration.ts";
import { uuidv7, UUIDV7_RANDOM_BYTES } from "../domain/uuidv7.ts";
import { RETENTION_ROWS, RETENTION_SWEEP_MS } from "../limits.ts";
import { scrub } from "./cold-storage.ts";
import type { StoreConfig } from "./data-care.ts";
import { EventGroupChanges } from "./tables.ts";

/** Repeating it changes nothing. */
export function setRetention(sql: SqlStorage, { retentionDays }: StoreConfig, nowMs: number): void {
  if (
    (sql.exec<{ days: number | null }>("SELECT days FROM retention WHERE id = 1").toArray()[0]?.days ?? null) ===
    retentionDays
  ) {
    return;
  }
  sql.exec(
    `INSERT INTO retention (id, days, next_at, deleted_until) VALUES (1, ?1, ?2, 0)
     ON CONFLICT (id) DO UPDATE SET days = excluded.days, next_at = excluded.next_at`,
    retentionDays,
    nowMs,
  );
}

/** When signals are to be looked for, in milliseconds since 1970; null when they are kept for ever. */
export function nextRetentionMs(sql: SqlStorage): number | null {
  return (
    sql.exec<{ next_at: number }>("SELECT next_at FROM retention WHERE id = 1 AND days IS NOT NULL").toArray()[0]
      ?.next_at ?? null
  );
}

/** Receipt of the latest signal deleted so far, in milliseconds since 1970; 0 when there was none. */
export function deletedUntilMs(sql: SqlStorage): number {
  return sql.exec<{ at: number }>("SELECT deleted_until AS at FROM retention WHERE id = 1").toArray()[0]?.at ?? 0;
}

export function deleteExpired(sql: SqlStorage, nowMs: number): void {
  const [kept] = sql
    .exec<{ days: number }>("SELECT days FROM retention WHERE id = 1 AND days IS NOT NULL AND next_at <= ?", nowMs)
    .toArray();
  if (kept === undefined) return;
  const beforeMs = nowMs - kept.days * DAY_MS;
  const deleted = sql
    .exec<{
      event: string;
      source: string;
      status: string;
      received_at: number;
      cold_object: string | null;
    }>(
      `DELETE FROM signals WHERE seq IN
         (SELECT seq FROM signals WHERE id < ? AND received_at < ? AND +status <> 'held' ORDER BY id LIMIT ?)
       RETURNING event, source, status, received_at, cold_object`,
      firstId(beforeMs),
      beforeMs,
      RETENTION_ROWS,
    )
    .toArray();
  const groups = new EventGroupChanges();
  let until = 0;
  for (const { event, source, status, received_at: receivedAtMs } of deleted) {
    if (status === "anonymous") groups.count(event, source, { count: 0, held: 0, anonymous: -1 }, receivedAtMs);
    until = Math.max(until, receivedAtMs);
  }
  groups.write(sql);
  const objects = new Set(deleted.flatMap((row) => row.cold_object ?? []));
  if (objects.size > 0) scrub(sql, objects);
  const nextMs = deleted.length === RETENTION_ROWS ? nowMs : nextSweepMs(sql, kept.days, nowMs);
  sql.exec("UPDATE retention SET next_at = ?, deleted_until = max(deleted_until, ?) WHERE id = 1", nextMs, until);
}

function nextSweepMs(sql: SqlStorage, days: number, nowMs: number): number {
  const [oldest] = sql
    .exec<{ at: number }>("SELECT received_at AS at FROM signals WHERE id > '' ORDER BY id LIMIT 1")
    .toArray();
  return Math.max((oldest?.at ?? nowMs) + days * DAY_MS, nowMs + RETENTION_SWEEP_MS);
}

/** Those of earlier signals come before it. */
function firstId(atMs: number): string {
  return `sig_${uuidv7(atMs, new Uint8Array(UUIDV7_RANDOM_BYTES))}`;
}
