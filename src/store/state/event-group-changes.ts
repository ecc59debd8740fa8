/**
 * Changes of the event groups in the signal queue. They wait in the head of the log, which every batch writes anyway. They move to
 * the groups' rows when the head is full or a reader needs the rows. So a busy group costs one row for hundreds of signals.
 */
import { addToDays, dayOf, type DayCounts } from "../../domain/quota/day-counts.ts";
import { isLater, type ReceivedOrder } from "../../wire/admission.ts";

export interface GroupCounts {
  count: number;
  held: number;
  anonymous: number;
}

export interface GroupName {
  event: string;
  source: string;
}

/** The line that a group shows as its example. A negative `seq` is a line of the held log. */
export interface Sample {
  id: string;
  seq: number;
}

/** A change of a group's row, as JSON in the head. */
export interface GroupChange extends GroupCounts, GroupName {
  days: Record<string, number>;
  /** The first and the latest received signal, and the original of the latest; null: none was received. */
  received: { firstMs: number; latest: ReceivedOrder; sample: Sample } | null;
}

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

  count(name: GroupName, by: GroupCounts, receivedAtMs: number): void {
    const group = this.#group(name);
    const day = dayOf(receivedAtMs);
    group.days[day] = (group.days[day] ?? 0) + by.count;
    group.count += by.count;
    group.held += by.held;
    group.anonymous += by.anonymous;
  }

  /** Notes a received signal. @param sample the signal itself, or its original. */
  received(name: GroupName, order: ReceivedOrder, sample: Sample): void {
    const group = this.#group(name);
    group.received = laterOf(group.received, { firstMs: order.receivedAtMs, latest: order, sample });
  }

  /** Adds the changes to the head. The caller flushes the log. */
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

/** Moves the changes from the head to the groups' rows. The caller flushes the log. */
export function updateGroups({ sql, books }: StoredGroups): void {
  for (const change of Object.values(books.groups)) {
    const [row] = sql.exec<Row>(READ, change.event, change.source);
    if (row === undefined) insert(sql, change);
    else update(sql, row, change);
  }
  books.groups = {};
}

function sum(a: GroupChange, b: GroupChange): GroupChange {
  const days = { ...a.days };
  for (const [day, by] of Object.entries(b.days)) days[day] = (days[day] ?? 0) + by;
  return {
    event: a.event,
    source: a.source,
    days,
    count: a.count + b.count,
    held: a.held + b.held,
    anonymous: a.anonymous + b.anonymous,
    received: b.received === null ? a.received : laterOf(a.received, b.received),
  };
}

function laterOf(known: GroupChange["received"], received: NonNullable<GroupChange["received"]>) {
  if (known === null) return received;
  const firstMs = Math.min(known.firstMs, received.firstMs);
  return isLater(known.latest, received.latest) ? { ...known, firstMs } : { ...received, firstMs };
}

function addDays(days: DayCounts, changes: GroupChange["days"]): DayCounts {
  if (Object.values(changes).every((by) => by === 0)) return days;
  return addToDays(days, new Map(Object.entries(changes).map(([day, by]) => [Number(day), by] as const)));
}

function insert(sql: SqlStorage, { event, source, received, days, ...counts }: GroupChange): void {
  // Only a received signal that counts creates a group.
  if (received === null || counts.count <= 0) return;
  const { firstMs, latest, sample } = received;
  sql.exec(
    INSERT,
    event,
    source,
    counts.count,
    counts.held,
    counts.anonymous,
    firstMs,
    latest.receivedAtMs,
    dayOf(latest.receivedAtMs),
    sample.id,
    latest.ordinal,
    sample.seq,
    addDays("", days),
  );
}

/** Writes only changed columns, since naming a column with an index writes a row of the index too. */
function update(sql: SqlStorage, row: Row, change: GroupChange): void {
  const { received } = change;
  // Delete a group without signals: its name may be a person's name.
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
