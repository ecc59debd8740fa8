/**
 * The writing statements of the store, one function each. Plain SQL rather than the query builder: these run for every
 * signal, and building a query costs more than executing it.
 */
import type { SignalToRecord } from "./protocol.ts";
import type { SignalKind } from "./schema.ts";
import type { SignalStatus } from "./protocol.ts";

/** A signal as decided, ready to be written. */
export interface SignalRow {
  signal: SignalToRecord;
  kind: SignalKind;
  status: SignalStatus;
  personId: number | null;
  duplicateOf: string | null;
}

const INSERT_SIGNAL = `INSERT INTO signals (id, status, kind, event, source, person_id, email, user_id, anonymous_id,
  key_id, endpoint, verdict, ordinal, signal_limit, received_at, recorded_at, period_start, period_end, content_hash,
  duplicate_of, rules_tried, dead_reason, payload)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

export function insertSignal(sql: SqlStorage, row: SignalRow, nowMs: number): void {
  const { admission, work, payload } = row.signal;
  const worked = work.kind === "signal" || work.kind === "identify" ? work : null;
  // Purged means forgotten: who it was and what it said are not written at all.
  const content = row.status === "purged" ? null : worked;
  sql.exec(
    INSERT_SIGNAL,
    admission.id,
    row.status,
    row.kind,
    worked?.normalised.event ?? null,
    worked?.normalised.source ?? null,
    row.personId,
    content?.normalised.email ?? null,
    content?.normalised.userId ?? null,
    content?.normalised.anonymousId ?? null,
    admission.keyId,
    admission.endpoint,
    admission.verdict,
    admission.ordinal,
    admission.signalLimit,
    admission.receivedAtMs,
    nowMs,
    admission.periodStartMs,
    admission.periodEndMs,
    row.status === "duplicate" ? null : (content?.contentHash ?? null),
    row.duplicateOf,
    worked?.evaluation?.rulesTried ?? 0,
    work.kind === "dead" ? work.reason : null,
    row.status === "duplicate" || row.status === "purged" ? null : payload,
  );
}

/** Adds up what a batch changes in the signal queue, so that each group is written once. */
export class EventGroupChanges {
  readonly #groups = new Map<string, GroupChange>();

  add(event: string, source: string, change: Omit<GroupChange, "event" | "source">): void {
    const key = `${source}\u0000${event}`;
    const group = this.#groups.get(key);
    if (group === undefined) {
      this.#groups.set(key, { event, source, ...change });
      return;
    }
    group.count += change.count;
    group.held += change.held;
    group.anonymous += change.anonymous;
    if (change.sampleId === null) return;
    group.firstSeen = Math.min(group.firstSeen, change.firstSeen);
    if (change.lastSeen >= group.lastSeen) {
      group.lastSeen = change.lastSeen;
      group.sampleId = change.sampleId;
    }
  }

  write(sql: SqlStorage): void {
    for (const group of this.#groups.values()) {
      sql.exec(
        group.sampleId === null ? CHANGE_GROUP : UPSERT_GROUP,
        group.event,
        group.source,
        group.count,
        group.held,
        group.anonymous,
        ...(group.sampleId === null ? [] : [group.firstSeen, group.lastSeen, group.sampleId]),
      );
    }
  }
}

export interface GroupChange {
  event: string;
  source: string;
  count: number;
  held: number;
  anonymous: number;
  firstSeen: number;
  lastSeen: number;
  /** The signal that brought the change; null where signals only left. */
  sampleId: string | null;
}

const UPSERT_GROUP = `INSERT INTO event_groups
  (event, source, count, held, anonymous, first_seen, last_seen, sample_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (event, source) DO UPDATE SET
    count = count + excluded.count, held = held + excluded.held, anonymous = anonymous + excluded.anonymous,
    first_seen = min(first_seen, excluded.first_seen),
    sample_id = CASE WHEN excluded.last_seen >= last_seen THEN excluded.sample_id ELSE sample_id END,
    last_seen = max(last_seen, excluded.last_seen)`;

const CHANGE_GROUP = `UPDATE event_groups SET count = count + ?3, held = held + ?4, anonymous = anonymous + ?5
  WHERE event = ?1 AND source = ?2`;

type TotalColumn = "processed" | "duplicates" | "held" | "purged" | "dead_lettered";
const TOTAL_COLUMNS: readonly TotalColumn[] = ["processed", "duplicates", "held", "purged", "dead_lettered"];

/** Adds up what a batch changes in the books, per billing period. */
export class TotalChanges {
  readonly #periods = new Map<number, Record<TotalColumn, number>>();

  add(periodStartMs: number, column: TotalColumn, by: number): void {
    let period = this.#periods.get(periodStartMs);
    if (period === undefined) {
      period = { processed: 0, duplicates: 0, held: 0, purged: 0, dead_lettered: 0 };
      this.#periods.set(periodStartMs, period);
    }
    period[column] += by;
  }

  write(sql: SqlStorage): void {
    for (const [periodStartMs, change] of this.#periods) {
      sql.exec(
        `INSERT INTO totals (period_start, ${TOTAL_COLUMNS.join(", ")}) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (period_start) DO UPDATE SET
           ${TOTAL_COLUMNS.map((column) => `${column} = ${column} + excluded.${column}`).join(", ")}`,
        periodStartMs,
        ...TOTAL_COLUMNS.map((column) => change[column]),
      );
    }
  }
}
