/**
 * Recomputes from the lines everything that the store maintains incrementally: books, groups, scores, lists, rule
 * days, samples.
 */
import { expect } from "vitest";
import { ROW_MAX_BYTES } from "../../src/limits.ts";
import type { Facts } from "../../src/store/log/line.ts";
import type { Log } from "../../src/store/log/log.ts";
import { DAY_MS, dayOf } from "../../src/domain/duration.ts";
import { lapseDayOf, type RuleMatch } from "../../src/domain/rules/mapping-rule.ts";
import { readEntries, type Scored, listOfKey, personList, visitorList } from "../../src/store/people/timelines.ts";
import { addPointsUntil, scoreAt, type LapsingScore } from "../../src/store/people/scoring.ts";
import type { DeadLetterRow, PersonRow } from "../../src/store/schema.ts";
import { countInBooks, groupOf } from "../../src/store/state/status-change.ts";
import { readRuleDays } from "../../src/store/state/rule-outcomes.ts";
import type { StoreState } from "../../src/store/state/store-state.ts";

interface StoredLine {
  seq: number;
  facts: Facts;
}

/** The counter of the books for each status. */
const PLACES = {
  processed: "processed",
  anonymous: "processed",
  duplicate: "duplicates",
  held: "held",
  purged: "purged",
} as const;

/** Counts by day of each rule that has scored a signal. */
export function ruleDaysOf(state: StoreState): Map<string, { count: number; days: string }> {
  const rows = state.sql.exec<{ rule_id: string }>("SELECT rule_id FROM rule_days").toArray();
  const ids = new Set([...rows.map(({ rule_id }) => rule_id), ...Object.keys(state.books.rules)]);
  const days = [...ids].sort().map((id) => [id, readRuleDays(state, id)] as const);
  return new Map(days.flatMap(([id, counts]) => (counts === null ? [] : [[id, counts] as const])));
}

export function linesOf(log: Log): StoredLine[] {
  return [...log.walk(0)].flatMap((segment) => segment.seqs().map((seq) => ({ seq, facts: segment.facts(seq) })));
}

/**
 * @param hasDropped retention has deleted signals, whose counts in the signal queue stay.
 */
export function expectStateToAddUp(state: StoreState, { hasDropped = false } = {}): void {
  const [lines, held] = [linesOf(state.signals), linesOf(state.held)];
  expectBooksToAddUp(state, [...lines, ...held]);
  expectGroupsToAddUp(state, [...lines, ...held], hasDropped);
  expectPeopleToAddUp(state, lines);
  expectAccountsToAddUp(state);
  const longest = state.sql
    .exec<{ bytes: number }>(
      `SELECT max(n) AS bytes FROM (SELECT length(facts) + length(hashes) AS n FROM signals_facts UNION ALL
           SELECT length(payloads) FROM signals_payloads UNION ALL SELECT length(groups) FROM signals_segments UNION ALL
           SELECT length(entries) FROM timelines UNION ALL SELECT length(meta) + length(facts) + length(payloads) FROM heads)`,
    )
    .one();
  expect(longest.bytes ?? 0).toBeLessThan(ROW_MAX_BYTES);
}

function expectBooksToAddUp({ sql, books }: StoreState, lines: readonly StoredLine[]): void {
  const totals = structuredClone(books.dropped);
  for (const { facts } of lines) {
    if (facts.status !== "released") countInBooks(totals, facts.admission.periodStartMs, PLACES[facts.status], 1);
  }
  for (const { admission, status } of sql.exec<DeadLetterRow>("SELECT * FROM dead_letters")) {
    const { periodStartMs } = JSON.parse(admission) as { periodStartMs: number };
    countInBooks(totals, periodStartMs, status === "dead" ? "deadLettered" : "purged", 1);
  }
  expect(withoutZeros(books.totals)).toEqual(withoutZeros(totals));
}

/** The row of a group, and the changes in the head that are not in the row yet, count the lines of the group. */
function expectGroupsToAddUp({ sql, books }: StoreState, lines: readonly StoredLine[], hasDropped: boolean): void {
  type Group = { event: string; source: string; count: number; held: number; anonymous: number };
  const stored = sql.exec<Group>("SELECT event, source, count, held, anonymous FROM event_groups");
  const counted = lines.flatMap(({ facts }): Group[] => {
    const { status, deletedAtMs } = facts;
    const name = groupOf(facts);
    if (name === null || deletedAtMs !== null || !["processed", "anonymous", "held"].includes(status)) return [];
    return [{ ...name, count: -1, held: status === "held" ? -1 : 0, anonymous: status === "anonymous" ? -1 : 0 }];
  });
  const all = [...stored, ...Object.values(books.groups), ...counted];
  for (const [name, parts] of Map.groupBy(all, ({ event, source }) => `${event} ${source}`)) {
    const surplus = (field: "count" | "held" | "anonymous") => parts.reduce((sum, part) => sum + part[field], 0);
    const { count, ...rest } = { count: surplus("count"), held: surplus("held"), anonymous: surplus("anonymous") };
    expect(rest, name).toEqual({ held: 0, anonymous: 0 });
    // Retention leaves the counts of signals that it drops.
    expect(hasDropped ? Math.min(0, count) : count, name).toBe(0);
  }
}

/** Scores, lists of lines and counts of rules. */
function expectPeopleToAddUp(state: StoreState, lines: readonly StoredLine[]): void {
  const { sql } = state;
  type Person = Pick<
    PersonRow,
    "id" | "email" | "score" | "lapses" | "next_lapse_at" | "recent" | "anonymous_ids" | "user_ids"
  >;
  const people = sql
    .exec<Person>("SELECT id, email, score, lapses, next_lapse_at, recent, anonymous_ids, user_ids FROM people")
    .toArray();
  const listed = new Map<string, Map<number, readonly number[]>>();
  const scoredIn = new Map<string, Scored[]>();
  const rows = sql
    .exec<{ list: ArrayBuffer; entries: string }>("SELECT list, entries FROM timelines ORDER BY list, first_seq")
    .toArray()
    .map(({ list, entries }) => ({ list: listOfKey(list), entries }));
  for (const { list, entries } of [
    ...rows,
    ...people.map(({ id, recent }) => ({ list: personList(id), entries: recent })),
  ]) {
    const here = listed.get(list) ?? new Map<number, readonly number[]>();
    listed.set(list, here);
    const seqs = readEntries(entries).map(({ seq }) => seq);
    expect(seqs, list).toEqual([...seqs].sort((a, b) => a - b));
    for (const { seq, scored } of readEntries(entries)) {
      expect(here.has(seq), `line ${seq} is listed twice in ${list}`).toBe(false);
      here.set(seq, scored?.outcomes ?? []);
      if (scored !== null) scoredIn.set(list, [...(scoredIn.get(list) ?? []), scored]);
    }
  }
  const claimsOf = (personId: number, kind: "a" | "u"): number =>
    sql
      .exec<{ count: number }>(
        "SELECT count(*) AS count FROM identities WHERE person_id = ? AND substr(key, 1, 1) = CAST(? AS BLOB)",
        personId,
        kind,
      )
      .one().count;
  const ruleCounts = new Map<string, number>();
  for (const { id, email, score, lapses, next_lapse_at, ...person } of people) {
    const ids = { anonymous: person.anonymous_ids, user: person.user_ids };
    expect({ email, ...ids }).toEqual({ email, anonymous: claimsOf(id, "a"), user: claimsOf(id, "u") });
    const entries = [...(listed.get(personList(id)) ?? [])];
    const scoring = countedOf(state, id, scoredIn.get(personList(id)) ?? []);
    const row = { score, lapses, next_lapse_at };
    const today = Math.max(dayOf(Date.now()), state.books.lapsedUntil);
    expect({ email, ...scoreAt(row, today) }).toEqual({ email, ...unlapsedOf(state, id, scoring, today) });
    for (const { ruleId } of scoring) ruleCounts.set(ruleId, (ruleCounts.get(ruleId) ?? 0) + 1);
    const scoredLines = lines.filter(({ facts }) => facts.person?.personId === id);
    const outcomesBySeq = new Map(scoredLines.map(({ seq, facts }) => [seq, facts.outcomes] as const));
    const oldest = state.signals.firstSeq;
    expect(
      new Map(entries.filter(([seq]) => seq >= oldest && !isGone(state, seq)).sort(([a], [b]) => a - b)),
      email,
    ).toEqual(outcomesBySeq);
  }
  expect([...ruleDaysOf(state)].map(([ruleId, { count }]) => [ruleId, count])).toEqual(
    [...ruleCounts].sort(([a], [b]) => (a < b ? -1 : 1)),
  );

  const known = new Set(people.map(({ id }) => id));
  const persons = sql.exec<{ id: number }>("SELECT DISTINCT person_id AS id FROM once").toArray();
  expect(persons.filter(({ id }) => !known.has(id))).toEqual([]);

  for (const { seq, facts } of lines) {
    if (facts.person !== null) expect(facts.status).toBe("processed");
    else if (facts.status !== "anonymous") expect(facts.outcomes).toEqual([]);
    if (facts.status === "anonymous") expect(facts.listedBy, `line ${seq} is on no list`).not.toEqual([]);
    for (const kind of facts.listedBy) {
      const list = visitorList({ kind, value: (kind === "user_id" ? facts.userId : facts.anonymousId) ?? "" });
      expect(listed.get(list)?.delete(seq), `line ${seq} is not on the list ${list}`).toBe(true);
    }
  }
  const unknown = [...listed].filter(([list, seqs]) => !list.startsWith("p") && seqs.size > 0);
  expect(unknown, "entries whose line does not say that it stands there").toEqual([]);
}

/** The score of a person's matches that count, by the days on which their points lapse. */
function unlapsedOf(
  { once }: StoreState,
  personId: number,
  scoring: ReturnType<typeof countedOf>,
  today: number,
): LapsingScore {
  const person: LapsingScore = { score: 0, lapses: "", next_lapse_at: null };
  for (const match of scoring) {
    if (match.lastDays === undefined) {
      person.score += match.points;
      continue;
    }
    const day = lapseDayOf(once.fromDay(personId, match, match) * DAY_MS, match.lastDays);
    if (day > today) addPointsUntil(person, day, match.points);
  }
  return person;
}

/** Every account has the sum of its people's stored scores. An account without people and values is gone. */
function expectAccountsToAddUp({ sql }: StoreState): void {
  type Sums = { account: string; score: number; people: number };
  const sums = sql.exec<Sums>(
    "SELECT account, sum(score) AS score, count(*) AS people FROM people WHERE account IS NOT NULL GROUP BY account ORDER BY account",
  );
  const stored = sql.exec<Sums>(
    "SELECT external_id AS account, score, people FROM accounts WHERE people <> 0 OR score <> 0 ORDER BY external_id",
  );
  expect([...stored.toArray()]).toEqual([...sums.toArray()]);
}

/**
 * The scores that count in a person's list. A rule that scores once a day or once ever has a score wherever its
 * current version may score. The `once` rows of the person name signals of this list only.
 */
export function countedOf(
  state: StoreState,
  personId: number,
  scored: readonly Scored[],
): (RuleMatch & Omit<Scored, "outcomes"> & { outcome: number })[] {
  const all = scored.flatMap(({ outcomes, ...occasion }) =>
    outcomes.map((outcome) => ({ ...state.outcomes.get(outcome), ...occasion, outcome })),
  );
  const counted = all.filter((match) => state.once.counts(personId, match, match));
  const limited = all.filter(
    ({ frequency, signalId, outcome, ruleId }) =>
      frequency !== undefined && outcome === state.outcomes.currentOf(ruleId) && state.signals.find(signalId) !== null,
  );
  for (const { ruleId, frequency, occurredMs } of limited) {
    const inPlace = counted.filter(
      (match) =>
        match.ruleId === ruleId &&
        match.frequency !== undefined &&
        (frequency === "once_ever" || dayOf(match.occurredMs) === dayOf(occurredMs)),
    );
    expect(inPlace.length, `${ruleId} counts for person ${personId}`).toBeGreaterThan(0);
  }
  const rows = state.sql
    .exec<{ signal_id: string; outcome: number | null; from_day: number | null }>(
      "SELECT signal_id, outcome, from_day FROM once WHERE person_id = ?",
      personId,
    )
    .toArray();
  for (const { outcome, from_day: fromDay } of rows.filter((row) => row.outcome !== null)) {
    const days = all.filter((match) => match.outcome === outcome).map(({ occurredMs }) => dayOf(occurredMs));
    expect(fromDay, "the earliest match of a rule that scores once").toBe(Math.min(...days));
  }
  const holders = counted.filter(({ frequency }) => frequency !== undefined).map(({ signalId }) => signalId);
  expect(rows.map((row) => row.signal_id).sort()).toEqual(holders.sort());
  return counted;
}

/** Dropped lines, and lines whose segment is gone. */
function isGone(state: StoreState, seq: number): boolean {
  return state.signals.read(seq) === null;
}

function withoutZeros(totals: Record<string, number[]>) {
  return Object.fromEntries(Object.entries(totals).filter(([, counts]) => counts.some((count) => count !== 0)));
}
