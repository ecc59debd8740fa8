/** Adds up what a batch changes in the signal queue, so that each group is read and written once. */
import { dayOf } from "../../domain/day-counts.ts";
import type { DayCounts } from "../../domain/day-counts.ts";
import { isLater } from "../receipt.ts";
import type { Receipt } from "../receipt.ts";
import { DayChanges } from "./day-changes.ts";

/** How signals change the numbers of their group. */
export interface GroupCounts {
  count: number;
  held: number;
  anonymous: number;
}

/** A line that stands for its group; a negative number is one of the log of held signals. */
export interface Sample {
  id: string;
  seq: number;
}

interface Change extends GroupCounts {
  event: string;
  source: string;
  /** The part of `count` that each day has. */
  days: DayChanges;
  /** What was received, if anything was: the earliest, the latest, and the original of the latest. */
  received: { firstMs: number; latest: Receipt; sample: Sample } | null;
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
  readonly #groups = new Map<string, Change>();

  /** @param receivedAtMs of the signals that are counted. */
  count(event: string, source: string, by: GroupCounts, receivedAtMs: number): void {
    const group = this.#group(event, source);
    group.days.add(receivedAtMs, by.count);
    group.count += by.count;
    group.held += by.held;
    group.anonymous += by.anonymous;
  }

  /** @param sample the signal itself, or its original. */
  received(event: string, source: string, receipt: Receipt, sample: Sample): void {
    const group = this.#group(event, source);
    const { received } = group;
    const firstMs = Math.min(received?.firstMs ?? receipt.receivedAtMs, receipt.receivedAtMs);
    group.received =
      received !== null && isLater(received.latest, receipt)
        ? { ...received, firstMs }
        : { firstMs, latest: receipt, sample };
  }

  write(sql: SqlStorage): void {
    for (const change of this.#groups.values()) {
      const [row] = sql.exec<Row>(READ, change.event, change.source);
      if (row === undefined) insert(sql, change);
      else update(sql, row, change);
    }
  }

  #group(event: string, source: string): Change {
    const key = `${source.length} ${source}${event}`;
    let group = this.#groups.get(key);
    if (group === undefined) {
      group = { event, source, count: 0, held: 0, anonymous: 0, days: new DayChanges(), received: null };
      this.#groups.set(key, group);
    }
    return group;
  }
}

function insert(sql: SqlStorage, { event, source, received, days, ...counts }: Change): void {
  // A group is made by a signal that is received: without one there is nothing to change.
  if (received === null) return;
  const { firstMs, latest, sample } = received;
  const values = [counts.count, counts.held, counts.anonymous, firstMs, latest.receivedAtMs];
  const of = [dayOf(latest.receivedAtMs), sample.id, latest.ordinal, sample.seq, days.applyTo("")];
  sql.exec(INSERT, event, source, ...values, ...of);
}

/** Of those columns that become something else: where one has an index, naming it writes a row there too. */
function update(sql: SqlStorage, row: Row, change: Change): void {
  const { received } = change;
  const now: Partial<Row> = {
    count: row.count + change.count,
    held: row.held + change.held,
    anonymous: row.anonymous + change.anonymous,
    days: change.days.isNothing ? row.days : change.days.applyTo(row.days),
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
