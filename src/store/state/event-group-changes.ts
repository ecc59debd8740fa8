/**
 * Adds up what batches change in the signal queue. The changes stand in the head of the log, which each batch writes in any
 * case, and go to the groups' rows when the head has no room for them, or when somebody reads those: a group that every
 * batch has costs a row in hundreds of signals, not in each batch.
 */
import { addToDays, dayOf } from "../../domain/quota/day-counts.ts";
import type { DayCounts } from "../../domain/quota/day-counts.ts";
import { isLater } from "../receipt.ts";
import type { Receipt } from "../receipt.ts";

/** How signals change the numbers of their group. */
export interface GroupCounts {
  count: number;
  held: number;
  anonymous: number;
}

export interface GroupName {
  event: string;
  source: string;
}

/** A line that stands for its group; a negative number is one of the log of held signals. */
export interface Sample {
  id: string;
  seq: number;
}

/** What is to be added to a group's row; plain data, as the head keeps it. */
export interface GroupChange extends GroupCounts, GroupName {
  /** The part of `count` that each day has, by its number. */
  days: Record<string, number>;
  /** Signals that were received: the time of the first, the receipt of the latest, and that one's original; null: none was. */
  received: { firstMs: number; latest: Receipt; sample: Sample } | null;
}

/** The part of the head that has changes which are still to be added to the groups' rows. */
export interface PendingGroups {
  groups: Record<string, GroupChange>;
}

interface StoredGroups {
  sql: SqlStorage;
  books: PendingGroups;
}

interface Row {
  [column: string]: SqlStorageValue;
  count: number;
  held: number;
  anonymous: number;
  first_seen: number;
  last_seen: number;
  last_day: number;
  sample_id: string;
  sample_ordinal: number;
  sample_seq: number;
  days: DayCounts;
}

const COLUMNS = [
  "count",
  "held",
  "anonymous",
  "first_seen",
  "last_seen",
  "last_day",
  "sample_id",
  "sample_ordinal",
  "sample_seq",
  "days",
] as const;
const INSERT = `INSERT INTO event_groups (event, source, ${COLUMNS.join(", ")}) VALUES (?, ?, ${COLUMNS.map(() => "?").join(", ")})`;
const READ = `SELECT ${COLUMNS.join(", ")} FROM event_groups WHERE event = ? AND source = ?`;

export class EventGroupChanges {
  readonly #groups = new Map<string, GroupChange>();

  /** Counts signals of a group. @param receivedAtMs of the signals that are counted. */
  count(name: GroupName, by: GroupCounts, receivedAtMs: number): void {
    const group = this.#group(name);
    const day = dayOf(receivedAtMs);
    group.days[day] = (group.days[day] ?? 0) + by.count;
    group.count += by.count;
    group.held += by.held;
    group.anonymous += by.anonymous;
  }

  /** Notes a signal that was received. @param sample the signal itself, or its original. */
  received(name: GroupName, receipt: Receipt, sample: Sample): void {
    const group = this.#group(name);
    group.received = laterOf(group.received, { firstMs: receipt.receivedAtMs, latest: receipt, sample });
  }

  /** Adds the changes to those in the head. The caller flushes the log. */
  write({ books }: Pick<StoredGroups, "books">): void {
    for (const [key, change] of this.#groups) {
      const known = books.groups[key];
      books.groups[key] = known === undefined ? change : sum(known, change);
    }
  }

  #group({ event, source }: GroupName): GroupChange {
    const key = `${source.length} ${source}${event}`;
    let group = this.#groups.get(key);
    if (group === undefined) {
      group = { event, source, count: 0, held: 0, anonymous: 0, days: {}, received: null };
      this.#groups.set(key, group);
    }
    return group;
  }
}

/** Adds what waits in the head to the rows of the groups. The caller flushes the log. */
export function updateGroups({ sql, books }: StoredGroups): void {
  for (const change of Object.values(books.groups)) {
    const [row] = sql.exec<Row>(READ, change.event, change.source);
    if (row === undefined) insert(sql, change);
    else update(sql, row, change);
  }
  books.groups = {};
}

function sum(one: GroupChange, other: GroupChange): GroupChange {
  const days = { ...one.days };
  for (const [day, by] of Object.entries(other.days)) days[day] = (days[day] ?? 0) + by;
  return {
    event: one.event,
    source: one.source,
    days,
    count: one.count + other.count,
    held: one.held + other.held,
    anonymous: one.anonymous + other.anonymous,
    received: other.received === null ? one.received : laterOf(one.received, other.received),
  };
}

function laterOf(known: GroupChange["received"], received: NonNullable<GroupChange["received"]>) {
  if (known === null) return received;
  const firstMs = Math.min(known.firstMs, received.firstMs);
  return isLater(known.latest, received.latest) ? { ...known, firstMs } : { ...received, firstMs };
}

function addDays(days: DayCounts, changes: GroupChange["days"]): DayCounts {
  const isNothing = Object.values(changes).every((by) => by === 0);
  return isNothing
    ? days
    : addToDays(days, new Map(Object.entries(changes).map(([day, by]) => [Number(day), by] as const)));
}

function insert(sql: SqlStorage, { event, source, received, days, ...counts }: GroupChange): void {
  // A group is made by a signal that is received and counts: without one there is nothing to change.
  if (received === null || counts.count <= 0) return;
  const { firstMs, latest, sample } = received;
  const values = [counts.count, counts.held, counts.anonymous, firstMs, latest.receivedAtMs];
  const of = [dayOf(latest.receivedAtMs), sample.id, latest.ordinal, sample.seq, addDays("", days)];
  sql.exec(INSERT, event, source, ...values, ...of);
}

/** Writes those columns of a group that have changed: where one has an index, naming it writes a row there too. */
function update(sql: SqlStorage, row: Row, change: GroupChange): void {
  const { received } = change;
  // A group that has no signals left goes: its name may be somebody's.
  if (row.count + change.count <= 0) {
    sql.exec("DELETE FROM event_groups WHERE event = ? AND source = ?", change.event, change.source);
    return;
  }
  const now: Partial<Row> = {
    count: row.count + change.count,
    held: row.held + change.held,
    anonymous: row.anonymous + change.anonymous,
    days: addDays(row.days, change.days),
  };
  if (received !== null) {
    const { firstMs, latest, sample } = received;
    now.first_seen = Math.min(row.first_seen, firstMs);
    if (!isLater({ receivedAtMs: row.last_seen, ordinal: row.sample_ordinal }, latest)) {
      now.last_seen = latest.receivedAtMs;
      now.last_day = dayOf(latest.receivedAtMs);
      now.sample_ordinal = latest.ordinal;
      now.sample_id = sample.id;
      now.sample_seq = sample.seq;
    }
  }
  const changed = Object.entries(now).filter(([column, value]) => row[column] !== value);
  if (changed.length === 0) return;
  sql.exec(
    `UPDATE event_groups SET ${changed.map(([column]) => `${column} = ?`).join(", ")} WHERE event = ? AND source = ?`,
    ...changed.map(([, value]) => value ?? null),
    change.event,
    change.source,
  );
}
