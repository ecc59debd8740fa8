/**
 * Retention: the store's alarm deletes signals older than the plan's retention, in bounded steps. Segments are
 * dropped when all of their lines are too old; single old lines are removed once a day. People, scores and scoring
 * signals stay, and so do the counts of the signal queue; the books count the dropped signals. Held signals are
 * deleted when their period ends, never here.
 *
 * Open segments are sealed at the end of the UTC day, so that no segment spans weeks.
 *
 * D1 has the plan. The consumer passes the retention with each batch. Before dropping anything, and at least once a
 * day, the alarm asks D1, so that a store without signals also learns of a shorter retention.
 */
import { DAY_MS } from "../../domain/duration.ts";
import { dayOf } from "../../domain/quota/day-counts.ts";
import { RULE_STEP_SEGMENTS } from "../../limits.ts";
import { releaseObjects, scrubCold } from "../log/cold.ts";
import { afterPurge, isDropped } from "../log/line.ts";
import type { Facts } from "../log/line.ts";
import type { Log } from "../log/log.ts";
import type { Segment } from "../log/segment.ts";
import { VisitorLists } from "../people/timelines.ts";
import type { StoreConfig } from "../protocol/store-operations.ts";
import { admissionOf } from "../state/dead-letters.ts";
import type { DeadLetterRow } from "../state/dead-letters.ts";
import { changeStatus, countedSignal, standingOf, updateGroups } from "../state/status-change.ts";
import type { CountedSignal, Standing } from "../state/status-change.ts";
import type { StoreState } from "../state/store-state.ts";
import { Blanking } from "./blanking.ts";

/** Signals deleted per step, at most one segment more: some 50 ms if each is on a different visitor's list. */
export const RETENTION_ROWS = 2_000;
/** Interval between searches for expired signals. */
export const RETENTION_SWEEP_MS = 3_600_000;
/** A store with signals asks D1 for its retention this often at least. */
const RETENTION_ASK_MS = DAY_MS;

/** Sets how long signals are kept. Repeating it writes nothing. */
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

/** When retention has something to do, or D1 is to be asked, in milliseconds since 1970; null: there are no signals. */
export function nextRetentionMs(state: StoreState): number | null {
  if (!hasSignals(state)) return null;
  const [row] = state.sql.exec<{ days: number | null; next_at: number }>(
    "SELECT days, next_at FROM retention WHERE id = 1",
  );
  if (row === undefined) return 0;
  return row.days === null ? row.next_at : Math.min(row.next_at, ...logsOf(state).map(sealMs));
}

/** Takes a step of retention: RETENTION_ROWS lines, or a segment more, in RULE_STEP_SEGMENTS segments at most. */
export function deleteExpired(state: StoreState, nowMs: number): void {
  const [kept] = state.sql.exec<{ days: number | null }>("SELECT days FROM retention WHERE id = 1");
  if (kept === undefined || (nextRetentionMs(state) ?? nowMs) > nowMs) return;
  if (kept.days === null) {
    state.sql.exec("UPDATE retention SET next_at = ? WHERE id = 1", nowMs + RETENTION_ASK_MS);
    return;
  }
  const keptMs = kept.days * DAY_MS;
  const dropping = new Dropping(state, nowMs - keptMs, dayOf(nowMs) * DAY_MS - keptMs);
  for (const log of logsOf(state)) {
    if (sealMs(log) <= nowMs || dropping.isDueIn(log)) log.seal();
    dropping.drop(log);
  }
  dropping.dropDeadLetters();
  dropping.write();
  const expiryMs = Math.min(nowMs + RETENTION_ASK_MS, nextExpiryMs(state, nowMs, keptMs));
  state.sql.exec(
    "UPDATE retention SET next_at = ?, deleted_until = max(deleted_until, ?) WHERE id = 1",
    dropping.isFull ? nowMs : Math.max(nowMs + RETENTION_SWEEP_MS, expiryMs),
    dropping.untilMs,
  );
  state.signals.flush();
  state.held.flush();
}

class Dropping {
  readonly #state: StoreState;
  /** Whole segments are dropped whose lines were all received before this time. */
  readonly #beforeMs: number;
  /** Single lines go that were received before this time. It is the same all day, so that a segment is rewritten once. */
  readonly #beforeDayMs: number;
  readonly #lists = new VisitorLists();
  readonly #objects = new Set<string>();
  #dropped = 0;
  /** Segments that lines were dropped from: of each it may be few. */
  #segments = 0;
  /** Receipt of the latest line that was dropped, in milliseconds since 1970. */
  untilMs = 0;

  constructor(state: StoreState, beforeMs: number, beforeDayMs: number) {
    this.#state = state;
    this.#beforeMs = beforeMs;
    this.#beforeDayMs = beforeDayMs;
  }

  /** Whether the step has dropped its share; more may be too old. */
  get isFull(): boolean {
    return this.#dropped >= RETENTION_ROWS || this.#segments >= RULE_STEP_SEGMENTS;
  }

  /** Whether open lines are too old already: they came late, or all were kept for ever until now. */
  isDueIn(log: Log): boolean {
    const open = log.open();
    return open.seqs().some((seq) => this.#isOld(open.facts(seq), this.#beforeDayMs));
  }

  drop(log: Log): void {
    if (this.isFull) return;
    for (const segment of log.receivedBefore({ wholly: this.#beforeMs, partly: this.#beforeDayMs })) {
      this.#dropLines(log, segment);
      if (this.isFull) return;
    }
  }

  dropDeadLetters(): void {
    const left = RETENTION_ROWS - this.#dropped;
    if (left <= 0) return;
    // Not the payloads: SQLite keeps all that is returned in memory.
    const rows = this.#state.sql.exec<Pick<DeadLetterRow, "admission" | "status">>(
      `DELETE FROM dead_letters WHERE seq IN (SELECT seq FROM dead_letters WHERE received_at < ? LIMIT ?)
       RETURNING admission, status`,
      this.#beforeMs,
      left,
    );
    for (const row of rows) {
      this.#drop({ admission: admissionOf(row), group: null }, row.status);
    }
  }

  write(): void {
    const { sql } = this.#state;
    updateGroups(this.#state);
    this.#lists.write(sql);
    releaseObjects(sql, this.#objects);
  }

  #dropLines(log: Log, segment: Segment): void {
    const { coldObject } = segment;
    const beforeMs = segment.receivedToMs < this.#beforeMs ? this.#beforeMs : this.#beforeDayMs;
    const lines = segment.seqs().map((seq) => ({ seq, facts: segment.facts(seq) }));
    const there = lines.filter(({ facts }) => !isDropped(facts));
    const old = there.filter(({ facts }) => this.#isOld(facts, beforeMs));
    for (const { seq, facts } of old) {
      if (log.name === "signals") this.#lists.drop(seq, facts);
      this.#drop(countedSignal(facts), standingOf(facts));
    }
    if (old.length === 0 && there.length > 0) return;
    this.#segments++;
    if (old.length === there.length) {
      log.drop(segment);
      if (coldObject !== null) this.#objects.add(coldObject);
    } else {
      log.dropLines(
        segment,
        old.map(({ seq }) => seq),
      );
      scrubCold(this.#state.sql, [segment]);
    }
  }

  #isOld({ status, admission }: Facts, beforeMs: number): boolean {
    return status !== "held" && admission.receivedAtMs < beforeMs;
  }

  #drop(signal: CountedSignal, standing: Standing): void {
    const { receivedAtMs } = signal.admission;
    changeStatus(this.#state.books, signal, standing, "dropped");
    this.#dropped++;
    this.untilMs = Math.max(this.untilMs, receivedAtMs);
  }
}

function hasSignals(state: StoreState): boolean {
  if (logsOf(state).some((log) => log.open().length > 0 || log.oldestReceived() !== null)) return true;
  return state.sql.exec("SELECT 1 FROM dead_letters LIMIT 1").toArray().length > 0;
}

function logsOf({ signals, held }: StoreState): Log[] {
  return [signals, held];
}

/** When the open lines are to be sealed; infinity: there are none. */
function sealMs(log: Log): number {
  const open = log.open();
  return open.length === 0 ? Number.POSITIVE_INFINITY : (dayOf(open.facts(open.firstSeq).recordedAtMs) + 1) * DAY_MS;
}

/**
 * When the next lines are too old, in milliseconds since 1970; a line that is yet to be recorded is not, before it has been
 * kept long enough.
 */
function nextExpiryMs(state: StoreState, nowMs: number, keptMs: number): number {
  const oldest = logsOf(state).flatMap((log) => log.oldestReceived() ?? []);
  const { dead } = state.sql.exec<{ dead: number | null }>("SELECT min(received_at) AS dead FROM dead_letters").one();
  const days = oldest.map(({ firstMs }) => (dayOf(firstMs) + 1) * DAY_MS);
  // A line that is exactly as old as it may become is kept.
  const wholes = [...oldest.map(({ wholeMs }) => wholeMs), dead ?? nowMs].map((ms) => ms + 1);
  return Math.min(nowMs, ...days, ...wholes) + keptMs;
}

/** Rows purged per step, so that an alarm never blocks the store for long. */
export const PURGE_ROWS = 2_000;

/**
 * Deletes names and payloads of held signals whose period has ended; it looks at PURGE_ROWS lines, or a segment more, and at
 * RULE_STEP_SEGMENTS segments at most: a segment of large signals has few lines.
 */
export function purgeHeld(state: StoreState, nowMs: number): void {
  const { held } = state;
  const blanking = new Blanking(state);
  for (let [left, segments] = [PURGE_ROWS, 0]; left > 0 && segments < RULE_STEP_SEGMENTS; segments++) {
    const next = held.nextToEnd();
    if (next === null || next.endMs > nowMs) break;
    const segment = next.read();
    blanking.blank(held, segment, dueLines(segment, nowMs), afterPurge);
    left -= segment.length;
    // Updates the row of a sealed segment, because its other lines may end later or have been released.
    if (segment.row !== null) held.summariseAgain(segment.firstSeq);
  }
  blanking.write();
  state.signals.flush();
  held.flush();
}

/** When the next held signals end, in milliseconds since 1970; null when there are none. */
export function nextPurgeMs({ held }: StoreState): number | null {
  return held.nextToEnd()?.endMs ?? null;
}

/** Numbers of the lines whose period has ended: a segment may hold signals of several periods. */
function dueLines(segment: Segment, nowMs: number): number[] {
  return segment.seqs().filter((seq) => {
    const { status, admission } = segment.facts(seq);
    return status === "held" && admission.periodEndMs <= nowMs;
  });
}
