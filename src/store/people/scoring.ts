/**
 * Scores of lines. Each match counts, unless its rule scores a person only once and another line counts already (`SingleScores` in
 * state/rule-outcomes.ts). When that line is removed, a later step searches the match that counts instead (replacements.ts).
 */
import { readPayload, type JsonObject } from "../../domain/json/json-value.ts";
import { DAY_MS, dayOf } from "../../domain/duration.ts";
import { evaluate, pointsOf, type Evaluation } from "../../domain/rules/evaluate-rules.ts";
import { lapseDayOf, type CompiledRules, type RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { propertiesRead } from "../../domain/signal/normalise.ts";
import type { SignalFacts } from "../log/line.ts";
import { countScore, hasFirstDay, occasionOf, type Occasion } from "../state/rule-outcomes.ts";
import { todayOf, type StoreState } from "../state/store-state.ts";
import type { Scored } from "./timelines.ts";

/** In place of a day: the earliest match of a once-ever rule is searched, or the order of matches. */
const FIRST_DAY = -1;
const ORDER = -2;
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

/** The score of a line before and after a change; null: none. */
export interface ScoreChange {
  before: Scored | null;
  after: Scored | null;
}

export class Scoring {
  readonly #state: StoreState;
  readonly #today: number;
  /** Removed matches that had counted, of rules that score once: by person and rule, their lines by day. */
  readonly #removed = new Map<number, Map<string, Map<number, number>>>();

  /** @param today points that lapse until this UTC day count no more. */
  constructor(state: StoreState, today: number) {
    this.#state = state;
    this.#today = today;
  }

  /** Returns the matches that count. @param seq the line. */
  add(person: ScoredPerson, seq: number, scored: Scored): readonly CountedMatch[] {
    const counted = this.addFound(person, seq, scored);
    for (const match of counted)
      if (match.frequency !== undefined) this.#noteReplaced(person.id, seq, match, dayOf(scored.occurredMs));
    for (const match of scored.outcomes.map((id) => this.#state.outcomes.get(id)))
      if (match.frequency !== undefined) this.#noteOrder(person.id, seq, match);
    return counted;
  }

  /** As `add`, while replacements.ts searches. */
  addFound(person: ScoredPerson, seq: number, scored: Scored): readonly CountedMatch[] {
    const counted: CountedMatch[] = [];
    const day = dayOf(scored.occurredMs);
    for (const outcome of scored.outcomes) {
      const match = this.#state.outcomes.get(outcome);
      if (this.#state.singleScores.noteMatch(person.id, scored, match, { seq, outcome }))
        counted.push(this.#count(person, scored, match, day, 1));
      else if (hasFirstDay(match)) this.#countEarlier(person, outcome, match, day);
    }
    return counted;
  }

  /** Lets an earlier match count in place of this one, while replacements.ts searches. */
  removeFound(person: ScoredPerson, scored: Scored, match: RuleMatch): void {
    const { singleScores } = this.#state;
    const fromDay = singleScores.fromDay(person.id, scored, match);
    if (singleScores.removeMatch(person.id, scored, match)) this.#count(person, scored, match, fromDay, -1);
  }

  /** Returns the matches that had counted. @param seq the line. */
  remove(person: ScoredPerson, seq: number, scored: Scored): readonly CountedMatch[] {
    const { singleScores, outcomes } = this.#state;
    const counted: CountedMatch[] = [];
    for (const outcome of scored.outcomes) {
      const match = outcomes.get(outcome);
      const fromDay = singleScores.fromDay(person.id, scored, match);
      if (singleScores.removeMatch(person.id, scored, match)) {
        counted.push(this.#count(person, scored, match, fromDay, -1));
        if (match.frequency !== undefined) this.#noteRemoved(person.id, match, dayOf(scored.occurredMs), seq);
      } else if (hasFirstDay(match) && dayOf(scored.occurredMs) === fromDay) {
        this.#forgetFirstDay(person, outcome, match);
      }
    }
    return counted;
  }

  change(person: ScoredPerson, seq: number, { before, after }: ScoreChange): "added" | "changed" | "removed" | null {
    const [gone, added] = [without(before, after), without(after, before)];
    const hasLost = gone !== null && this.remove(person, seq, gone).length > 0;
    const hasWon = added !== null && this.add(person, seq, added).length > 0;
    if (hasWon) return hasLost ? "changed" : "added";
    return hasLost ? "removed" : null;
  }

  /** Lets replacements.ts search matches in place of the person's removed matches. Returns whether there are any. */
  startReplacements(personId: number): boolean {
    const { sql, due, outcomes, singleScores } = this.#state;
    const removed = this.#removed.get(personId);
    this.#removed.delete(personId);
    // If no match may take the place, the earliest match may still be searched.
    const canFind = (ruleId: string): boolean =>
      outcomes.takersOf(ruleId).length > 0 || singleScores.firstDay(personId, ruleId) !== null;
    const ruleIds = [...(removed ?? [])].flatMap(([ruleId, days]) => (days.size > 0 && canFind(ruleId) ? ruleId : []));
    const insert = "INSERT OR REPLACE INTO replacements (person_id, rule_id, behind_seq) VALUES (?, ?, ?)";
    for (const ruleId of ruleIds) sql.exec(insert, personId, ruleId, BEFORE_ALL_LINES);
    if (ruleIds.length > 0) due.atOnce("replace");
    return ruleIds.length > 0;
  }

  #noteRemoved(personId: number, { ruleId }: RuleMatch, day: number, seq = BEFORE_ALL_LINES): void {
    const rules = this.#removed.get(personId) ?? new Map<string, Map<number, number>>();
    this.#removed.set(personId, rules.set(ruleId, (rules.get(ruleId) ?? new Map<number, number>()).set(day, seq)));
  }

  /**
   * Another match has taken the place. Then nothing has to be searched, with three exceptions: the earliest match, if the points lapse; the
   * first match, if several versions may take the place; and the first match of a once-ever rule, if this line was recorded after the
   * removed one.
   */
  #noteReplaced(personId: number, seq: number, match: RuleMatch, day: number): void {
    const days = this.#removed.get(personId)?.get(match.ruleId);
    if (days === undefined || hasFirstDay(match) || this.#state.outcomes.isMixed(match.ruleId)) return;
    for (const [removedDay, removedSeq] of days)
      if (match.frequency === "once_ever" ? seq <= removedSeq : removedDay === day) days.delete(removedDay);
  }

  /** A line that was recorded before a line that counts may have the place. */
  #noteOrder(personId: number, seq: number, match: RuleMatch): void {
    const { singleScores, outcomes } = this.#state;
    const mayHavePlace = outcomes.isOrdered(match.ruleId) && singleScores.isBeforeOther(personId, match.ruleId, seq);
    if (mayHavePlace) this.#noteRemoved(personId, match, ORDER);
  }

  /** @param fromDay the day from which the points count. @param times 1 adds the match, -1 removes it. */
  #count(person: ScoredPerson, { atMs }: Scored, match: RuleMatch, fromDay: number, times: 1 | -1): CountedMatch {
    countScore(this.#state.head, match.ruleId, atMs, times);
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
      this.#state.head.lapsedUntil = this.#today;
      return false;
    }
    addPointsUntil(person, lapseDay, times * points);
    return true;
  }

  /** If another match of a once-ever rule is earlier than the match that counts, the points count from the earlier day. */
  #countEarlier(person: ScoredPerson, outcome: number, match: RuleMatch, day: number): void {
    const first = this.#state.singleScores.firstDay(person.id, match.ruleId);
    if (first === null || first.outcome !== outcome || first.fromDay <= day) return;
    this.#moveFirstDay(person, match, first.fromDay, day);
  }

  /** The earliest match of a once-ever rule is removed, but not the match that counts. A later step finds the next earliest. */
  #forgetFirstDay(person: ScoredPerson, outcome: number, match: RuleMatch): void {
    const first = this.#state.singleScores.firstDay(person.id, match.ruleId);
    if (first === null || first.outcome !== outcome || first.fromDay === first.day) return;
    this.#moveFirstDay(person, match, first.fromDay, first.day);
    this.#noteRemoved(person.id, match, FIRST_DAY);
  }

  #moveFirstDay(person: ScoredPerson, match: RuleMatch, before: number, after: number): void {
    this.#addPoints(person, match, before, -1);
    this.#addPoints(person, match, after, 1);
    this.#state.singleScores.setFromDay(person.id, match.ruleId, after);
  }
}

/** The outcomes that only the first line has; null: none. */
function without(scored: Scored | null, kept: Scored | null): Scored | null {
  const outcomes = scored?.outcomes.filter((id) => kept?.outcomes.includes(id) !== true) ?? [];
  return scored === null || outcomes.length === 0 ? null : { ...scored, outcomes };
}

/** Stands for a payload that no condition reads. */
export const NO_PAYLOAD = "{}";

/**
 * Evaluates rules on a stored signal. The payload is not normalised again: the template that made the signal may have
 * changed. Null: the evaluation takes too many steps.
 *
 * @param email of the signal's person; undefined: the signal's own.
 */
export function evaluateStored(
  rules: CompiledRules,
  { event, source, email: ownEmail, mapped }: SignalFacts,
  text: string,
  email: string | undefined,
): Evaluation | null {
  const payload = readPayload(text) as JsonObject;
  const signal = { event: event ?? "", source: source ?? "", properties: propertiesRead(payload, mapped), payload };
  return evaluate(rules, signal, email ?? ownEmail ?? undefined);
}

interface Lapse {
  /** From when the points count, in milliseconds since 1970. Of a once-ever rule that lapses: from the day of the earliest match. */
  countsFromMs: number;
  /** When the points lapse; null: never. */
  lapsesAtMs: number | null;
  lapsed: boolean;
}

export function lapseOf(
  state: Pick<StoreState, "singleScores" | "head">,
  personId: number,
  occasion: Occasion,
  match: RuleMatch,
): Lapse {
  const { occurredMs } = occasion;
  if (match.lastDays === undefined) return { countsFromMs: occurredMs, lapsesAtMs: null, lapsed: false };
  const fromDay = state.singleScores.fromDay(personId, occasion, match);
  const lapseDay = lapseDayOf(fromDay * DAY_MS, match.lastDays);
  const countsFromMs = fromDay === dayOf(occurredMs) ? occurredMs : fromDay * DAY_MS;
  return { countsFromMs, lapsesAtMs: lapseDay * DAY_MS, lapsed: lapseDay <= todayOf(state) };
}

/** The matches of a line that count, without points that have lapsed. */
export function countedMatches(
  state: Pick<StoreState, "singleScores" | "outcomes" | "head">,
  facts: SignalFacts,
): RuleMatch[] {
  const { singleScores, outcomes } = state;
  const { person } = facts;
  if (person === null) return [];
  const occasion = occasionOf(facts);
  return outcomes
    .of(facts)
    .filter(
      (match) =>
        singleScores.counts(person.personId, occasion, match) &&
        !lapseOf(state, person.personId, occasion, match).lapsed,
    );
}

// Points that lapse. A person's row stores the points that lapse at the start of each UTC day, at most 366 days. The text is
// `day:points,…`, the latest day first, because a new signal mostly adds to it. All is in base 36. After the first day, each day is
// stored as its distance from the day on its left; a distance of 1 is omitted. In full, a row of 366 days would make a batch twice as
// expensive. Each change of a person first removes the lapsed points. The alarm visits the other people (lapse-run.ts).

export interface LapsingScore {
  score: number;
  lapses: string;
  /** When the next points lapse, in milliseconds since 1970; null: none will. */
  next_lapse_at: number | null;
}

/** @param day at whose start the points lapse. @param points negative: removes them. */
export function addPointsUntil(person: LapsingScore, day: number, points: number): void {
  const { lapses } = person;
  const { place, above } = placeOf(lapses, day);
  const found = lapseAt(lapses, place, above);
  const sum = points + (found?.day === day ? found.points : 0);
  const earlier = found?.day === day ? lapseAt(lapses, found.end, day) : found;
  const front = lapses.slice(0, place) + (sum === 0 ? "" : lapseText(above, day, sum));
  const last = sum === 0 ? above : day;
  person.score += points;
  if (earlier === null) writeLapses(person, front, last);
  else person.lapses = front + lapseText(last, earlier.day, earlier.points) + lapses.slice(earlier.end);
}

/** Returns whether any points had lapsed by the start of the day. */
export function removeLapsed(person: LapsingScore, today: number): boolean {
  const { lapses } = person;
  if (person.next_lapse_at === null || person.next_lapse_at > today * DAY_MS) return false;
  const { place, above } = placeOf(lapses, today);
  for (let lapsed = lapseAt(lapses, place, above); lapsed !== null; lapsed = lapseAt(lapses, lapsed.end, lapsed.day))
    person.score -= lapsed.points;
  writeLapses(person, lapses.slice(0, place), above);
  return true;
}

export function scoreAt(person: LapsingScore, day: number): LapsingScore {
  const { score, lapses, next_lapse_at } = person;
  const left = { score, lapses, next_lapse_at };
  removeLapsed(left, day);
  return left;
}

/** All points that lapse, by day. */
export function readLapses(lapses: string): { day: number; points: number }[] {
  const all: { day: number; points: number }[] = [];
  for (let entry = lapseAt(lapses, 0, NONE); entry !== null; entry = lapseAt(lapses, entry.end, entry.day))
    all.unshift({ day: entry.day, points: entry.points });
  return all;
}

/** In place of the day in front of an entry: it is the first. */
const NONE = 0;

/** @param last the earliest day of the text. */
function writeLapses(person: LapsingScore, lapses: string, last: number): void {
  person.lapses = lapses;
  person.next_lapse_at = last === NONE ? null : last * DAY_MS;
}

function lapseText(above: number, day: number, points: number): string {
  const days = dayBehind(above, day);
  return days === 1 ? `${points.toString(BASE)},` : `${days.toString(BASE)}:${points.toString(BASE)},`;
}

/** The number in the text of a day, and the day of a number in the text. */
function dayBehind(above: number, day: number): number {
  return above === NONE ? day : above - day;
}

const [COLON, COMMA, MINUS] = [0x3a, 0x2c, 0x2d];
const [BASE, TEN] = [36, 10];
const [DIGIT_0, LETTER_A] = [0x30, 0x61];

/** `place`: the index of the first entry of this day or an earlier one. `above`: the day of the entry on its left. */
function placeOf(lapses: string, day: number): { place: number; above: number } {
  let [place, above, days, value] = [0, NONE, 1, 0];
  for (let index = 0; index < lapses.length; index++) {
    const code = lapses.charCodeAt(index);
    if (code === COMMA) {
      const found = dayBehind(above, days);
      if (found <= day) return { place, above };
      [place, above, days, value] = [index + 1, found, 1, 0];
    } else if (code === COLON) [days, value] = [value, 0];
    else if (code !== MINUS) value = value * BASE + digitOf(code);
  }
  return { place, above };
}

/** Reads the entry at a place, because splitting the text for each signal would take too long. Null: the text has ended. */
function lapseAt(lapses: string, place: number, above: number): { day: number; points: number; end: number } | null {
  if (place >= lapses.length) return null;
  let [days, value, sign] = [1, 0, 1];
  let end = place;
  for (let code = lapses.charCodeAt(end); code !== COMMA; code = lapses.charCodeAt(++end)) {
    if (code === COLON) [days, value] = [value, 0];
    else if (code === MINUS) sign = -1;
    else value = value * BASE + digitOf(code);
  }
  return { day: dayBehind(above, days), points: sign * value, end: end + 1 };
}

function digitOf(code: number): number {
  return code < LETTER_A ? code - DIGIT_0 : code - LETTER_A + TEN;
}
