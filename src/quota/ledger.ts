/**
 * The Quota Counter's durable state: a row for the current billing period and the plan, and a row for each closed period.
 *
 * The counts change with each commit, and travel in its outbox row, so that they cost no row of their own. Row numbers only
 * rise: if the last outbox row has `next_row` or a higher number, it was written after the ledger row and its counts hold.
 * Everything else changes seldom, and with the ledger row.
 */
import { billingPeriodAt, closePeriod, type Streak } from "../domain/quota/billing-period.ts";
import { lastDay, utcDay } from "../domain/quota/usage-day.ts";
import { NO_VERDICTS, ordinalsTaken, verdictCounts, type VerdictCounts } from "../domain/quota/quota.ts";
import type { QuotaConfig } from "../domain/quota/quota-config.ts";
import { OVERAGE_STREAK_LIMIT } from "../limits.ts";
import type { ClosedPeriod, Usage } from "./protocol.ts";
import { writeDay } from "./usage-days.ts";

/** What an outbox row carries of the ledger: the verdicts of this period, and more. */
export interface Counts extends VerdictCounts {
  /** Signals accepted beyond the limit with overages on. */
  overage: number;
  /** Signals ever admitted. */
  admitted: number;
}

export interface Ledger extends QuotaConfig, Counts {
  periodStartMs: number;
  periodEndMs: number;
  streak: number;
  extraRoomRemoved: boolean;
  /** Number of the next outbox row, see `firstRowAfterStart`. */
  nextRow: number;
  /** UTC day of the last count. It is kept here, so that a commit writes no row for it. */
  dayMs: number;
  /** Levels of usage that have been notified, see domain/quota/usage-news.ts; 0 where nobody wants to know. */
  notified: number;
  /** Whether a notification says that signals wait too long, and they still do. */
  late: boolean;
}

/** A period that has been closed, and what follows from it. */
export interface EndedPeriod extends ClosedPeriod {
  extraRoomRemoved: boolean;
}

interface LedgerRow {
  [column: string]: number;
  signal_limit: number;
  anchor_ms: number;
  period_start_ms: number;
  period_end_ms: number;
  accepted: number;
  held: number;
  rejected: number;
  overage: number;
  streak: number;
  admitted: number;
  next_row: number;
  day_ms: number;
  notified: number;
  late: number;
  paid: number;
  overages: number;
  extra_room_removed: number;
  config_version: number;
}

const SAVE = `INSERT OR REPLACE INTO ledger (id, signal_limit, anchor_ms, period_start_ms, period_end_ms, accepted, held,
    rejected, overage, streak, admitted, next_row, day_ms, notified, late, paid, overages, extra_room_removed,
    config_version)
  VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

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
    );`);
}

/**
 * Row numbers of an object that starts begin at this one. No number is ever used twice, although a restore takes the tables
 * back: an object writes far fewer than 1,024 rows a millisecond, so numbers by the clock are higher than any given before.
 */
export function firstRowAfterStart(nowMs: number): number {
  return nowMs * 1_024;
}

/** @param last the outbox's last row. */
export function loadLedger(sql: SqlStorage, last: (Counts & { row: number }) | null): Ledger | null {
  const row = sql.exec<LedgerRow>("SELECT * FROM ledger").toArray()[0];
  if (row === undefined) return null;
  const ledger = {
    signalLimit: row.signal_limit,
    anchorMs: row.anchor_ms,
    periodStartMs: row.period_start_ms,
    periodEndMs: row.period_end_ms,
    accepted: row.accepted,
    held: row.held,
    rejected: row.rejected,
    overage: row.overage,
    streak: row.streak,
    admitted: row.admitted,
    nextRow: row.next_row,
    dayMs: row.day_ms,
    notified: row.notified,
    late: row.late === 1,
    paid: row.paid === 1,
    overages: row.overages === 1,
    extraRoomRemoved: row.extra_room_removed === 1,
    configVersion: row.config_version,
  };
  if (last === null || last.row < ledger.nextRow) return ledger;
  const { row: number, ...counts } = last;
  return { ...ledger, ...counts, nextRow: number + 1 };
}

/** Saves the ledger: one row written. */
export function saveLedger(sql: SqlStorage, ledger: Ledger): void {
  sql.exec(
    SAVE,
    ledger.signalLimit,
    ledger.anchorMs,
    ledger.periodStartMs,
    ledger.periodEndMs,
    ledger.accepted,
    ledger.held,
    ledger.rejected,
    ledger.overage,
    ledger.streak,
    ledger.admitted,
    ledger.nextRow,
    ledger.dayMs,
    ledger.notified,
    Number(ledger.late),
    Number(ledger.paid),
    Number(ledger.overages),
    Number(ledger.extraRoomRemoved),
    ledger.configVersion,
  );
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

/** Closes every period that has ended, one by one; an idle one counts as within the allowance. Returns them. */
export function closeEndedPeriods(sql: SqlStorage, ledger: Ledger, nowMs: number): readonly EndedPeriod[] {
  const closed: EndedPeriod[] = [];
  while (ledger.periodEndMs <= nowMs) {
    const day = lastDay(ledger);
    if (day !== null) writeDay(sql, day);
    const after = closePeriod(ledger, {
      count: ordinalsTaken(ledger),
      signalLimit: ledger.signalLimit,
      paid: ledger.paid,
      overages: ledger.overages,
    });
    sql.exec(
      "INSERT OR REPLACE INTO closed_periods VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
      ledger.periodStartMs,
      ledger.periodEndMs,
      ledger.signalLimit,
      Number(ledger.overages),
      ledger.accepted,
      ledger.held,
      ledger.rejected,
      ledger.overage,
      after.streak,
    );
    const { periodStartMs, periodEndMs, signalLimit, overages, overage } = ledger;
    closed.push({ periodStartMs, periodEndMs, signalLimit, overages, ...verdictCounts(ledger), overage, ...after });
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
 * Applies a configuration that is newer than the ledger's. It holds since `configVersion`: a period that ended at or before
 * that time closes with the configuration of then, later ones with the new one. Returns the periods that were closed.
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
 * Judges the closed periods that ended after `sinceMs` again, with the ledger's configuration: they were closed with an older
 * one. Their counts stay. The extra room is removed where the history says so now.
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

/** The usage of the current period, and of the closed ones. */
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

type ClosedPeriodRow = Record<
  keyof VerdictCounts | "period_start_ms" | "period_end_ms" | "signal_limit" | "overages" | "overage" | "streak",
  number
>;

/** The closed periods, newest first. */
export function closedPeriods(sql: SqlStorage): ClosedPeriod[] {
  return sql
    .exec<ClosedPeriodRow>("SELECT * FROM closed_periods ORDER BY period_start_ms DESC")
    .toArray()
    .map((row) => ({
      periodStartMs: row.period_start_ms,
      periodEndMs: row.period_end_ms,
      signalLimit: row.signal_limit,
      overages: row.overages === 1,
      ...verdictCounts(row),
      overage: row.overage,
      streak: row.streak,
    }));
}
