/**
 * Scores of lines. A line's matches count, except where a rule scores a person once and another line counts already (`Once` in
 * state/rule-outcomes.ts). When that line is removed, the next match replaces it.
 */
import type { JsonObject } from "../../domain/json/json-value.ts";
import { dayOf } from "../../domain/quota/day-counts.ts";
import { evaluate, type Evaluation } from "../../domain/rules/evaluate-rules.ts";
import type { CompiledRules, RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { normalise } from "../../domain/signal/normalise.ts";
import type { Facts } from "../log/line.ts";
import { countScore } from "../state/rule-outcomes.ts";
import type { StoreState } from "../state/store-state.ts";
import type { Entry, Scored } from "./timelines.ts";

/** Entries that one transaction reads to find replacing matches: some 20 ms. A job (recount.ts) reads the rest. */
export const REPLACE_STEP_ENTRIES = 5_000;
const BEFORE_ALL_LINES = -1;

interface Person {
  id: number;
  score: number;
}

export class Scoring {
  readonly #state: StoreState;
  /** By person and rule: the line behind which to search for the match that replaces a removed match. */
  readonly #released = new Map<number, Map<string, number>>();
  /** Remaining entries to read. */
  #budget = REPLACE_STEP_ENTRIES;

  constructor(state: StoreState) {
    this.#state = state;
  }

  /** Adds the score of a line to its person. Returns the matches that count. */
  add(person: Person, scored: Scored): readonly RuleMatch[] {
    return this.#score(person, scored, 1, (match) => this.#state.once.take(person.id, scored, match));
  }

  /** Removes the score of a line from its person. Returns the matches that had counted. */
  remove(person: Person, scored: Scored): readonly RuleMatch[] {
    return this.#score(person, scored, -1, (match) => {
      if (!this.#state.once.release(person.id, scored, match)) return false;
      if (match.frequency !== undefined) this.replaceBehind(person.id, match.ruleId, BEFORE_ALL_LINES);
      return true;
    });
  }

  /** Changes the score of a line. Returns the effect; null: none. */
  change(person: Person, before: Scored | null, after: Scored | null): "added" | "changed" | "removed" | null {
    const [gone, added] = [without(before, after), without(after, before)];
    const hasLost = gone !== null && this.remove(person, gone).length > 0;
    const hasWon = added !== null && this.add(person, added).length > 0;
    if (hasWon) return hasLost ? "changed" : "added";
    return hasLost ? "removed" : null;
  }

  /** Lets `replaceReleased` search for a replacing match behind a line. */
  replaceBehind(personId: number, ruleId: string, seq: number): void {
    const released = this.#released.get(personId) ?? new Map<string, number>();
    this.#released.set(personId, released.set(ruleId, seq));
  }

  /**
   * Replaces removed matches by the first lines that match the rules' current versions. Outcomes of older versions count again only
   * when the rule is applied to the past. If too many lines must be read, a job continues.
   *
   * @param entriesBehind the person's entries behind a line, ascending. @returns the number of lines that now score.
   */
  replaceReleased(person: Person, entriesBehind: (seq: number) => Iterable<Entry>): number {
    const released = this.#released.get(person.id);
    if (released === undefined) return 0;
    this.#released.delete(person.id);
    const { sql, outcomes, signals } = this.#state;
    const current = [...released.keys()].flatMap((ruleId) => outcomes.currentOf(ruleId) ?? []);
    const taken = new Set<string>();
    let [replaced, behind] = [0, Math.min(...released.values())];
    for (const { seq, scored } of current.length === 0 ? [] : entriesBehind(behind)) {
      if (this.#budget-- <= 0) {
        const insert = "INSERT OR REPLACE INTO replacements (person_id, rule_id, behind_seq) VALUES (?, ?, ?)";
        for (const ruleId of released.keys()) sql.exec(insert, person.id, ruleId, behind);
        return replaced;
      }
      behind = seq;
      if (scored === null) continue;
      const open = scored.outcomes.filter((id) => current.includes(id) && this.#isOpen(person, scored, id, taken));
      if (open.length === 0 || signals.read(seq) === null) continue;
      if (this.add(person, { ...scored, outcomes: open }).length > 0) replaced++;
    }
    for (const ruleId of released.keys()) endReplacement(sql, person.id, ruleId);
    return replaced;
  }

  /** Whether a match can count. @param taken days and rules of known counting matches: a person may have thousands of lines. */
  #isOpen(person: Person, scored: Scored, outcome: number, taken: Set<string>): boolean {
    const match = this.#state.outcomes.get(outcome);
    const occasion = match.frequency === "once_ever" ? match.ruleId : `${match.ruleId} ${dayOf(scored.occurredMs)}`;
    if (taken.has(occasion)) return false;
    if (this.#state.once.isOpen(person.id, scored, match)) return true;
    taken.add(occasion);
    return false;
  }

  #score(
    person: Person,
    { outcomes, atMs }: Scored,
    times: 1 | -1,
    counts: (match: RuleMatch) => boolean,
  ): readonly RuleMatch[] {
    const counted = outcomes.map((id) => this.#state.outcomes.get(id)).filter(counts);
    for (const { points, ruleId } of counted) {
      person.score += times * points;
      countScore(this.#state.books, ruleId, atMs, times);
    }
    return counted;
  }
}

/** The outcomes of a line without those that it keeps; null: none. */
function without(scored: Scored | null, kept: Scored | null): Scored | null {
  const outcomes = scored?.outcomes.filter((id) => kept?.outcomes.includes(id) !== true) ?? [];
  return scored === null || outcomes.length === 0 ? null : { ...scored, outcomes };
}

export function endReplacement(sql: SqlStorage, personId: number, ruleId: string): void {
  sql.exec("DELETE FROM replacements WHERE person_id = ? AND rule_id = ?", personId, ruleId);
}

/** Evaluates rules on a stored signal. Null: the evaluation takes too many steps. @param email of the signal's person. */
export function evaluateStored(
  rules: CompiledRules,
  { source }: Facts,
  payload: string,
  email: string | undefined,
): Evaluation | null {
  return evaluate(rules, normalise(JSON.parse(payload) as JsonObject, source ?? undefined), email);
}

/** The matches of a line that count. */
export function countedMatches({ once, outcomes }: StoreState, facts: Facts): RuleMatch[] {
  const { owner, admission, occurred } = facts;
  if (owner === null) return [];
  const occasion = { signalId: admission.id, occurredMs: occurred.ms };
  return outcomes.of(facts).filter((match) => once.counts(owner.personId, occasion, match));
}
