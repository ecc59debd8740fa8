/**
 * Counts signals by status: in the books, by billing period (design §1.2), and in the groups of the signal queue, by day. Code that
 * changes a status calls `changeStatus` and counts nothing itself.
 */
import type { SignalsByPeriod } from "../../domain/restore.ts";
import { groupSource } from "../../domain/signal/identity.ts";
import type { LineStatus } from "../../domain/signal/signal.ts";
import type { Admission } from "../../wire/admission.ts";
import type { Facts } from "../log/line.ts";
import type { StoreTotals } from "../protocol/stored-signals.ts";
import type { EventGroupChanges, GroupCounts, GroupName } from "./event-group-changes.ts";

type BookColumn = keyof StoreTotals;

const BOOK_COLUMNS: readonly BookColumn[] = ["processed", "duplicates", "held", "purged", "deadLettered"];

/** Counts in the order of BOOK_COLUMNS, by the start of the period. */
type Totals = Record<string, number[]>;

export interface Books {
  /** All recorded signals, dropped signals included. */
  totals: Totals;
  /** The part of `totals` that retention has dropped. */
  dropped: Totals;
}

/** `deleted`: a processed signal whose person was deleted. */
export type Standing = LineStatus | "dead" | "deleted" | "unrecorded";

export interface CountedSignal {
  admission: Pick<Admission, "periodStartMs" | "receivedAtMs">;
  /** The group of the signal queue that counts the signal; null: none does. */
  group: GroupName | null;
}

export interface SignalCounts {
  books: Books;
  groups: EventGroupChanges;
}

const NO_GROUP: GroupCounts = { count: 0, held: 0, anonymous: 0 };

const COUNTED: Record<Standing, { column: BookColumn | null; inGroup: GroupCounts }> = {
  unrecorded: { column: null, inGroup: NO_GROUP },
  processed: { column: "processed", inGroup: { count: 1, held: 0, anonymous: 0 } },
  anonymous: { column: "processed", inGroup: { count: 1, held: 0, anonymous: 1 } },
  held: { column: "held", inGroup: { count: 1, held: 1, anonymous: 0 } },
  // The original stands for a duplicate in its group. The signals below have lost their source, so they have no group.
  duplicate: { column: "duplicates", inGroup: NO_GROUP },
  deleted: { column: "processed", inGroup: NO_GROUP },
  purged: { column: "purged", inGroup: NO_GROUP },
  dead: { column: "deadLettered", inGroup: NO_GROUP },
  released: { column: null, inGroup: NO_GROUP },
};

/**
 * Counts a change of a signal's status. `dropped`: retention deletes the signal. The books count dropped signals separately, and the
 * group still counts the signal as received.
 */
export function changeStatus(
  { books, groups }: SignalCounts,
  { admission, group }: CountedSignal,
  from: Standing,
  to: Standing | "dropped",
): void {
  const { periodStartMs, receivedAtMs } = admission;
  const before = COUNTED[from];
  if (to === "dropped") {
    const { held, anonymous } = before.inGroup;
    if (before.column !== null) countInBooks(books.dropped, periodStartMs, before.column, 1);
    if (group !== null && held + anonymous > 0) {
      groups.count(group, { count: 0, held: -held, anonymous: -anonymous }, receivedAtMs);
    }
    return;
  }
  const after = COUNTED[to];
  if (before.column !== after.column) {
    if (before.column !== null) countInBooks(books.totals, periodStartMs, before.column, -1);
    if (after.column !== null) countInBooks(books.totals, periodStartMs, after.column, 1);
  }
  if (group !== null && before.inGroup !== after.inGroup) {
    const change = {
      count: after.inGroup.count - before.inGroup.count,
      held: after.inGroup.held - before.inGroup.held,
      anonymous: after.inGroup.anonymous - before.inGroup.anonymous,
    };
    groups.count(group, change, receivedAtMs);
  }
}

export function countInBooks(totals: Totals, periodStartMs: number, column: BookColumn, by: number): void {
  const counts = (totals[periodStartMs] ??= BOOK_COLUMNS.map(() => 0));
  const at = BOOK_COLUMNS.indexOf(column);
  counts[at] = (counts[at] ?? 0) + by;
}

export function standingOf({ status, deletedAtMs }: Facts): Standing {
  return status === "processed" && deletedAtMs !== null ? "deleted" : status;
}

export function countedSignal(facts: Facts): CountedSignal {
  return { admission: facts.admission, group: groupOf(facts) };
}

/** The group of the signal queue that counts a line; null: none does. */
export function groupOf(facts: Facts): GroupName | null {
  const { kind, event, source } = facts;
  return kind === "signal" && event !== null ? { event, source: groupSource(source ?? "", facts) } : null;
}

export function recordedByPeriod(totals: Totals): SignalsByPeriod {
  const sums = Object.entries(totals).map(
    ([start, counts]) => [start, counts.reduce((sum, count) => sum + count, 0)] as const,
  );
  return Object.fromEntries(sums);
}

/** The books of one period. @param periodStartMs undefined: of all periods. */
export function readTotals(totals: Totals, periodStartMs: number | undefined): StoreTotals {
  const periods = periodStartMs === undefined ? Object.values(totals) : [totals[periodStartMs] ?? []];
  const [processed = 0, duplicates = 0, held = 0, purged = 0, deadLettered = 0] = BOOK_COLUMNS.map((_, at) =>
    periods.reduce((sum, counts) => sum + (counts[at] ?? 0), 0),
  );
  return { processed, duplicates, held, purged, deadLettered };
}
