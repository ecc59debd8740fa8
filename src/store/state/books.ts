/** The store's side of the books (design §1.2): how many signals of each billing period are in which place. */
import type { SignalsByPeriod } from "../../domain/restore.ts";
import type { StoreTotals } from "../protocol/store-health.ts";

export type BookColumn = keyof StoreTotals;

const COLUMNS: readonly BookColumn[] = ["processed", "duplicates", "held", "purged", "deadLettered"];

/** Counts in the order of COLUMNS, by the start of the period. */
type Totals = Record<string, number[]>;

export interface Books {
  totals: Totals;
  /** What retention has dropped of `totals`: with what is still there it adds up to them. */
  dropped: Totals;
}

export function countInBooks(totals: Totals, periodStartMs: number, column: BookColumn, by: number): void {
  const counts = (totals[periodStartMs] ??= COLUMNS.map(() => 0));
  const at = COLUMNS.indexOf(column);
  counts[at] = (counts[at] ?? 0) + by;
}

/** Signals of each period, whatever place they are in. */
export function recordedByPeriod(totals: Totals): SignalsByPeriod {
  const sums = Object.entries(totals).map(
    ([start, counts]) => [start, counts.reduce((sum, one) => sum + one, 0)] as const,
  );
  return Object.fromEntries(sums);
}

/** The books since the beginning, or of one period. */
export function readTotals(totals: Totals, periodStartMs: number | undefined): StoreTotals {
  const periods = periodStartMs === undefined ? Object.values(totals) : [totals[periodStartMs] ?? []];
  const sum = (column: BookColumn): number =>
    periods.reduce((all, counts) => all + (counts[COLUMNS.indexOf(column)] ?? 0), 0);
  return {
    processed: sum("processed"),
    duplicates: sum("duplicates"),
    held: sum("held"),
    purged: sum("purged"),
    deadLettered: sum("deadLettered"),
  };
}
