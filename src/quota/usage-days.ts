/** Usage by day, as the Quota Counter keeps it: rows are written when a new day comes, never with a commit in between. */
import { DAY_MS } from "../domain/duration.ts";
import { verdictCounts, type VerdictCounts } from "../domain/quota/quota.ts";
import { countingDay, endedDay, type Counting, type UsageDay } from "../domain/quota/usage-day.ts";
import type { Usage, UsageByDay } from "./protocol.ts";

/** Usage by day is kept of periods that began no longer ago, in days: thirteen months, to compare with last year. */
const USAGE_DAYS_KEPT = 400;

export function createDaysTable(sql: SqlStorage): void {
  sql.exec(`CREATE TABLE IF NOT EXISTS usage_days (
    period_start_ms INTEGER NOT NULL, day_ms INTEGER NOT NULL, accepted INTEGER NOT NULL, held INTEGER NOT NULL,
    rejected INTEGER NOT NULL, PRIMARY KEY (period_start_ms, day_ms)) WITHOUT ROWID`);
}

/** Writes a day's entry: one row written. */
export function writeDay(sql: SqlStorage, { periodStartMs, dayMs, accepted, held, rejected }: UsageDay): void {
  sql.exec("INSERT OR REPLACE INTO usage_days VALUES (?, ?, ?, ?, ?)", periodStartMs, dayMs, accepted, held, rejected);
}

/** Takes the ledger into the day of `nowMs`. Says whether that is another one. */
export function endDay(sql: SqlStorage, ledger: Counting, nowMs: number): boolean {
  const dayMs = countingDay(ledger.dayMs, nowMs);
  if (dayMs === ledger.dayMs) return false;
  const ended = endedDay(ledger, nowMs);
  ledger.dayMs = dayMs;
  if (ended === null) return true;
  writeDay(sql, ended);
  // Whole periods are deleted, which the primary key finds.
  sql.exec("DELETE FROM usage_days WHERE period_start_ms < ?", nowMs - USAGE_DAYS_KEPT * DAY_MS);
  return true;
}

export function readUsageByDay(sql: SqlStorage, usage: Usage): UsageByDay {
  const sinceMs = usage.history[0]?.periodStartMs ?? usage.periodStartMs;
  const days = sql
    .exec<Record<keyof VerdictCounts | "period_start_ms" | "day_ms", number>>(
      "SELECT * FROM usage_days WHERE period_start_ms >= ? ORDER BY period_start_ms, day_ms",
      sinceMs,
    )
    .toArray()
    .map((row) => ({
      periodStartMs: row.period_start_ms,
      dayMs: row.day_ms,
      ...verdictCounts(row),
    }));
  const first = sql
    .exec<{ day_ms: number }>("SELECT day_ms FROM usage_days ORDER BY period_start_ms, day_ms LIMIT 1")
    .toArray()[0];
  return { usage, days, firstDayMs: first?.day_ms ?? null };
}
