/**
 * Replacements of matches: if the match of a rule that scores once leaves a person, another match counts instead. A row of `replacements`
 * stores the person, the rule, and after which line the search continues. Steps of the alarm read the person's timeline once, in
 * ascending order, without any line of the log: an entry has its outcomes, also if retention has dropped the line.
 *
 * - The first match of the rule's current version counts. Outcomes of older versions count again only when the rule is applied to the past.
 * - If the points of a once-ever rule lapse, they count from the day of the earliest match. The same pass finds it.
 *
 * Meanwhile `score_before` has the score that was last compared with the thresholds (people.ts).
 */
import { dayOf } from "../../domain/duration.ts";
import { hasFirstDay } from "../state/rule-outcomes.ts";
import type { StoreState } from "../state/store-state.ts";
import { STEPS } from "../steps.ts";
import { People } from "./people.ts";
import type { Scored } from "./timelines.ts";

type ReplacementRow = { person_id: number; rule_id: string; behind_seq: number };

export function stepReplacements(state: StoreState, nowMs: number): void {
  const people = new People(state, nowMs);
  const rows = state.sql.exec<ReplacementRow>(
    "SELECT person_id, rule_id, behind_seq FROM replacements ORDER BY person_id, rule_id LIMIT ?",
    STEPS.peopleJobs,
  );
  replace(state, people, rows.toArray());
  people.flush();
  state.signals.flush();
}

/** Takes a step of the replacements of one rule; null: of all rules. Returns the number of lines that now score. */
export function replaceOfRule(state: StoreState, people: People, ruleId: string | null): number {
  const [where, ...bindings] = ofRule(ruleId);
  const rows = state.sql.exec<ReplacementRow>(
    `SELECT person_id, rule_id, behind_seq FROM replacements ${where} LIMIT ?`,
    ...bindings,
    STEPS.peopleJobs,
  );
  return replace(state, people, rows.toArray());
}

/** @param ruleId null: of any rule. */
export function hasReplacements(sql: SqlStorage, ruleId: string | null): boolean {
  const [where, ...bindings] = ofRule(ruleId);
  return sql.exec(`SELECT 1 FROM replacements ${where} LIMIT 1`, ...bindings).toArray().length > 0;
}

function ofRule(ruleId: string | null): [where: string, ...bindings: string[]] {
  return ruleId === null ? [""] : ["WHERE rule_id = ?", ruleId];
}

function replace(state: StoreState, people: People, rows: readonly ReplacementRow[]): number {
  const step = new ReplacementStep(state, people);
  for (const [personId, searches] of Map.groupBy(rows, (row) => row.person_id)) step.take(personId, searches);
  return step.replaced;
}

class ReplacementStep {
  readonly #state: StoreState;
  readonly #people: People;
  /** Lines that now score. */
  replaced = 0;
  /** In entries. */
  #budget = STEPS.replaceEntries;

  constructor(state: StoreState, people: People) {
    this.#state = state;
    this.#people = people;
  }

  take(personId: number, rows: readonly ReplacementRow[]): void {
    const searches = this.#people.exists(personId) ? rows.map((row) => new Search(this.#state, row)) : [];
    const open = searches.filter(({ canFind }) => canFind);
    let after = Math.min(...open.map(({ behindSeq }) => behindSeq));
    for (const { seq, scored } of open.length === 0 ? [] : this.#people.entriesAfter(personId, after)) {
      if (this.#budget-- <= 0) {
        for (const search of searches) this.#pause(personId, search, after);
        return;
      }
      after = seq;
      if (scored !== null && open.filter((search) => this.#try(personId, search, seq, scored)).length > 0)
        this.replaced++;
    }
    for (const search of searches) this.#moveFirstDay(personId, search);
    this.#end(personId, rows);
  }

  /** Returns whether the entry counts now. */
  #try(personId: number, search: Search, seq: number, scored: Scored): boolean {
    const outcome = seq > search.behindSeq ? search.countable(scored) : null;
    if (outcome !== null) this.#people.addMatch(personId, { ...scored, outcomes: [outcome] });
    return outcome !== null;
  }

  #moveFirstDay(personId: number, { earliest }: Search): void {
    if (earliest !== null) this.#people.addMatch(personId, earliest);
  }

  #pause(personId: number, search: Search, after: number): void {
    const { sql, due } = this.#state;
    this.#moveFirstDay(personId, search);
    const behindSeq = Math.max(search.behindSeq, after);
    const update = "UPDATE replacements SET behind_seq = ? WHERE person_id = ? AND rule_id = ?";
    sql.exec(update, behindSeq, personId, search.ruleId);
    due.atOnce("replace");
  }

  #end(personId: number, rows: readonly ReplacementRow[]): void {
    const { sql } = this.#state;
    for (const { rule_id: ruleId } of rows)
      sql.exec("DELETE FROM replacements WHERE person_id = ? AND rule_id = ?", personId, ruleId);
    const left = sql.exec("SELECT 1 FROM replacements WHERE person_id = ? LIMIT 1", personId).toArray();
    if (left.length === 0) this.#people.endReplacements(personId);
  }
}

/** The search for one rule of a person. Reads the rule's matches that count once, because a statement for each entry would take too long. */
class Search {
  readonly ruleId: string;
  readonly behindSeq: number;
  /** Outcome of the rule's current version, if the rule scores once. */
  readonly #current: number | null;
  readonly #isOnceEver: boolean;
  readonly #hasFirstDay: boolean;
  /** The days whose match counts. */
  readonly #days: Set<number>;
  /** Of the match that counts of a once-ever rule whose points lapse: its outcome, and the day from which the points count. */
  #first: { outcome: number; fromDay: number } | null;
  /** The earliest entry with this outcome, if it occurred before that day. */
  earliest: Scored | null = null;

  constructor({ outcomes, singleScores }: StoreState, { person_id, rule_id, behind_seq }: ReplacementRow) {
    this.ruleId = rule_id;
    this.behindSeq = behind_seq;
    const id = outcomes.currentOf(rule_id);
    const match = id === null ? null : outcomes.get(id);
    this.#current = match?.frequency === undefined ? null : id;
    this.#isOnceEver = match?.frequency === "once_ever";
    this.#hasFirstDay = match !== null && hasFirstDay(match);
    this.#days = singleScores.daysOf(person_id, rule_id);
    this.#first = singleScores.firstDay(person_id, rule_id);
  }

  get canFind(): boolean {
    return this.#current !== null || this.#first !== null;
  }

  /** Returns the outcome of an entry that counts from now on; null: none. */
  countable(scored: Scored): number | null {
    const day = dayOf(scored.occurredMs);
    const first = this.#first;
    if (first !== null && day < first.fromDay && scored.outcomes.includes(first.outcome)) {
      first.fromDay = day;
      this.earliest = { ...scored, outcomes: [first.outcome] };
    }
    const current = this.#current;
    const isOpen = this.#isOnceEver ? this.#days.size === 0 : !this.#days.has(day);
    if (current === null || !isOpen || !scored.outcomes.includes(current)) return null;
    this.#days.add(day);
    if (this.#hasFirstDay) this.#first = { outcome: current, fromDay: day };
    return current;
  }
}
