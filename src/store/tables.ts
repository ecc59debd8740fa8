/**
 * The writing statements of the store, one function each. Plain SQL rather than the query builder: these run for every
 * signal, and building a query costs more than executing it.
 */
import type { DayCounts } from "../domain/day-counts.ts";
import type { Owner, Receipt } from "./people.ts";
import type { SignalToRecord } from "./protocol.ts";
import type { SignalKind } from "./schema.ts";
import type { SignalStatus } from "./protocol.ts";
import { DayChanges } from "./day-changes.ts";

/** A signal as decided, ready to be written. */
export interface SignalRow {
  signal: SignalToRecord;
  kind: SignalKind;
  status: SignalStatus;
  owner: Owner | null;
  duplicateOf: string | null;
  /** Its person has been deleted since it was received: purged at once. */
  erased?: boolean;
}

const INSERT_SIGNAL = `INSERT INTO signals (seq, id, status, kind, event, source, person_id, named_by, email, user_id,
  anonymous_id, key_id, endpoint, verdict, ordinal, signal_limit, received_at, recorded_at, period_start, period_end, content_hash,
  duplicate_of, rules_tried, dead_reason, path_source, idempotency_key, payload, erased_at)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

export function insertSignal(sql: SqlStorage, seq: number, row: SignalRow, nowMs: number): void {
  const { admission, work, payload } = row.signal;
  const worked = work.kind === "signal" || work.kind === "identify" ? work : null;
  // Purged means forgotten: who it was and what it said are not written at all.
  const content = row.status === "purged" ? null : worked;
  const mayComeAgain = row.status === "held" || row.status === "dead";
  sql.exec(
    INSERT_SIGNAL,
    seq,
    admission.id,
    row.status,
    row.kind,
    worked?.normalised.event ?? null,
    worked?.normalised.source ?? null,
    row.owner?.personId ?? null,
    row.owner?.by ?? null,
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
    row.status === "duplicate" && admission.verdict === "held" ? null : (content?.contentHash ?? null),
    row.duplicateOf,
    worked?.evaluation?.rulesTried ?? 0,
    work.kind === "dead" ? work.reason : null,
    mayComeAgain ? (admission.pathSource ?? null) : null,
    mayComeAgain ? (admission.idempotencyKey ?? null) : null,
    row.status === "duplicate" || row.status === "purged" ? null : payload,
    row.erased === true ? nowMs : null,
  );
}

/** How a signal changes the numbers of its group. */
export interface GroupCounts {
  count: number;
  held: number;
  anonymous: number;
}

interface GroupChange extends GroupCounts {
  event: string;
  source: string;
  /** The part of `count` that each day has. */
  days: DayChanges;
  /** What was received, if anything was: the earliest, the latest, and the original of the latest. */
  received: { firstMs: number; latest: Receipt; sampleId: string } | null;
}

/** Adds up what a batch changes in the signal queue, so that each group is written once. */
export class EventGroupChanges {
  readonly #groups = new Map<string, GroupChange>();
  readonly #replaced: [string, string, string, string][] = [];

  /** @param receivedAtMs of the signals that are counted. */
  count(event: string, source: string, by: GroupCounts, receivedAtMs: number): void {
    const group = this.#group(event, source);
    group.days.add(receivedAtMs, by.count);
    group.count += by.count;
    group.held += by.held;
    group.anonymous += by.anonymous;
  }

  /**
   * Called in order of receipt.
   *
   * @param sampleId the signal itself, or its original.
   */
  received(event: string, source: string, receipt: Receipt, sampleId: string): void {
    const group = this.#group(event, source);
    group.received = { firstMs: group.received?.firstMs ?? receipt.receivedAtMs, latest: receipt, sampleId };
  }

  /** A sample that is no longer an original gives way to the one that is. */
  replaceSample(event: string, source: string, from: string, to: string): void {
    this.#replaced.push([event, source, from, to]);
  }

  write(sql: SqlStorage): void {
    for (const { event, source, count, held, anonymous, received, ...group } of this.#groups.values()) {
      const days = group.days.isNothing ? null : group.days.applyTo(storedDays(sql, event, source));
      if (received === null) sql.exec(CHANGE_GROUP, event, source, count, held, anonymous, days);
      else {
        const { firstMs, latest, sampleId } = received;
        const seen = [firstMs, latest.receivedAtMs, sampleId, latest.ordinal, days];
        sql.exec(UPSERT_GROUP, event, source, count, held, anonymous, ...seen);
      }
    }
    for (const replaced of this.#replaced) sql.exec(REPLACE_SAMPLE, ...replaced);
  }

  #group(event: string, source: string): GroupChange {
    const key = `${source.length} ${source}${event}`;
    let group = this.#groups.get(key);
    if (group === undefined) {
      group = { event, source, count: 0, held: 0, anonymous: 0, days: new DayChanges(), received: null };
      this.#groups.set(key, group);
    }
    return group;
  }
}

function storedDays(sql: SqlStorage, event: string, source: string): DayCounts | null | undefined {
  const [row] = sql.exec<{ days: DayCounts | null }>(
    "SELECT days FROM event_groups WHERE event = ? AND source = ?",
    event,
    source,
  );
  return row?.days;
}

const LATER = "(excluded.last_seen, excluded.sample_ordinal) > (last_seen, sample_ordinal)";
const UPSERT_GROUP = `INSERT INTO event_groups
  (event, source, count, held, anonymous, first_seen, last_seen, sample_id, sample_ordinal, days)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (event, source) DO UPDATE SET
    count = count + excluded.count, held = held + excluded.held, anonymous = anonymous + excluded.anonymous,
    first_seen = min(first_seen, excluded.first_seen),
    sample_id = iif(${LATER}, excluded.sample_id, sample_id),
    sample_ordinal = iif(${LATER}, excluded.sample_ordinal, sample_ordinal),
    last_seen = max(last_seen, excluded.last_seen), days = ifnull(excluded.days, days)`;

const CHANGE_GROUP = `UPDATE event_groups SET count = count + ?3, held = held + ?4, anonymous = anonymous + ?5,
  days = ifnull(?6, days) WHERE event = ?1 AND source = ?2`;

const REPLACE_SAMPLE = "UPDATE event_groups SET sample_id = ?4 WHERE event = ?1 AND source = ?2 AND sample_id = ?3";

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
