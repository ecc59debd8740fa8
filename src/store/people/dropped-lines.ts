/**
 * The data that a person keeps from lines which retention has dropped. Times and traits go into the `base` of the person's row. The entry of a line with
 * points stays in the timeline, marked as dropped, because its points still count. Nothing of it ever moves to another person.
 */
import { dayOf } from "../../domain/duration.ts";
import { lapseDayOf, type RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { PERSON_FIELDS, type PersonField } from "../../domain/signal/traits.ts";
import { isLater, type ReceivedOrder } from "../../wire/message.ts";
import type { SignalFacts } from "../log/line.ts";
import { countScore, hasFirstDay } from "../state/rule-outcomes.ts";
import type { StoreState } from "../state/store-state.ts";
import type { Entry, Scored } from "./timelines.ts";

const FOR_EVER = Number.POSITIVE_INFINITY;

/** JSON in `people.base`. */
export interface PersonBase {
  /** When the first and the last of the dropped lines occurred, in milliseconds since 1970. */
  firstMs: number;
  lastMs: number;
  /** The latest received value of each field. */
  traits: Partial<Record<PersonField, ReceivedOrder & { value: string }>>;
}

export function emptyBase(): PersonBase {
  return { firstMs: Number.MAX_SAFE_INTEGER, lastMs: 0, traits: {} };
}

export function addToBase(base: PersonBase, { admission, occurred, traits }: SignalFacts): void {
  const { receivedAtMs, ordinal } = admission;
  base.firstMs = Math.min(base.firstMs, occurred.ms);
  base.lastMs = Math.max(base.lastMs, occurred.ms);
  for (const field of PERSON_FIELDS) {
    const [value, known] = [traits[field], base.traits[field]];
    if (value === undefined || (known !== undefined && !isLater(admission, known))) continue;
    base.traits[field] = { value, receivedAtMs, ordinal };
  }
}

/**
 * The rest of the entry of a dropped line; null: the entry goes. Then the scores of the entry are no longer counted for their rules. A rule
 * that scores once a day forgets the day too: another match of the day would have lapsed as well. A match keeps its place as long as one of
 * another version would.
 *
 * @param today points that lapse until this UTC day count no more.
 */
export function leftOfDropped(state: StoreState, personId: number, entry: Entry, today: number): Entry | null {
  const { scored } = entry;
  if (scored === null) return null;
  const matches = scored.outcomes.map((outcome) => ({ outcome, match: state.outcomes.get(outcome) }));
  const lapseDay = Math.max(...matches.map(({ match }) => lapseDayOfMatch(scored, match)));
  if (lapseDay > today) return until(entry, lapseDay);
  // The match may be the one that is searched.
  if (matches.some(({ match }) => isSearched(state.sql, personId, match))) return until(entry, lapseDay);
  const placeDay = Math.max(
    ...matches.map(({ outcome, match }) => placeDayOf(state, personId, scored, outcome, match)),
  );
  if (placeDay > today) return until(entry, placeDay);
  for (const { match } of matches) {
    if (!state.singleScores.removeMatch(personId, scored, match)) continue;
    countScore(state.head, match.ruleId, scored.atMs, -1);
    state.head.lapsedUntil = today;
  }
  return null;
}

/** @param day Infinity: the entry stays. */
function until(entry: Entry, day: number): Entry {
  return { ...entry, dropped: { lapseDay: day === FOR_EVER ? null : day } };
}

function isSearched(sql: SqlStorage, personId: number, { ruleId, frequency }: RuleMatch): boolean {
  if (frequency === undefined) return false;
  const query = "SELECT 1 FROM replacements WHERE person_id = ? AND rule_id = ?";
  return sql.exec(query, personId, ruleId).toArray().length > 0;
}

/** Infinity: the points never lapse. */
function lapseDayOfMatch({ occurredMs }: Scored, { lastDays }: RuleMatch): number {
  return lastDays === undefined ? FOR_EVER : lapseDayOf(occurredMs, lastDays);
}

/**
 * The UTC day until which only this match may score; Infinity: no other ever may. The versions decide whose matches may
 * take the place. Where one scores once ever, the first recorded match that counts is enough.
 */
function placeDayOf(state: StoreState, personId: number, scored: Scored, outcome: number, match: RuleMatch): number {
  const { singleScores, outcomes } = state;
  if (isOnceEver(match)) return isForEver(state, personId, scored, outcome, match) ? FOR_EVER : 0;
  if (match.frequency === undefined || !singleScores.counts(personId, scored, match)) return 0;
  const takers = outcomes.takersOf(match.ruleId);
  const days = takers.flatMap((taker) => (taker.frequency === "once_per_day" ? lapseDayOfMatch(scored, taker) : []));
  const isFirst = takers.some(isOnceEver) && singleScores.isFirst(personId, scored, match);
  return isFirst ? FOR_EVER : Math.max(0, ...days);
}

function isOnceEver({ frequency }: RuleMatch): boolean {
  return frequency === "once_ever";
}

/** Whether a once-ever rule may never score again because of this match: the match counts, or the points count from its day. */
function isForEver(
  { singleScores }: StoreState,
  personId: number,
  scored: Scored,
  outcome: number,
  match: RuleMatch,
): boolean {
  if (singleScores.counts(personId, scored, match)) return true;
  const first = hasFirstDay(match) ? singleScores.firstDay(personId, match.ruleId) : null;
  return first !== null && first.outcome === outcome && first.fromDay === dayOf(scored.occurredMs);
}
