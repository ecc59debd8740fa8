/** One step of a rule's job (see rule-jobs.ts): scoring signals brought in line with the rule, and scores with them. */
import { compileRules, eventRange, isAboutEvent } from "../domain/mapping-rule.ts";
import type { CompiledRules, MappingRule } from "../domain/mapping-rule.ts";
import { RULE_STEP_MAX_CHARACTERS } from "../limits.ts";
import { BLOCK_ROWS, rowsByBlock, SCORES_BY_RULE, SIGNALS_BY_EVENT } from "./blocks.ts";
import { RuleDayChanges } from "./day-changes.ts";
import type { JobRow } from "./rule-jobs.ts";
import { matchOf, STORED_SIGNAL } from "./rule-signals.ts";
import type { StoredSignal } from "./rule-signals.ts";
import { insertRows, SCORES } from "./timelines.ts";

/** A signal with the scoring signal that the rule has made of it, if it has. */
interface JudgedSignal extends StoredSignal {
  linked_at: number | null;
  scoring_id: number | null;
  rule_version: number | null;
  scoring_signal: string | null;
  points: number | null;
}

const JUDGED_SIGNAL = `SELECT ${STORED_SIGNAL}, signals.linked_at, scored.id AS scoring_id, scored.rule_version, scored.scoring_signal,
    scored.points
  FROM signals LEFT JOIN people ON people.id = signals.person_id
  LEFT JOIN scoring_signals AS scored ON scored.signal_id = signals.id AND scored.rule_id = ?1`;

interface Scored {
  [column: string]: SqlStorageValue;
  person_id: number;
  points: number;
  rule_version: number;
  at: number;
  /** Null: its signal is not stored any more. */
  event: string | null;
}

const SCORED = [
  "person_id",
  "points",
  "rule_version",
  "at",
  "(SELECT event FROM signals WHERE signals.id = scoring_signals.signal_id) AS event",
];

/** Looking for an event takes as long as a signal for so many blocks that it goes past. */
const BLOCKS_AS_LONG_AS_A_SIGNAL = 20;

/** The next signals of the events that the rule is about, in the order of events and then as they were recorded. */
export function reconcileEvents(sql: SqlStorage, job: JobRow, rule: MappingRule, limit: number): void {
  const compiled = compileRules([rule]);
  const scores = new Scores(sql);
  const lookUp = 1 + Math.floor(job.last_seq / BLOCK_ROWS / BLOCKS_AS_LONG_AS_A_SIGNAL);
  let budget = limit;
  while (budget > 0 && job.event !== null) {
    if (!isAboutEvent(compiled, job.event)) {
      budget--;
      nextEvent(sql, job, rule);
      continue;
    }
    const { signals, all } = readSignals(sql, job, budget);
    for (const signal of signals) {
      job.position = signal.seq;
      job.scanned += signal.counted;
      reconcile(sql, job, rule.version, compiled, signal, scores);
    }
    budget -= signals.length + lookUp;
    if (!all) break;
    nextEvent(sql, job, rule);
  }
  scores.write();
}

/** One signal, wherever the job is. */
export function reconcileOne(sql: SqlStorage, job: JobRow, rule: MappingRule, signalId: string): void {
  const scores = new Scores(sql);
  const compiled = compileRules([rule]);
  const signals = sql.exec<JudgedSignal>(`${JUDGED_SIGNAL} WHERE signals.id = ?2`, job.rule_id, signalId).toArray();
  for (const signal of signals) reconcile(sql, { ...job }, rule.version, compiled, signal, scores);
  scores.write();
}

/**
 * The rule's scoring signals of events that it is no longer about, or all of them when there is no rule. One whose
 * signal is no longer stored cannot be judged, and stays with its rule. Returns whether there are no more.
 */
export function removeOthers(sql: SqlStorage, job: JobRow, rule: MappingRule | null, limit: number): boolean {
  const compiled = rule === null ? null : compileRules([rule]);
  const scores = new Scores(sql);
  const sought = { value: job.rule_id, from: job.position, to: "later", limit } as const;
  let read = 0;
  for (const scored of rowsByBlock<Scored>(sql, SCORES_BY_RULE, sought, SCORED)) {
    read++;
    const { row: id, person_id, points, rule_version, at, event } = scored;
    job.position = id;
    const stays = compiled !== null && (event === null || isAboutEvent(compiled, event));
    if (stays || (rule !== null && rule_version > rule.version)) continue;
    sql.exec("DELETE FROM scoring_signals WHERE id = ?", id);
    scores.add(person_id, -points);
    scores.count(job.rule_id, at, -1);
    job.removed++;
  }
  scores.write();
  return read < limit;
}

/** Those after the job's position in its event; `all: false` when the step has no room for more. */
function readSignals(sql: SqlStorage, job: JobRow, limit: number): { signals: JudgedSignal[]; all: boolean } {
  const sought = { value: job.event ?? "", from: job.position, to: "later", until: job.last_seq } as const;
  const signals: JudgedSignal[] = [];
  let characters = 0;
  for (const { row: seq } of rowsByBlock(sql, SIGNALS_BY_EVENT, sought)) {
    if (signals.length === limit) return { signals, all: false };
    const row = sql.exec<JudgedSignal>(`${JUDGED_SIGNAL} WHERE signals.seq = ?2`, job.rule_id, seq).one();
    signals.push(row);
    characters += row.payload?.length ?? 0;
    if (characters >= RULE_STEP_MAX_CHARACTERS) return { signals, all: false };
  }
  return { signals, all: true };
}

/** Null when there are no more: then come the scoring signals of other events. */
function nextEvent(sql: SqlStorage, job: JobRow, rule: MappingRule): void {
  const { prefix, exact } = eventRange(rule.event);
  const [next] = exact
    ? []
    : sql
        .exec<{ event: string }>("SELECT event FROM event_groups WHERE event > ? ORDER BY event LIMIT 1", job.event)
        .toArray();
  job.event = next?.event.startsWith(prefix) === true ? next.event : null;
  job.position = 0;
}

function reconcile(
  sql: SqlStorage,
  job: JobRow,
  ruleVersion: number,
  compiled: CompiledRules,
  signal: JudgedSignal,
  scores: Scores,
): void {
  const linkedSince = signal.linked_at !== null && signal.linked_at > job.requested_at;
  if (signal.payload === null || signal.person_id === null || linkedSince) return;
  const match = matchOf(compiled, signal);
  const { scoring_id: id, person_id: personId } = signal;
  if (match !== undefined) job.matched++;
  if (id === null) {
    if (match === undefined) return;
    const made = sql
      .exec<{ id: number }>(
        `INSERT INTO scoring_signals (signal_id, rule_id, rule_version, person_id, scoring_signal, points, at)
         VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id`,
        signal.id,
        match.ruleId,
        match.ruleVersion,
        personId,
        match.scoringSignal,
        match.points,
        signal.received_at,
      )
      .one();
    insertRows(sql, SCORES, personId, String(made.id));
    scores.add(personId, match.points);
    scores.count(job.rule_id, signal.received_at, 1);
    job.added++;
    return;
  }
  const { points, version } = { points: signal.points ?? 0, version: signal.rule_version ?? 0 };
  if (version > ruleVersion) return;
  if (match === undefined) {
    sql.exec("DELETE FROM scoring_signals WHERE id = ?", id);
    scores.add(personId, -points);
    scores.count(job.rule_id, signal.received_at, -1);
    job.removed++;
  } else if (version < match.ruleVersion) {
    sql.exec(
      "UPDATE scoring_signals SET rule_version = ?2, scoring_signal = ?3, points = ?4 WHERE id = ?1",
      id,
      match.ruleVersion,
      match.scoringSignal,
      match.points,
    );
    scores.add(personId, match.points - points);
    job.changed++;
  }
}

/** Adds up what a step changes, so that each person is written once, and the rule's days. */
class Scores {
  readonly #sql: SqlStorage;
  readonly #points = new Map<number, number>();
  readonly #days = new RuleDayChanges();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  add(personId: number, points: number): void {
    this.#points.set(personId, (this.#points.get(personId) ?? 0) + points);
  }

  count(ruleId: string, atMs: number, by: number): void {
    this.#days.add(ruleId, atMs, by);
  }

  write(): void {
    this.#days.write(this.#sql);
    for (const [personId, points] of this.#points) {
      if (points !== 0) this.#sql.exec("UPDATE people SET score = score + ? WHERE id = ?", points, personId);
    }
  }
}
