/**
 * Two ends of signals, in bounded steps of the alarm:
 *
 * - Retention drops signals that are older than the plan allows: whole portions of the log, and once a day the old lines of other
 *   portions. People keep what came from the signals (people/dropped-lines.ts), and the counts of the signal queue stay; the books count
 *   the dropped signals. D1 has the plan: the consumer passes the retention with each batch, and the alarm asks D1 before it drops
 *   anything, and at least once a day.
 * - The purge empties held signals at the end of their billing period. Retention never drops them.
 */
import { DAY_MS, dayOf } from "../../domain/duration.ts";
import { afterPurge, afterRetention, type SignalFacts } from "../log/line.ts";
import type { NumberedLine, Portion, SignalLog } from "../log/signal-log.ts";
import { VisitorLists } from "../people/identities.ts";
import { People } from "../people/people.ts";
import type { StoreConfig } from "../protocol/store-operations.ts";
import type { DeadLetterRow } from "../schema.ts";
import { admissionOf, countMisfit } from "../state/dead-letters.ts";
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
import { nextPurgeMs, nextRetentionMs } from "../state/due.ts";
import { STEPS } from "../steps.ts";

/** Minimum pause between two searches for old signals. */
export const RETENTION_SWEEP_MS = 3_600_000;
/** A store with signals asks D1 for its retention at least this often. */
const RETENTION_ASK_MS = DAY_MS;

/** An unchanged value writes nothing. */
export function setRetention(state: StoreState, { retentionDays }: StoreConfig, nowMs: number): void {
  const { sql, due } = state;
  state.retentionDays = retentionDays;
  const [stored] = sql.exec<{ days: number | null }>("SELECT days FROM retention WHERE id = 1");
  if (stored !== undefined && stored.days === retentionDays) return;
  const nextMs = retentionDays === null ? nowMs + RETENTION_ASK_MS : nowMs;
  sql.exec(
    `INSERT INTO retention (id, days, next_at, deleted_until) VALUES (1, ?1, ?2, 0)
     ON CONFLICT (id) DO UPDATE SET days = excluded.days, next_at = excluded.next_at`,
    retentionDays,
    nextMs,
  );
  due.by("retention", nextMs);
}

export function deleteExpired(state: StoreState, nowMs: number): void {
  const [retention] = state.sql.exec<{ days: number | null }>("SELECT days FROM retention WHERE id = 1");
  if (retention === undefined || (nextRetentionMs(state) ?? nowMs) > nowMs) return;
  if (retention.days === null) return scheduleRetention(state, nowMs + RETENTION_ASK_MS);
  const keptMs = retention.days * DAY_MS;
  const received = { wholly: nowMs - keptMs, partly: dayOf(nowMs) * DAY_MS - keptMs };
  const step = new RetentionStep(state, received, nowMs);
  for (const log of logsOf(state)) step.drop(log);
  step.dropDeadLetters();
  step.flush();
  const expiryMs = Math.min(nowMs + RETENTION_ASK_MS, nextExpiryMs(state, nowMs, keptMs));
  scheduleRetention(state, step.isFull ? nowMs : Math.max(nowMs + RETENTION_SWEEP_MS, expiryMs), step.latestDroppedMs);
  state.signals.flush();
  state.held.flush();
}

function scheduleRetention({ sql, due }: StoreState, nextMs: number, droppedUntilMs = 0): void {
  sql.exec(
    "UPDATE retention SET next_at = ?, deleted_until = max(deleted_until, ?) WHERE id = 1",
    nextMs,
    droppedUntilMs,
  );
  due.by("retention", nextMs);
}

class RetentionStep {
  readonly #state: StoreState;
  /**
   * `wholly`: a portion is dropped if all of its lines were received before this time. `partly`: other lines are dropped if received before
   * this time. It changes once a day, so that a portion is rewritten once a day.
   */
  readonly #received: { wholly: number; partly: number };
  readonly #people: People;
  readonly #lists = new VisitorLists();
  readonly #ofPeople = new Map<number, NumberedLine[]>();
  #dropped = 0;
  #portions = 0;
  /** Receipt of the latest dropped signal, in milliseconds since 1970; 0: none was dropped. */
  latestDroppedMs = 0;

  constructor(state: StoreState, received: { wholly: number; partly: number }, nowMs: number) {
    this.#state = state;
    this.#received = received;
    this.#people = new People(state, nowMs);
  }

  get isFull(): boolean {
    const { retentionLines, retentionPeople, portions } = STEPS;
    return this.#dropped >= retentionLines || this.#ofPeople.size >= retentionPeople || this.#portions >= portions;
  }

  drop(log: SignalLog): void {
    if (this.isFull) return;
    for (const portion of log.walk({ after: 0 }, { received: this.#received })) {
      this.#dropLines(log, portion);
      if (this.isFull) return;
    }
  }

  dropDeadLetters(): void {
    // RETURNING without the payloads: SQLite keeps everything that it returns in memory.
    const rows = this.#state.sql.exec<Pick<DeadLetterRow, "admission" | "status" | "misfit_bytes">>(
      `DELETE FROM dead_letters WHERE seq IN (SELECT seq FROM dead_letters WHERE received_at < ? LIMIT ?)
       RETURNING admission, status, misfit_bytes`,
      this.#received.wholly,
      Math.max(0, STEPS.retentionLines - this.#dropped),
    );
    for (const row of rows) {
      countMisfit(this.#state.head, row.misfit_bytes, -1);
      this.#count({ admission: admissionOf(row), group: null }, row.status);
    }
  }

  flush(): void {
    updateGroups(this.#state);
    this.#lists.flush(this.#state.sql);
    this.#people.preloadPeople(this.#ofPeople.keys());
    for (const [personId, lines] of this.#ofPeople) this.#people.dropLines(personId, lines);
    this.#people.flush();
  }

  #dropLines(log: SignalLog, portion: Portion): void {
    const lines = portion.seqs.map((seq) => ({ seq, facts: portion.facts(seq) }));
    const { wholly, partly } = this.#received;
    const isWhole = lines.every(({ facts }) => facts.admission.receivedAtMs < wholly);
    const old = lines.filter(({ facts }) => isOld(facts, isWhole ? wholly : partly));
    if (old.length === 0) return;
    this.#portions++;
    const dropped: NumberedLine[] = [];
    for (const { seq, facts } of old) {
      // The next step drops the other lines of the portion.
      if (this.#ofPeople.size >= STEPS.retentionPeople) break;
      dropped.push({ seq, facts });
      if (facts.person !== null) this.#noteOfPerson(facts.person.personId, { seq, facts });
      if (log.name === "signals") this.#lists.drop(seq, facts);
      this.#count(countedSignal(facts), countedStatusOf(facts));
    }
    log.rewrite(portion, new Map(dropped.map(({ seq, facts }) => [seq, afterRetention(facts)] as const)));
  }

  #noteOfPerson(personId: number, line: NumberedLine): void {
    const lines = this.#ofPeople.get(personId) ?? [];
    this.#ofPeople.set(personId, lines);
    lines.push(line);
  }

  #count(signal: CountedSignal, status: CountedStatus): void {
    changeStatus(this.#state.head, signal, status, "dropped");
    this.#dropped++;
    this.latestDroppedMs = Math.max(this.latestDroppedMs, signal.admission.receivedAtMs);
  }
}

function isOld({ status, admission }: SignalFacts, beforeMs: number): boolean {
  return status !== "held" && admission.receivedAtMs < beforeMs;
}

function logsOf({ signals, held }: StoreState): SignalLog[] {
  return [signals, held];
}

/** In milliseconds since 1970: a portion or dead letter expires a millisecond later, lines the next day. */
function nextExpiryMs(state: StoreState, nowMs: number, keptMs: number): number {
  const earliest = logsOf(state).map((log) => log.earliest());
  const { dead } = state.sql.exec<{ dead: number | null }>("SELECT min(received_at) AS dead FROM dead_letters").one();
  const days = earliest.flatMap(({ receivedMs }) => (receivedMs === null ? [] : (dayOf(receivedMs) + 1) * DAY_MS));
  const wholes = [...earliest.flatMap(({ wholeMs }) => wholeMs ?? []), dead ?? nowMs].map((ms) => ms + 1);
  return Math.min(nowMs, ...days, ...wholes) + keptMs;
}

export function purgeHeld(state: StoreState, nowMs: number): void {
  const { signals, held } = state;
  if ((nextPurgeMs(state) ?? nowMs) > nowMs) return;
  const blanking = new Blanking(state);
  let [left, portions] = [STEPS.purgeLines, 0];
  for (const portion of held.walk({ after: 0 }, { status: "held", periodEndMs: nowMs })) {
    if (left <= 0 || portions === STEPS.portions) break;
    // A portion can have signals of several periods.
    const seqs = portion.seqs.filter((seq) => {
      const { status, admission } = portion.facts(seq);
      return status === "held" && admission.periodEndMs <= nowMs;
    });
    if (seqs.length === 0) continue;
    portions++;
    blanking.blank(held, { portion, seqs }, afterPurge);
    left -= portion.seqs.length;
  }
  blanking.flush();
  signals.flush();
  held.flush();
}
