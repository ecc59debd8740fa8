/**
 * What a signal's status means to everything that counts signals: the books, since the beginning and by billing period
 * (design §1.2), and the groups of the signal queue with their days. Whoever changes a status says so here, and counts
 * nothing by themselves.
 */
import { groupSource } from "../../domain/signal/personal-source.ts";
import type { Admission } from "../../wire/admission.ts";
import type { Facts, LineStatus } from "../log/line.ts";
import { countInBooks } from "./books.ts";
import type { BookColumn, Books } from "./books.ts";
import type { EventGroupChanges, GroupCounts, GroupName } from "./event-group-changes.ts";

/** Where a signal stands. `deleted`: it was processed, and its person has been deleted; `released`: it is here no more. */
export type Standing = LineStatus | "dead" | "deleted" | "unrecorded";

/** A signal as far as the counts know it. */
export interface CountedSignal {
  admission: Pick<Admission, "periodStartMs" | "receivedAtMs">;
  /** The group of the signal queue that counts it; null: none does. */
  group: GroupName | null;
}

/** What counts signals: the books, and what is to change in the groups of the signal queue. */
export interface SignalCounts {
  books: Books;
  groups: EventGroupChanges;
}

const NO_GROUP: GroupCounts = { count: 0, held: 0, anonymous: 0 };

/** The column of the books that has a signal, and what it is in its group. */
const COUNTED: Record<Standing, { column: BookColumn | null; inGroup: GroupCounts }> = {
  unrecorded: { column: null, inGroup: NO_GROUP },
  processed: { column: "processed", inGroup: { count: 1, held: 0, anonymous: 0 } },
  anonymous: { column: "processed", inGroup: { count: 1, held: 0, anonymous: 1 } },
  held: { column: "held", inGroup: { count: 1, held: 1, anonymous: 0 } },
  // A duplicate is counted by its original. What is left of the others is of no group: their source is gone.
  duplicate: { column: "duplicates", inGroup: NO_GROUP },
  deleted: { column: "processed", inGroup: NO_GROUP },
  purged: { column: "purged", inGroup: NO_GROUP },
  dead: { column: "deadLettered", inGroup: NO_GROUP },
  released: { column: null, inGroup: NO_GROUP },
};

/**
 * Counts a change of a signal's status. `dropped`: retention deletes the signal. The books say so beside what they say of
 * it, and its group goes on saying that it was received.
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
    const { column, inGroup } = before;
    if (column !== null) countInBooks(books.dropped, periodStartMs, column, 1);
    const { held, anonymous } = inGroup;
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
    groups.count(group, difference(before.inGroup, after.inGroup), receivedAtMs);
  }
}

function difference(before: GroupCounts, after: GroupCounts): GroupCounts {
  if (before === NO_GROUP) return after;
  return {
    count: after.count - before.count,
    held: after.held - before.held,
    anonymous: after.anonymous - before.anonymous,
  };
}

export function standingOf({ status, deletedAtMs }: Facts): Standing {
  return status === "processed" && deletedAtMs !== null ? "deleted" : status;
}

/** A line as the counts know it. */
export function countedSignal(facts: Facts): CountedSignal {
  return { admission: facts.admission, group: groupOf(facts) };
}

/** The group of the signal queue that counts a line; null: none does. */
export function groupOf(facts: Facts): GroupName | null {
  const { kind, event, source } = facts;
  return kind === "signal" && event !== null ? { event, source: groupSource(source ?? "", facts) } : null;
}
