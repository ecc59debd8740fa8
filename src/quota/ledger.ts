/**
 * The ledger: counts of the current billing period, the plan, a row for each closed period and usage by day.
 *
 * The counts change with each commit. They are stored in its outbox row, so they cost no row of their own. Row numbers only
 * rise: if the last outbox row has `next_row` or a higher number, it is newer than the ledger row and its counts are used.
 */
import { DAY_MS } from "../domain/duration.ts";
import { billingPeriodAt, closePeriod, type Streak } from "../domain/quota/billing.ts";
import type { QuotaConfig } from "../domain/quota/billing.ts";
import { NO_VERDICTS, ordinalsTaken, verdictCounts, type VerdictCounts } from "../domain/quota/quota.ts";
import { entryOf, utcDay, type UsageDay } from "../domain/quota/usage-day.ts";
import { OVERAGE_STREAK_LIMIT } from "../limits.ts";
import type { ClosedPeriod, Usage, UsageByDay } from "./protocol.ts";

/** Counts of the current period, as stored in each outbox row. */
export interface Counts extends VerdictCounts {
  /** Accepted signals beyond the limit, with overages enabled. */
  overage: number;
  /** Signals admitted since the workspace began. */
  admitted: number;
}

export interface Ledger extends QuotaConfig, Counts {
  periodStartMs: number;
  periodEndMs: number;
  streak: number;
  extraRoomRemoved: boolean;
  /** Number of the next outbox row, see `firstRowAfterStart`. */
  nextRow: number;
  /** UTC day of the last count, as milliseconds since 1970. Part of the ledger, so that a commit writes no row for it. */
  dayMs: number;
  /** Usage levels with a notification, see domain/quota/usage-news.ts; 0 without a subscriber. */
  notified: number;
  /** Whether a notification about delayed processing was raised and the delay continues. */
  late: boolean;
}

export interface EndedPeriod extends ClosedPeriod {
  extraRoomRemoved: boolean;
}

/** The column of each field. */
const COLUMNS: Record<keyof Ledger, string> = {
  signalLimit: "signal_limit",
  anchorMs: "anchor_ms",
  periodStartMs: "period_start_ms",
  periodEndMs: "period_end_ms",
  accepted: "accepted",
  held: "held",
  rejected: "rejected",
  overage: "overage",
  streak: "streak",
  admitted: "admitted",
  nextRow: "next_row",
  dayMs: "day_ms",
  notified: "notified",
  late: "late",
  paid: "paid",
  overages: "overages",
  extraRoomRemoved: "extra_room_removed",
  configVersion: "config_version",
};
const FIELDS = Object.keys(COLUMNS) as (keyof Ledger)[];
const SAVE = `INSERT OR REPLACE INTO ledger (id, ${Object.values(COLUMNS).join(", ")})
  VALUES (1${", ?".repeat(FIELDS.length)})`;
const LOAD = `SELECT ${FIELDS.map((field) => `${COLUMNS[field]} AS ${field}`).join(", ")} FROM ledger`;

export function createLedgerTables(sql: SqlStorage): void {
  sql.exec(`
    CREATE TABLE IF NOT EXISTS ledger (
      id INTEGER PRIMARY KEY CHECK (id = 1),
      signal_limit INTEGER NOT NULL, anchor_ms INTEGER NOT NULL, period_start_ms INTEGER NOT NULL,
      period_end_ms INTEGER NOT NULL, accepted INTEGER NOT NULL, held INTEGER NOT NULL, rejected INTEGER NOT NULL,
      overage INTEGER NOT NULL, streak INTEGER NOT NULL, admitted INTEGER NOT NULL, next_row INTEGER NOT NULL,
      day_ms INTEGER NOT NULL, notified INTEGER NOT NULL, late INTEGER NOT NULL, paid INTEGER NOT NULL,
      overages INTEGER NOT NULL, extra_room_removed INTEGER NOT NULL, config_version INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS closed_periods (
      period_start_ms INTEGER PRIMARY KEY, period_end_ms INTEGER NOT NULL, signal_limit INTEGER NOT NULL,
      overages INTEGER NOT NULL, accepted INTEGER NOT NULL, held INTEGER NOT NULL, rejected INTEGER NOT NULL,
      overage INTEGER NOT NULL, streak INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS usage_days (
      period_start_ms INTEGER NOT NULL, day_ms INTEGER NOT NULL, accepted INTEGER NOT NULL, held INTEGER NOT NULL,
      rejected INTEGER NOT NULL, PRIMARY KEY (period_start_ms, day_ms)
    ) WITHOUT ROWID;`);
}

/**
 * First row number after a start. Numbers come from the clock, and an object writes far fewer than 1,024 rows a
 * millisecond. So a number is never used twice, even after a restore of the tables.
 */
export function firstRowAfterStart(nowMs: number): number {
  return nowMs * 1_024;
}

/** @param last the last row of the outbox. */
export function loadLedger(sql: SqlStorage, last: (Counts & { row: number }) | null): Ledger | null {
  const [row] = sql.exec<Record<keyof Ledger, number>>(LOAD).toArray();
  if (row === undefined) return null;
  const { late, paid, overages, extraRoomRemoved, ...numbers } = row;
  const flags = {
    late: late === 1,
    paid: paid === 1,
    overages: overages === 1,
    extraRoomRemoved: extraRoomRemoved === 1,
  };
  const ledger = { ...numbers, ...flags };
  if (last === null || last.row < ledger.nextRow) return ledger;
  const { row: number, ...counts } = last;
  return { ...ledger, ...counts, nextRow: number + 1 };
}

export function saveLedger(sql: SqlStorage, ledger: Ledger): void {
  sql.exec(SAVE, ...FIELDS.map((field) => Number(ledger[field])));
}

export function openLedger(config: QuotaConfig, nowMs: number): Ledger {
  const period = billingPeriodAt(config.anchorMs, nowMs);
  return {
    ...config,
    periodStartMs: period.startMs,
    periodEndMs: period.endMs,
    ...NO_VERDICTS,
    overage: 0,
    streak: 0,
    extraRoomRemoved: false,
    admitted: 0,
    nextRow: firstRowAfterStart(nowMs),
    dayMs: utcDay(nowMs),
    notified: 0,
    late: false,
  };
}

/** Closes every ended period in order. An idle period counts as within the allowance. @returns the closed periods. */
export function closeEndedPeriods(sql: SqlStorage, ledger: Ledger, nowMs: number): readonly EndedPeriod[] {
  const closed: EndedPeriod[] = [];
  while (ledger.periodEndMs <= nowMs) {
    const day = entryOf(ledger);
    if (day !== null) writeDay(sql, day);
    const { periodStartMs, periodEndMs, signalLimit, overages, overage } = ledger;
    const after = closePeriod(ledger, { ...ledger, count: ordinalsTaken(ledger) });
    const counts = verdictCounts(ledger);
    const values = [periodStartMs, periodEndMs, signalLimit, Number(overages)];
    values.push(counts.accepted, counts.held, counts.rejected, overage, after.streak);
    sql.exec(
      `INSERT OR REPLACE INTO closed_periods
         (period_start_ms, period_end_ms, signal_limit, overages, accepted, held, rejected, overage, streak)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ...values,
    );
    closed.push({ periodStartMs, periodEndMs, signalLimit, overages, ...counts, overage, ...after });
    const next = billingPeriodAt(ledger.anchorMs, ledger.periodEndMs);
    Object.assign(ledger, after, {
      periodStartMs: next.startMs,
      periodEndMs: next.endMs,
      ...NO_VERDICTS,
      overage: 0,
      notified: 0,
    });
  }
  return closed;
}

/**
 * Applies a newer configuration, which is effective since `configVersion`. A period that ended at or before that time closes
 * with the old configuration, later ones with the new one. @returns the closed periods.
 */
export function applyConfig(
  sql: SqlStorage,
  ledger: Ledger,
  { signalLimit, paid, overages, configVersion }: QuotaConfig,
  nowMs: number,
): readonly EndedPeriod[] {
  const closedBefore = closeEndedPeriods(sql, ledger, Math.min(configVersion, nowMs));
  Object.assign(ledger, { signalLimit, paid, overages, configVersion });
  judgeAgain(sql, ledger, configVersion);
  return [...closedBefore, ...closeEndedPeriods(sql, ledger, nowMs)];
}

/**
 * Closes periods that ended after `sinceMs` again with the ledger's configuration, because they were closed with an older
 * one. Their counts stay the same. Removes the extra room if the new streaks require it.
 */
function judgeAgain(sql: SqlStorage, ledger: Ledger, sinceMs: number): void {
  const periods = closedPeriods(sql).toReversed();
  if (!periods.some(({ periodEndMs }) => periodEndMs > sinceMs)) return;
  const { signalLimit, paid, overages } = ledger;
  let judged: Streak = { streak: 0, extraRoomRemoved: false };
  for (const period of periods) {
    if (period.periodEndMs <= sinceMs) {
      const { streak } = period;
      judged = { streak, extraRoomRemoved: judged.extraRoomRemoved || streak >= OVERAGE_STREAK_LIMIT };
      continue;
    }
    judged = closePeriod(judged, { count: ordinalsTaken(period), signalLimit, paid, overages });
    sql.exec(
      "UPDATE closed_periods SET signal_limit = ?, overages = ?, streak = ? WHERE period_start_ms = ?",
      signalLimit,
      Number(overages),
      judged.streak,
      period.periodStartMs,
    );
  }
  Object.assign(ledger, judged);
}

export function readUsage(sql: SqlStorage, ledger: Ledger): Usage {
  const {
    anchorMs: _anchor,
    admitted: _admitted,
    nextRow: _next,
    dayMs: _day,
    notified: _notified,
    late: _late,
    ...usage
  } = ledger;
  return { ...usage, history: closedPeriods(sql) };
}

/** The closed periods, newest first. */
export function closedPeriods(sql: SqlStorage): ClosedPeriod[] {
  const rows = sql.exec<Record<keyof ClosedPeriod, number>>(
    `SELECT period_start_ms AS periodStartMs, period_end_ms AS periodEndMs, signal_limit AS signalLimit, overages, accepted,
       held, rejected, overage, streak
     FROM closed_periods ORDER BY period_start_ms DESC`,
  );
  return rows.toArray().map((row) => ({ ...row, overages: row.overages === 1 }));
}

/** Retention of usage by day, in days: thirteen months, for a comparison with last year. */
const USAGE_DAYS_KEPT = 400;

function writeDay(sql: SqlStorage, { periodStartMs, dayMs, accepted, held, rejected }: UsageDay): void {
  sql.exec("INSERT OR REPLACE INTO usage_days VALUES (?, ?, ?, ?, ?)", periodStartMs, dayMs, accepted, held, rejected);
}

/** Moves the ledger to the day of `nowMs`, unless the clock went back. @returns whether the day changed. */
export function endDay(sql: SqlStorage, ledger: UsageDay, nowMs: number): boolean {
  const dayMs = utcDay(nowMs);
  if (dayMs <= ledger.dayMs) return false;
  const ended = entryOf(ledger);
  ledger.dayMs = dayMs;
  if (ended === null) return true;
  writeDay(sql, ended);
  // Deletes whole periods, because the primary key begins with the period.
  sql.exec("DELETE FROM usage_days WHERE period_start_ms < ?", nowMs - USAGE_DAYS_KEPT * DAY_MS);
  return true;
}

export function readUsageByDay(sql: SqlStorage, usage: Usage): UsageByDay {
  const days = sql.exec<Record<keyof UsageDay, number>>(
    `SELECT period_start_ms AS periodStartMs, day_ms AS dayMs, accepted, held, rejected
     FROM usage_days WHERE period_start_ms >= ? ORDER BY period_start_ms, day_ms`,
    usage.history[0]?.periodStartMs ?? usage.periodStartMs,
  );
  const [first] = sql
    .exec<{ day_ms: number }>("SELECT day_ms FROM usage_days ORDER BY period_start_ms, day_ms LIMIT 1")
    .toArray();
  return { usage, days: days.toArray(), firstDayMs: first?.day_ms ?? null };
}
