/**
 * Counts signals by status: in the books, by billing period (design §1.2), and in the event groups of the signal queue, by day. Code
 * that changes a status calls `changeStatus` and counts nothing itself.
 *
 * Changes of event groups wait in the head of the log until the head is full or a reader needs the groups' rows. So a busy group costs
 * one row for hundreds of signals. The caller flushes the log.
 */
import { addToDays, type DayCounts, dayOf } from "../../domain/duration.ts";
import { groupSource } from "../../domain/signal/identity.ts";
import type { LineStatus } from "../../domain/signal/signal.ts";
import { insertRow, updateRow } from "../../platform/sql-row.ts";
import { isLater, type Admission, type ReceivedOrder } from "../../wire/message.ts";
import type { SignalFacts } from "../log/line.ts";
import type { StoreTotals } from "../protocol/stored-signals.ts";
import type { EventGroupRow } from "../schema.ts";

type BookColumn = keyof StoreTotals;

const BOOK_COLUMNS: readonly BookColumn[] = ["processed", "duplicates", "held", "purged", "deadLettered"];

/** Counts in the order of BOOK_COLUMNS, by the start of the period. */
type Totals = Record<string, number[]>;

export interface Books {
  /** All recorded signals, dropped signals included. */
  totals: Totals;
  /** The part of `totals` that retention has dropped. */
  dropped: Totals;
  /** Changes of event groups that are not in their rows yet, by `groupKey`. */
  groups: Record<string, GroupChange>;
}

export interface GroupName {
  event: string;
  source: string;
}

interface GroupCounts {
  count: number;
  held: number;
  anonymous: number;
}

/** The line that a group shows as its example. A negative `seq` is a line of the held log. */
interface Sample {
  id: string;
  seq: number;
}

interface GroupChange extends GroupCounts, GroupName {
  days: Record<string, number>;
  /** The first and the latest received signal, and the original of the latest; null: none was received. */
  received: { firstMs: number; latest: ReceivedOrder; sample: Sample } | null;
}

/** `deleted`: a processed signal whose person was deleted. */
export type CountedStatus = LineStatus | "dead" | "deleted" | "unrecorded";

export interface CountedSignal {
  admission: Pick<Admission, "periodStartMs" | "receivedAtMs">;
  group: GroupName | null;
}

const NO_GROUP: GroupCounts = { count: 0, held: 0, anonymous: 0 };

const COUNTED: Record<CountedStatus, { column: BookColumn | null; inGroup: GroupCounts }> = {
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

/** `dropped`: retention deletes the signal. The books count it separately, and its group still counts it as received. */
export function changeStatus(
  books: Books,
  { admission: { periodStartMs, receivedAtMs }, group }: CountedSignal,
  from: CountedStatus,
  to: CountedStatus | "dropped",
): void {
  const before = COUNTED[from];
  if (to === "dropped") {
    countInBooks(books.dropped, periodStartMs, before.column, 1);
    const { held, anonymous } = before.inGroup;
    if (held + anonymous > 0)
      countInGroup(books, group, { count: 0, held: -held, anonymous: -anonymous }, receivedAtMs);
    return;
  }
  const after = COUNTED[to];
  if (before.column !== after.column) {
    countInBooks(books.totals, periodStartMs, before.column, -1);
    countInBooks(books.totals, periodStartMs, after.column, 1);
  }
  if (before.inGroup !== after.inGroup) {
    const change = {
      count: after.inGroup.count - before.inGroup.count,
      held: after.inGroup.held - before.inGroup.held,
      anonymous: after.inGroup.anonymous - before.inGroup.anonymous,
    };
    countInGroup(books, group, change, receivedAtMs);
  }
}

export function countInBooks(totals: Totals, periodStartMs: number, column: BookColumn | null, by: number): void {
  if (column === null) return;
  const counts = (totals[periodStartMs] ??= BOOK_COLUMNS.map(() => 0));
  const at = BOOK_COLUMNS.indexOf(column);
  counts[at] = (counts[at] ?? 0) + by;
}

function countInGroup(books: Books, name: GroupName | null, by: GroupCounts, receivedAtMs: number): void {
  if (name === null) return;
  const change = changeOf(books, name);
  const day = dayOf(receivedAtMs);
  change.days[day] = (change.days[day] ?? 0) + by.count;
  change.count += by.count;
  change.held += by.held;
  change.anonymous += by.anonymous;
}

/** @param sample the signal itself, or its original. */
export function noteReceived(books: Books, name: GroupName, latest: ReceivedOrder, sample: Sample): void {
  const change = changeOf(books, name);
  const known = change.received;
  const firstMs = Math.min(known?.firstMs ?? latest.receivedAtMs, latest.receivedAtMs);
  change.received =
    known !== null && isLater(known.latest, latest) ? { ...known, firstMs } : { firstMs, latest, sample };
}

function changeOf({ groups }: Books, { event, source }: GroupName): GroupChange {
  return (groups[groupKey({ event, source })] ??= {
    event,
    source,
    count: 0,
    held: 0,
    anonymous: 0,
    days: {},
    received: null,
  });
}

/** The length of the source keeps different names from having the same key. */
export function groupKey({ event, source }: GroupName): string {
  return `${source.length} ${source}${event}`;
}

/** Moves the changes of event groups from the head to the groups' rows. */
export function updateGroups({ sql, head }: { sql: SqlStorage; head: Books }): void {
  for (const change of Object.values(head.groups)) updateGroup(sql, change);
  head.groups = {};
}

function updateGroup(sql: SqlStorage, { event, source, received, ...change }: GroupChange): void {
  const [stored] = sql.exec<EventGroupRow>("SELECT * FROM event_groups WHERE event = ? AND source = ?", event, source);
  const count = (stored?.count ?? 0) + change.count;
  if (count <= 0) {
    // Delete a group without signals: its name may be a person's name.
    sql.exec("DELETE FROM event_groups WHERE event = ? AND source = ?", event, source);
    return;
  }
  // Only a received signal creates a group.
  if (stored === undefined && received === null) return;
  const row: Partial<EventGroupRow> = {
    event,
    source,
    count,
    held: (stored?.held ?? 0) + change.held,
    anonymous: (stored?.anonymous ?? 0) + change.anonymous,
    days: addDays(stored?.days ?? "", change.days),
  };
  if (received !== null) {
    const { firstMs, latest, sample } = received;
    row.first_seen = Math.min(stored?.first_seen ?? firstMs, firstMs);
    if (stored === undefined || !isLater({ receivedAtMs: stored.last_seen, ordinal: stored.sample_ordinal }, latest)) {
      row.last_seen = latest.receivedAtMs;
      row.last_day = dayOf(latest.receivedAtMs);
      row.sample_ordinal = latest.ordinal;
      row.sample_id = sample.id;
      row.sample_seq = sample.seq;
    }
  }
  if (stored === undefined) insertRow(sql, "event_groups", row);
  else updateRow<Partial<EventGroupRow>>(sql, "event_groups", ["event", "source"], stored, row);
}

function addDays(days: DayCounts, changes: GroupChange["days"]): DayCounts {
  if (Object.values(changes).every((by) => by === 0)) return days;
  return addToDays(days, new Map(Object.entries(changes).map(([day, by]) => [Number(day), by] as const)));
}

export function countedStatusOf({ status, deletedAtMs }: SignalFacts): CountedStatus {
  return status === "processed" && deletedAtMs !== null ? "deleted" : status;
}

export function countedSignal(facts: SignalFacts): CountedSignal {
  return { admission: facts.admission, group: groupOf(facts) };
}

export function groupOf(facts: SignalFacts): GroupName | null {
  const { kind, event, source } = facts;
  return kind === "signal" && event !== null ? { event, source: groupSource(source ?? "", facts) } : null;
}

/** @param periodStartMs undefined: all periods. */
export function readTotals(totals: Totals, periodStartMs: number | undefined): StoreTotals {
  const periods = periodStartMs === undefined ? Object.values(totals) : [totals[periodStartMs] ?? []];
  const [processed = 0, duplicates = 0, held = 0, purged = 0, deadLettered = 0] = BOOK_COLUMNS.map((_, at) =>
    periods.reduce((sum, counts) => sum + (counts[at] ?? 0), 0),
  );
  return { processed, duplicates, held, purged, deadLettered };
}
