/** The Quota Counter's durable state: one row for the current billing period and the plan, one row per closed period. */
import { billingPeriodAt, closePeriod } from "../domain/billing-period.ts";
import { lastDay, utcDay } from "../domain/usage-day.ts";
import type { ClosedPeriod, QuotaConfig } from "./protocol.ts";
import { writeDay } from "./usage-days.ts";

export interface Ledger extends QuotaConfig {
  periodStartMs: number;
  periodEndMs: number;
  /** Ordinals given out in this period, by verdict. */
  accepted: number;
  held: number;
  rejected: number;
  /** Accepted beyond the limit with overages on. */
  overage: number;
  streak: number;
  extraRoomRemoved: boolean;
  /** Signals ever admitted. */
  admitted: number;
  /** Number of the next outbox row; never used twice, so a late `settle` cannot delete another row. */
  nextRow: number;
  /** UTC day of the last count; 0 where an earlier version counted. Here, so that a commit writes no row for it. */
  dayMs: number;
}

const NUMBERS = [
  ["signal_limit", "signalLimit"],
  ["anchor_ms", "anchorMs"],
  ["period_start_ms", "periodStartMs"],
  ["period_end_ms", "periodEndMs"],
  ["accepted", "accepted"],
  ["held", "held"],
  ["rejected", "rejected"],
  ["overage", "overage"],
  ["streak", "streak"],
  ["admitted", "admitted"],
  ["next_row", "nextRow"],
  ["day_ms", "dayMs"],
] as const satisfies readonly (readonly [string, keyof Ledger])[];
const BOOLEANS = [
  ["paid", "paid"],
  ["overages", "overages"],
  ["extra_room_removed", "extraRoomRemoved"],
] as const satisfies readonly (readonly [string, keyof Ledger])[];
const COLUMNS = [...NUMBERS, ...BOOLEANS];

const SAVE = `INSERT OR REPLACE INTO ledger (id, ${COLUMNS.map(([column]) => column).join(", ")})
  VALUES (1${", ?".repeat(COLUMNS.length)})`;

export function createLedgerTables(sql: SqlStorage): void {
  sql.exec(`
    CREATE TABLE IF NOT EXISTS ledger (
      id INTEGER PRIMARY KEY CHECK (id = 1),
      ${COLUMNS.map(([column]) => `${column} INTEGER NOT NULL`).join(", ")}
    );
    CREATE TABLE IF NOT EXISTS closed_periods (
      period_start_ms INTEGER PRIMARY KEY, period_end_ms INTEGER NOT NULL, signal_limit INTEGER NOT NULL,
      overages INTEGER NOT NULL, accepted INTEGER NOT NULL, held INTEGER NOT NULL, rejected INTEGER NOT NULL,
      overage INTEGER NOT NULL, streak INTEGER NOT NULL
    );`);
  // Ledgers that were made before usage was kept by day.
  const dayMs = sql.exec("SELECT 1 FROM pragma_table_info('ledger') WHERE name = 'day_ms'").toArray();
  if (dayMs.length === 0) sql.exec("ALTER TABLE ledger ADD COLUMN day_ms INTEGER NOT NULL DEFAULT 0");
}

export function loadLedger(sql: SqlStorage): Ledger | null {
  const row = sql.exec<Record<string, number>>("SELECT * FROM ledger").toArray()[0];
  if (row === undefined) return null;
  return Object.fromEntries([
    ...NUMBERS.map(([column, field]) => [field, row[column]]),
    ...BOOLEANS.map(([column, field]) => [field, row[column] === 1]),
  ]) as unknown as Ledger;
}

/** One row written. */
export function saveLedger(sql: SqlStorage, ledger: Ledger): void {
  sql.exec(SAVE, ...COLUMNS.map(([, field]) => Number(ledger[field])));
}

export function openLedger(config: QuotaConfig, nowMs: number): Ledger {
  const period = billingPeriodAt(config.anchorMs, nowMs);
  return {
    ...config,
    periodStartMs: period.startMs,
    periodEndMs: period.endMs,
    accepted: 0,
    held: 0,
    rejected: 0,
    overage: 0,
    streak: 0,
    extraRoomRemoved: false,
    admitted: 0,
    nextRow: 1,
    dayMs: utcDay(nowMs),
  };
}

/** Closes every period that has ended, one by one; an idle one counts as within the allowance. Returns how many. */
export function closeEndedPeriods(sql: SqlStorage, ledger: Ledger, nowMs: number): number {
  let closed = 0;
  for (; ledger.periodEndMs <= nowMs; closed++) {
    const day = lastDay(ledger, ledger.periodEndMs);
    if (day !== null) writeDay(sql, day);
    const after = closePeriod(ledger, {
      count: ledger.accepted + ledger.held,
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
    const next = billingPeriodAt(ledger.anchorMs, ledger.periodEndMs);
    Object.assign(ledger, after, {
      periodStartMs: next.startMs,
      periodEndMs: next.endMs,
      accepted: 0,
      held: 0,
      rejected: 0,
      overage: 0,
    });
  }
  return closed;
}

/** Newest first. */
export function closedPeriods(sql: SqlStorage): ClosedPeriod[] {
  return sql
    .exec<Record<string, number>>("SELECT * FROM closed_periods ORDER BY period_start_ms DESC")
    .toArray()
    .map((row) => ({
      periodStartMs: row["period_start_ms"] ?? 0,
      periodEndMs: row["period_end_ms"] ?? 0,
      signalLimit: row["signal_limit"] ?? 0,
      overages: row["overages"] === 1,
      accepted: row["accepted"] ?? 0,
      held: row["held"] ?? 0,
      rejected: row["rejected"] ?? 0,
      overage: row["overage"] ?? 0,
      streak: row["streak"] ?? 0,
    }));
}
