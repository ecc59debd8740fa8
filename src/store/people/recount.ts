/**
 * Two jobs that repair people after lines were removed from them. Each step is bounded; its row stores the remaining work.
 *
 * - Recount: if a removed line was the source of a time or a trait, recompute it from the remaining lines, the latest first. Lines that
 *   are recorded meanwhile count as usual, and counting a line twice is harmless.
 * - Replace: if a removed match counted for a rule that scores once, search for the match that counts instead (scoring.ts).
 */
import { isDropped, type Facts } from "../log/line.ts";
import type { Segment } from "../log/segment.ts";
import { deletedUntilMs, type StoreState } from "../state/store-state.ts";
import { People } from "./people.ts";
import { endReplacement } from "./scoring.ts";

/** Budget of a step in lines: some 20 ms. */
export const RECOUNT_STEP_LINES = 5_000;
/** Cost of unpacking a segment, in counted lines. */
const SEGMENT_LINES = 60;
/** Jobs that share the budget of a step. */
const JOBS_PER_STEP = 50;

/** Lines before `before` are left; null: all lines. */
type RecountRow = { person_id: number; before: number | null };
type ReplacementRow = { person_id: number; rule_id: string; behind_seq: number };

/** Writes the changes of people, and recounts them. A job recounts the rest. */
export function writeAndRecount(state: StoreState, people: People): void {
  people.write();
  if (people.toRecount.size === 0) return;
  const step = new RecountStep(state, people);
  for (const personId of people.toRecount) step.take({ person_id: personId, before: null });
  people.toRecount.clear();
  people.write();
}

export function hasRecounts(sql: SqlStorage): boolean {
  return sql.exec("SELECT 1 FROM recounts LIMIT 1").toArray().length > 0;
}

export function stepRecounts(state: StoreState, nowMs: number): void {
  const people = new People(state, nowMs);
  const step = new RecountStep(state, people);
  const jobs = state.sql.exec<RecountRow>("SELECT person_id, before FROM recounts LIMIT ?", JOBS_PER_STEP);
  for (const job of jobs.toArray()) step.take(job);
  people.write();
  state.signals.flush();
}

class RecountStep {
  readonly #state: StoreState;
  readonly #people: People;
  /** Remaining line budget of this step. */
  #budget = RECOUNT_STEP_LINES;

  constructor(state: StoreState, people: People) {
    this.#state = state;
    this.#people = people;
  }

  /** Counts as many lines of a person as the budget allows, and stores the place. */
  take({ person_id: personId, before }: RecountRow): void {
    const { sql } = this.#state;
    const left = this.#people.emailOf(personId) === null ? 0 : this.#count(personId, before);
    if (left === 0) sql.exec("DELETE FROM recounts WHERE person_id = ?", personId);
    else sql.exec("INSERT OR REPLACE INTO recounts (person_id, before) VALUES (?, ?)", personId, left);
  }

  /** Returns the line before which lines are left; 0: none; null: all. */
  #count(personId: number, before: number | null): number | null {
    const limit = this.#budget;
    if (limit <= 0) return before;
    const { sql, signals } = this.#state;
    const entries = this.#people.latestEntriesOf(personId, { before: before ?? Number.MAX_SAFE_INTEGER, limit });
    const oldest = signals.firstSeq;
    const lines: Facts[] = [];
    let left = entries.length < limit ? 0 : (entries.at(-1)?.seq ?? 0);
    let segment: Segment | null = null;
    for (const { seq } of entries) {
      if (seq < oldest) {
        left = 0;
        break;
      }
      if (this.#budget <= 0) {
        left = seq + 1;
        break;
      }
      if (segment === null || seq < segment.firstSeq) {
        segment = signals.segmentOf(seq);
        this.#budget -= SEGMENT_LINES;
      }
      this.#budget--;
      const facts = segment?.facts(seq);
      if (facts !== undefined && !isDropped(facts)) lines.push(facts);
    }
    this.#people.recount(personId, lines, before === null ? deletedUntilMs(sql) : null);
    return left;
  }
}

export function hasReplacements(sql: SqlStorage): boolean {
  return sql.exec("SELECT 1 FROM replacements LIMIT 1").toArray().length > 0;
}

export function stepReplacements(state: StoreState, nowMs: number): void {
  const { sql } = state;
  const people = new People(state, nowMs);
  const jobs = sql.exec<ReplacementRow>(
    "SELECT person_id, rule_id, behind_seq FROM replacements LIMIT ?",
    JOBS_PER_STEP,
  );
  for (const { person_id: personId, rule_id: ruleId, behind_seq: behind } of jobs.toArray()) {
    if (!people.replaceBehind(personId, ruleId, behind)) endReplacement(sql, personId, ruleId);
  }
  people.write();
  state.raised.raise(people.news?.thresholdEvents(nowMs) ?? []);
  state.signals.flush();
}
