/**
 * Replacements of matches: if the match of a rule that scores once leaves a person, another match counts instead. A row of `replacements`
 * stores the person, the rule, and after which line the search continues. Steps of the alarm read the person's timeline once, in
 * ascending order, without any line of the log: an entry has its outcomes, also if retention has dropped the line.
 *
 * - The first match counts whose version is not older than the one that was applied last.
 * - If the rule scores once ever, or matches of several versions may count, the pass puts them in order: a match that was recorded earlier
 *   takes the place of a later one.
 * - If the points of a once-ever rule lapse, they count from the day of the earliest match. The same pass finds it.
 *
 * Meanwhile `score_before` has the score that was last compared with the thresholds (people.ts).
 */
import { dayOf } from "../../domain/duration.ts";
import { hasFirstDay, type RuleOutcomes } from "../state/rule-outcomes.ts";
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

/** Takes a step of the replacements of one rule; null: of all rules. Returns how many lines more now score. */
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
  /** Lines that now score, less those that score no more. */
  replaced = 0;
  /** In entries. */
  #budget = STEPS.replaceEntries;

  constructor(state: StoreState, people: People) {
    this.#state = state;
    this.#people = people;
  }

  take(personId: number, rows: readonly ReplacementRow[]): void {
    const searches = this.#people.exists(personId) ? rows.map((row) => new Search(this.#state, this.#people, row)) : [];
    const open = searches.filter(({ canFind }) => canFind);
    let after = Math.min(...open.map(({ behindSeq }) => behindSeq));
    for (const { seq, scored } of open.length === 0 ? [] : this.#people.entriesAfter(personId, after)) {
      if (this.#budget-- <= 0) {
        for (const search of searches) this.#pause(personId, search, after);
        return;
      }
      after = seq;
      if (scored !== null) for (const search of open) this.replaced += search.visit(seq, scored);
    }
    for (const search of searches) search.moveFirstDay();
    this.#end(personId, rows);
  }

  #pause(personId: number, search: Search, after: number): void {
    const { sql, due } = this.#state;
    search.moveFirstDay();
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
  readonly #people: People;
  readonly #personId: number;
  readonly #versions: ReturnType<RuleOutcomes["versionsOf"]>;
  /** Whether an earlier match takes the place of a later one. */
  readonly #isOrdered: boolean;
  /** The lines that count, by day. */
  readonly #lines: Map<number, number>;
  /** The match that counts of a once-ever rule whose points lapse: its outcome, and the day from which the points count. */
  #first: { outcome: number; fromDay: number } | null;
  /** The earliest entry with this outcome, if it occurred before that day. */
  #earliest: { seq: number; scored: Scored } | null = null;

  constructor(
    { outcomes, singleScores }: StoreState,
    people: People,
    { person_id, rule_id, behind_seq }: ReplacementRow,
  ) {
    this.ruleId = rule_id;
    this.behindSeq = behind_seq;
    this.#people = people;
    this.#personId = person_id;
    this.#versions = outcomes.versionsOf(rule_id);
    this.#isOrdered = outcomes.isOrdered(rule_id);
    this.#lines = singleScores.linesOf(person_id, rule_id);
    this.#first = singleScores.firstDay(person_id, rule_id);
  }

  get canFind(): boolean {
    const mayTake = [...this.#versions.values()].some((match) => match.mayTake && match.frequency !== undefined);
    return mayTake || this.#first !== null;
  }

  /** Returns 1 if the entry counts from now on, or 0, less the entries that count no more. */
  visit(seq: number, scored: Scored): number {
    const outcome = seq > this.behindSeq ? this.#outcomeOf(scored) : undefined;
    const match = outcome === undefined ? undefined : this.#versions.get(outcome);
    if (outcome === undefined || match?.frequency === undefined) return 0;
    const day = dayOf(scored.occurredMs);
    if (this.#first !== null && day < this.#first.fromDay && outcome === this.#first.outcome) {
      this.#first.fromDay = day;
      this.#earliest = { seq, scored: { ...scored, outcomes: [outcome] } };
    }
    if (!match.mayTake) return 0;
    const others = match.frequency === "once_ever" ? [...this.#lines.keys()] : this.#lines.has(day) ? [day] : [];
    if (this.#lines.get(day) === seq) {
      const isLate = this.#isOrdered && others.some((other) => this.#lineOn(other) < seq);
      return isLate ? -this.#remove(day) : 0;
    }
    if (others.some((other) => this.#keepsPlace(other, seq))) return 0;
    const removed = others.reduce((sum, other) => sum + this.#remove(other), 0);
    this.#people.addFound(this.#personId, seq, { ...scored, outcomes: [outcome] });
    this.#lines.set(day, seq);
    if (hasFirstDay(match)) this.#first = { outcome, fromDay: day };
    return 1 - removed;
  }

  /** Of a once-ever rule whose points lapse, the points count from the earliest match. */
  moveFirstDay(): void {
    const earliest = this.#earliest;
    if (earliest !== null) this.#people.addFound(this.#personId, earliest.seq, earliest.scored);
  }

  #outcomeOf(scored: Scored | null): number | undefined {
    return scored?.outcomes.find((id) => this.#versions.has(id));
  }

  #lineOn(day: number): number {
    return this.#lines.get(day) ?? Number.POSITIVE_INFINITY;
  }

  /** Whether the line that counts on a day stays in place of a line that may count. */
  #keepsPlace(day: number, seq: number): boolean {
    if (!this.#isOrdered || this.#lineOn(day) < seq) return true;
    const outcome = this.#outcomeOf(this.#people.scoredOf(this.#personId, this.#lineOn(day)));
    return outcome === undefined || this.#versions.get(outcome)?.mayTake !== true;
  }

  /** Lets the line of a day count no more. Returns the number of such lines. */
  #remove(day: number): number {
    const scored = this.#people.scoredOf(this.#personId, this.#lineOn(day));
    const outcome = this.#outcomeOf(scored);
    const match = outcome === undefined ? undefined : this.#versions.get(outcome);
    if (scored === null || match === undefined) return 0;
    this.#people.removeFound(this.#personId, scored, match);
    this.#lines.delete(day);
    if (this.#first?.outcome === outcome) [this.#first, this.#earliest] = [null, null];
    return 1;
  }
}
