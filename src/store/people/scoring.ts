/**
 * Scores of lines. Each match counts, unless its rule scores a person only once and another line counts already (`Once` in
 * state/rule-outcomes.ts). When that line is removed, the next match replaces it.
 */
import type { JsonObject } from "../../domain/json/json-value.ts";
import { DAY_MS, dayOf } from "../../domain/duration.ts";
import { evaluate, pointsOf, type Evaluation } from "../../domain/rules/evaluate-rules.ts";
import { lapseDayOf, type CompiledRules, type RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { normalise } from "../../domain/signal/normalise.ts";
import type { Facts } from "../log/line.ts";
import { countScore, hasFirstDay, occasionOf, type Occasion } from "../state/rule-outcomes.ts";
import type { StoreState } from "../state/store-state.ts";
import type { Entry, Scored } from "./timelines.ts";

/** Entries that one transaction reads to find replacements: about 20 ms. `stepReplacements` reads the rest. */
export const REPLACE_STEP_ENTRIES = 5_000;
const BEFORE_ALL_LINES = -1;

interface ScoredPerson extends LapsingScore {
  id: number;
}

/** A match that counts. `lapsed`: its points had lapsed before, so they changed no score. */
export interface CountedMatch extends RuleMatch {
  readonly lapsed: boolean;
}

export function countedPoints(matches: readonly CountedMatch[]): number {
  return pointsOf(matches.filter(({ lapsed }) => !lapsed));
}

export class Scoring {
  readonly #state: StoreState;
  readonly #today: number;
  /** By person and rule: the line after which the search for a replacement continues. */
  readonly #searches = new Map<number, Map<string, number>>();
  /** In entries. */
  #budget = REPLACE_STEP_ENTRIES;

  /** @param today points that lapse until this UTC day count no more. */
  constructor(state: StoreState, today: number) {
    this.#state = state;
    this.#today = today;
  }

  /** Returns the matches that count. */
  add(person: ScoredPerson, scored: Scored): readonly CountedMatch[] {
    const counted: CountedMatch[] = [];
    for (const outcome of scored.outcomes) {
      const match = this.#state.outcomes.get(outcome);
      if (this.#state.once.noteMatch(person.id, scored, match, outcome)) {
        counted.push(this.#count(person, scored, match, dayOf(scored.occurredMs), 1));
      } else if (hasFirstDay(match)) this.#countEarlier(person, outcome, match, dayOf(scored.occurredMs));
    }
    return counted;
  }

  /** Returns the matches that had counted. */
  remove(person: ScoredPerson, scored: Scored): readonly CountedMatch[] {
    const { once, outcomes } = this.#state;
    const counted: CountedMatch[] = [];
    for (const outcome of scored.outcomes) {
      const match = outcomes.get(outcome);
      const fromDay = once.fromDay(person.id, scored, match);
      if (once.removeMatch(person.id, scored, match)) {
        counted.push(this.#count(person, scored, match, fromDay, -1));
        if (match.frequency !== undefined) this.searchReplacement(person.id, match.ruleId, BEFORE_ALL_LINES);
      } else if (hasFirstDay(match) && dayOf(scored.occurredMs) === fromDay) {
        this.#forgetFirstDay(person, outcome, match);
      }
    }
    return counted;
  }

  change(person: ScoredPerson, before: Scored | null, after: Scored | null): "added" | "changed" | "removed" | null {
    const [gone, added] = [without(before, after), without(after, before)];
    const hasLost = gone !== null && this.remove(person, gone).length > 0;
    const hasWon = added !== null && this.add(person, added).length > 0;
    if (hasWon) return hasLost ? "changed" : "added";
    return hasLost ? "removed" : null;
  }

  /** Lets `replaceRemoved` search after a line for the match that replaces a removed match. */
  searchReplacement(personId: number, ruleId: string, seq: number): void {
    const searches = this.#searches.get(personId) ?? new Map<string, number>();
    this.#searches.set(personId, searches.set(ruleId, seq));
  }

  /**
   * Replaces removed matches by the first matches of the rules' current versions. Outcomes of older versions count again only when the
   * rule is applied to the past. Also finds the earliest match of a once-ever rule whose points lapse.
   *
   * @param entriesAfter the person's entries after a line, ascending. @returns the number of lines that now score.
   */
  replaceRemoved(person: ScoredPerson, entriesAfter: (seq: number) => Iterable<Entry>): number {
    const searches = this.#searches.get(person.id);
    if (searches === undefined) return 0;
    this.#searches.delete(person.id);
    const { sql, outcomes, once, signals } = this.#state;
    const first = (ruleId: string): number | null => once.firstDay(person.id, ruleId)?.outcome ?? null;
    const ids = [...searches.keys()].flatMap((ruleId) => [outcomes.currentOf(ruleId), first(ruleId)]);
    const current = new Set(ids.filter((id) => id !== null));
    const taken = new Set<string>();
    let [replaced, after] = [0, Math.min(...searches.values())];
    for (const { seq, scored } of current.size === 0 ? [] : entriesAfter(after)) {
      if (this.#budget-- <= 0) {
        const insert = "INSERT OR REPLACE INTO replacements (person_id, rule_id, behind_seq) VALUES (?, ?, ?)";
        for (const ruleId of searches.keys()) sql.exec(insert, person.id, ruleId, after);
        return replaced;
      }
      after = seq;
      const open = scored?.outcomes.filter((id) => current.has(id) && this.#isOpen(person, scored, id, taken)) ?? [];
      if (scored === null || open.length === 0) continue;
      // A line that retention dropped cannot begin to count, but it may be the earliest match.
      const isStored = signals.read(seq) !== null;
      const usable = open.filter((id) => isStored || first(outcomes.get(id).ruleId) === id);
      const counted = this.add(person, { ...scored, outcomes: usable });
      if (counted.length > 0) replaced++;
      // Earlier lines may have occurred before.
      for (const match of counted.filter(hasFirstDay))
        this.searchReplacement(person.id, match.ruleId, BEFORE_ALL_LINES);
    }
    for (const ruleId of searches.keys()) endReplacement(sql, person.id, ruleId);
    return this.#searches.has(person.id) ? replaced + this.replaceRemoved(person, entriesAfter) : replaced;
  }

  /** Whether a match can count, or can move the first day of the match that counts. @param taken occasions that are not open. */
  #isOpen(person: ScoredPerson, scored: Scored, outcome: number, taken: Set<string>): boolean {
    const match = this.#state.outcomes.get(outcome);
    if (hasFirstDay(match)) {
      const first = this.#state.once.firstDay(person.id, match.ruleId);
      return first === null || dayOf(scored.occurredMs) < first.fromDay;
    }
    const occasion = match.frequency === "once_ever" ? match.ruleId : `${match.ruleId} ${dayOf(scored.occurredMs)}`;
    if (taken.has(occasion)) return false;
    if (this.#state.once.isOpen(person.id, scored, match)) return true;
    taken.add(occasion);
    return false;
  }

  /** @param fromDay the day from which the points count. @param times 1 adds the match, -1 removes it. */
  #count(person: ScoredPerson, { atMs }: Scored, match: RuleMatch, fromDay: number, times: 1 | -1): CountedMatch {
    countScore(this.#state.books, match.ruleId, atMs, times);
    return { ...match, lapsed: !this.#addPoints(person, match, fromDay, times) };
  }

  /** Returns whether the points count, because they have not lapsed. */
  #addPoints(person: ScoredPerson, { points, lastDays }: RuleMatch, fromDay: number, times: 1 | -1): boolean {
    if (lastDays === undefined) {
      person.score += times * points;
      return true;
    }
    const lapseDay = lapseDayOf(fromDay * DAY_MS, lastDays);
    if (lapseDay <= this.#today) {
      this.#state.books.lapsedUntil = this.#today;
      return false;
    }
    addPointsUntil(person, lapseDay, times * points);
    return true;
  }

  /** If another match of a once-ever rule is earlier than the match that counts, the points count from the earlier day. */
  #countEarlier(person: ScoredPerson, outcome: number, match: RuleMatch, day: number): void {
    const first = this.#state.once.firstDay(person.id, match.ruleId);
    if (first === null || first.outcome !== outcome || first.fromDay <= day) return;
    this.#moveFirstDay(person, match, first.fromDay, day);
  }

  /** The earliest match of a once-ever rule is removed, but not the match that counts. `replaceRemoved` finds the next earliest. */
  #forgetFirstDay(person: ScoredPerson, outcome: number, match: RuleMatch): void {
    const first = this.#state.once.firstDay(person.id, match.ruleId);
    if (first === null || first.outcome !== outcome || first.fromDay === first.day) return;
    this.#moveFirstDay(person, match, first.fromDay, first.day);
    this.searchReplacement(person.id, match.ruleId, BEFORE_ALL_LINES);
  }

  #moveFirstDay(person: ScoredPerson, match: RuleMatch, before: number, after: number): void {
    this.#addPoints(person, match, before, -1);
    this.#addPoints(person, match, after, 1);
    this.#state.once.setFromDay(person.id, match.ruleId, after);
  }
}

/** The outcomes that only the first line has; null: none. */
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

/** When the points of a person's match lapse, in milliseconds since 1970; null: never. */
export function lapseOf(
  { once }: StoreState,
  personId: number,
  occasion: Occasion,
  match: RuleMatch,
): { lapsesAtMs: number | null; lapsed: boolean } {
  if (match.lastDays === undefined) return { lapsesAtMs: null, lapsed: false };
  const lapsesAtMs = lapseDayOf(once.fromDay(personId, occasion, match) * DAY_MS, match.lastDays) * DAY_MS;
  return { lapsesAtMs, lapsed: lapsesAtMs <= Date.now() };
}

/** The matches of a line that count, without points that have lapsed. */
export function countedMatches(state: StoreState, facts: Facts): RuleMatch[] {
  const { once, outcomes } = state;
  const { person } = facts;
  if (person === null) return [];
  const occasion = occasionOf(facts);
  return outcomes
    .of(facts)
    .filter(
      (match) =>
        once.counts(person.personId, occasion, match) && !lapseOf(state, person.personId, occasion, match).lapsed,
    );
}

// Points that lapse. A person's row stores the points that lapse at the start of each UTC day, at most 366 days. The text is
// `day:points,…`, ascending, in base 36. Each change of a person first removes the lapsed points. The alarm visits the other people
// (lapse-run.ts).

export interface LapsingScore {
  score: number;
  lapses: string;
  /** When the next points lapse, in milliseconds since 1970; null: none will. */
  next_lapse_at: number | null;
}

/** @param day at whose start the points lapse. @param points negative: removes them. */
export function addPointsUntil(person: LapsingScore, day: number, points: number): void {
  const lapses = readLapses(person.lapses);
  lapses.set(day, (lapses.get(day) ?? 0) + points);
  person.score += points;
  writeLapses(person, lapses);
}

/** Returns whether any points had lapsed by the start of the day. */
export function removeLapsed(person: LapsingScore, today: number): boolean {
  if (person.next_lapse_at === null || person.next_lapse_at > today * DAY_MS) return false;
  const lapses = readLapses(person.lapses);
  for (const [day, points] of lapses) {
    if (day > today) continue;
    person.score -= points;
    lapses.delete(day);
  }
  writeLapses(person, lapses);
  return true;
}

export function scoreAt(person: LapsingScore, day: number): LapsingScore {
  const { score, lapses, next_lapse_at } = person;
  const left = { score, lapses, next_lapse_at };
  removeLapsed(left, day);
  return left;
}

function writeLapses(person: LapsingScore, lapses: ReadonlyMap<number, number>): void {
  const days = [...lapses].filter(([, points]) => points !== 0).sort(([a], [b]) => a - b);
  person.lapses = days.map(([day, points]) => `${day.toString(36)}:${points.toString(36)}`).join(",");
  person.next_lapse_at = days[0] === undefined ? null : days[0][0] * DAY_MS;
}

function readLapses(text: string): Map<number, number> {
  const parts = text === "" ? [] : text.split(",").map((part) => part.split(":"));
  return new Map(parts.map(([day = "", points = ""]) => [Number.parseInt(day, 36), Number.parseInt(points, 36)]));
}
