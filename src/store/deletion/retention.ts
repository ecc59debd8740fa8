/**
 * Two ends of signals, in bounded steps of the alarm:
 *
 * - Retention drops signals that are older than the plan allows: whole segments, and once a day the old lines of other segments. People,
 *   scores and the counts of the signal queue stay; the books count the dropped signals. Open lines are sealed at the end of the UTC day,
 *   so that no segment spans weeks. D1 has the plan: the consumer passes the retention with each batch, and the alarm asks D1 before it
 *   drops anything, and at least once a day.
 * - The purge empties held signals at the end of their billing period. Retention never drops them.
 */
import { DAY_MS } from "../../domain/duration.ts";
import { dayOf } from "../../domain/quota/day-counts.ts";
import { RULE_STEP_SEGMENTS } from "../../limits.ts";
import { removeUnusedObjects, scrubCold } from "../log/cold.ts";
import { afterPurge, isDropped, type Facts } from "../log/line.ts";
import type { Log } from "../log/log.ts";
import type { Segment } from "../log/segment.ts";
import { VisitorLists } from "../people/identities.ts";
import type { StoreConfig } from "../protocol/store-operations.ts";
import type { DeadLetterRow } from "../schema.ts";
import { admissionOf } from "../state/dead-letters.ts";
import {
  changeStatus,
  countedSignal,
  countedStatusOf,
  updateGroups,
  type CountedSignal,
  type CountedStatus,
} from "../state/status-change.ts";
import type { StoreState } from "../state/store-state.ts";
import { Blanking } from "./blanking.ts";

/** One segment can exceed this. Some 50 ms if each line is on the timeline of a different visitor. */
export const RETENTION_STEP_LINES = 2_000;
/** Minimum pause between two searches for old signals. */
export const RETENTION_SWEEP_MS = 3_600_000;
/** A store with signals asks D1 for its retention at least this often. */
const RETENTION_ASK_MS = DAY_MS;
export const PURGE_STEP_LINES = 2_000;

/** An unchanged value writes nothing. */
export function setRetention(sql: SqlStorage, { retentionDays }: StoreConfig, nowMs: number): void {
  const [stored] = sql.exec<{ days: number | null }>("SELECT days FROM retention WHERE id = 1");
  if (stored !== undefined && stored.days === retentionDays) return;
  sql.exec(
    `INSERT INTO retention (id, days, next_at, deleted_until) VALUES (1, ?1, ?2, 0)
     ON CONFLICT (id) DO UPDATE SET days = excluded.days, next_at = excluded.next_at`,
    retentionDays,
    retentionDays === null ? nowMs + RETENTION_ASK_MS : nowMs,
  );
}

/** In milliseconds since 1970; null: there are no signals. */
export function nextRetentionMs(state: StoreState): number | null {
  if (!hasSignals(state)) return null;
  const [row] = state.sql.exec<{ days: number | null; next_at: number }>(
    "SELECT days, next_at FROM retention WHERE id = 1",
  );
  if (row === undefined) return 0;
  return row.days === null ? row.next_at : Math.min(row.next_at, ...logsOf(state).map(sealMs));
}

export function deleteExpired(state: StoreState, nowMs: number): void {
  const [retention] = state.sql.exec<{ days: number | null }>("SELECT days FROM retention WHERE id = 1");
  if (retention === undefined || (nextRetentionMs(state) ?? nowMs) > nowMs) return;
  if (retention.days === null) {
    state.sql.exec("UPDATE retention SET next_at = ? WHERE id = 1", nowMs + RETENTION_ASK_MS);
    return;
  }
  const keptMs = retention.days * DAY_MS;
  const step = new RetentionStep(state, nowMs - keptMs, dayOf(nowMs) * DAY_MS - keptMs);
  for (const log of logsOf(state)) {
    if (sealMs(log) <= nowMs || step.hasOldOpenLines(log)) log.seal();
    step.drop(log);
  }
  step.dropDeadLetters();
  step.write();
  const expiryMs = Math.min(nowMs + RETENTION_ASK_MS, nextExpiryMs(state, nowMs, keptMs));
  state.sql.exec(
    "UPDATE retention SET next_at = ?, deleted_until = max(deleted_until, ?) WHERE id = 1",
    step.isFull ? nowMs : Math.max(nowMs + RETENTION_SWEEP_MS, expiryMs),
    step.latestDroppedMs,
  );
  state.signals.flush();
  state.held.flush();
}

class RetentionStep {
  readonly #state: StoreState;
  /** A segment is dropped if all of its lines were received before this time. */
  readonly #beforeMs: number;
  /** Other lines are dropped if received before this time. It changes once a day, so that a segment is rewritten once a day. */
  readonly #beforeDayMs: number;
  readonly #lists = new VisitorLists();
  readonly #objects = new Set<string>();
  #dropped = 0;
  #segments = 0;
  /** Receipt of the latest dropped signal, in milliseconds since 1970; 0: none was dropped. */
  latestDroppedMs = 0;

  constructor(state: StoreState, beforeMs: number, beforeDayMs: number) {
    this.#state = state;
    this.#beforeMs = beforeMs;
    this.#beforeDayMs = beforeDayMs;
  }

  get isFull(): boolean {
    return this.#dropped >= RETENTION_STEP_LINES || this.#segments >= RULE_STEP_SEGMENTS;
  }

  /** Open lines are too old if they arrived late or the retention has changed. */
  hasOldOpenLines(log: Log): boolean {
    const open = log.open();
    return open.seqs().some((seq) => isOld(open.facts(seq), this.#beforeDayMs));
  }

  drop(log: Log): void {
    if (this.isFull) return;
    for (const segment of log.receivedBefore({ wholly: this.#beforeMs, partly: this.#beforeDayMs })) {
      this.#dropLines(log, segment);
      if (this.isFull) return;
    }
  }

  dropDeadLetters(): void {
    // RETURNING without the payloads: SQLite keeps everything that it returns in memory.
    const rows = this.#state.sql.exec<Pick<DeadLetterRow, "admission" | "status">>(
      `DELETE FROM dead_letters WHERE seq IN (SELECT seq FROM dead_letters WHERE received_at < ? LIMIT ?)
       RETURNING admission, status`,
      this.#beforeMs,
      Math.max(0, RETENTION_STEP_LINES - this.#dropped),
    );
    for (const row of rows) this.#count({ admission: admissionOf(row), group: null }, row.status);
  }

  write(): void {
    const { sql } = this.#state;
    updateGroups(this.#state);
    this.#lists.write(sql);
    removeUnusedObjects(sql, this.#objects);
  }

  #dropLines(log: Log, segment: Segment): void {
    const beforeMs = segment.receivedToMs < this.#beforeMs ? this.#beforeMs : this.#beforeDayMs;
    const lines = segment
      .seqs()
      .map((seq) => ({ seq, facts: segment.facts(seq) }))
      .filter(({ facts }) => !isDropped(facts));
    const old = lines.filter(({ facts }) => isOld(facts, beforeMs));
    for (const { seq, facts } of old) {
      if (log.name === "signals") this.#lists.drop(seq, facts);
      this.#count(countedSignal(facts), countedStatusOf(facts));
    }
    if (old.length === 0 && lines.length > 0) return;
    this.#segments++;
    if (old.length === lines.length) {
      log.drop(segment);
      if (segment.coldObject !== null) this.#objects.add(segment.coldObject);
    } else {
      log.dropLines(
        segment,
        old.map(({ seq }) => seq),
      );
      scrubCold(this.#state.sql, [segment]);
    }
  }

  #count(signal: CountedSignal, status: CountedStatus): void {
    changeStatus(this.#state.books, signal, status, "dropped");
    this.#dropped++;
    this.latestDroppedMs = Math.max(this.latestDroppedMs, signal.admission.receivedAtMs);
  }
}

function isOld({ status, admission }: Facts, beforeMs: number): boolean {
  return status !== "held" && admission.receivedAtMs < beforeMs;
}

function hasSignals(state: StoreState): boolean {
  if (logsOf(state).some((log) => log.open().length > 0 || log.oldestReceived() !== null)) return true;
  return state.sql.exec("SELECT 1 FROM dead_letters LIMIT 1").toArray().length > 0;
}

function logsOf({ signals, held }: StoreState): Log[] {
  return [signals, held];
}

function sealMs(log: Log): number {
  const open = log.open();
  return open.length === 0 ? Number.POSITIVE_INFINITY : (dayOf(open.facts(open.firstSeq).recordedAtMs) + 1) * DAY_MS;
}

/** In milliseconds since 1970: a segment or dead letter expires a millisecond later, lines the next day. */
function nextExpiryMs(state: StoreState, nowMs: number, keptMs: number): number {
  const oldest = logsOf(state).flatMap((log) => log.oldestReceived() ?? []);
  const { dead } = state.sql.exec<{ dead: number | null }>("SELECT min(received_at) AS dead FROM dead_letters").one();
  const days = oldest.map(({ firstMs }) => (dayOf(firstMs) + 1) * DAY_MS);
  const wholes = [...oldest.map(({ wholeMs }) => wholeMs), dead ?? nowMs].map((ms) => ms + 1);
  return Math.min(nowMs, ...days, ...wholes) + keptMs;
}

export function purgeHeld(state: StoreState, nowMs: number): void {
  const { signals, held } = state;
  const blanking = new Blanking(state);
  for (let [left, segments] = [PURGE_STEP_LINES, 0]; left > 0 && segments < RULE_STEP_SEGMENTS; segments++) {
    const next = held.nextPeriodEnd();
    if (next === null || next.endMs > nowMs) break;
    const segment = next.read();
    // A segment can have signals of several periods.
    const due = segment.seqs().filter((seq) => {
      const { status, admission } = segment.facts(seq);
      return status === "held" && admission.periodEndMs <= nowMs;
    });
    blanking.blank(held, segment, due, afterPurge);
    left -= segment.length;
    // The other lines may end later.
    if (segment.row !== null) held.summariseAgain(segment.firstSeq);
  }
  blanking.write();
  signals.flush();
  held.flush();
}
