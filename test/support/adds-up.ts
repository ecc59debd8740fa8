/**
 * Recomputes from the lines everything that the store maintains incrementally: books, groups, scores, lists, rule
 * days, samples.
 */
import { expect } from "vitest";
import { ROW_MAX_BYTES } from "../../src/limits.ts";
import type { NumberedLine, SignalLog } from "../../src/store/log/signal-log.ts";
import { DAY_MS, dayOf } from "../../src/domain/duration.ts";
import { lapseDayOf, type RuleMatch } from "../../src/domain/rules/mapping-rule.ts";
import { PERSON_FIELDS } from "../../src/domain/signal/traits.ts";
import type { PersonBase } from "../../src/store/people/dropped-lines.ts";
import {
  entryOf,
  readEntries,
  type Entry,
  type Scored,
  listOfKey,
  personList,
  visitorList,
} from "../../src/store/people/timelines.ts";
import { addPointsUntil, scoreAt, type LapsingScore } from "../../src/store/people/scoring.ts";
import type { DeadLetterRow, PersonRow, timelines } from "../../src/store/schema.ts";
import { countInBooks, groupOf } from "../../src/store/state/status-change.ts";
import { readRuleDays } from "../../src/store/state/rule-outcomes.ts";
import { todayOf, type StoreState } from "../../src/store/state/store-state.ts";
import { isLater } from "../../src/wire/message.ts";

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
  const ids = new Set([...rows.map(({ rule_id }) => rule_id), ...Object.keys(state.head.rules)]);
  const days = [...ids].sort().map((id) => [id, readRuleDays(state, id)] as const);
  return new Map(days.flatMap(([id, counts]) => (counts === null ? [] : [[id, counts] as const])));
}

export function linesOf(log: SignalLog): NumberedLine[] {
  return [...log.walk({ after: 0 })].flatMap((portion) =>
    portion.seqs.map((seq) => ({ seq, facts: portion.facts(seq) })),
  );
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

function expectBooksToAddUp({ sql, head }: StoreState, lines: readonly NumberedLine[]): void {
  const totals = structuredClone(head.dropped);
  for (const { facts } of lines) {
    if (facts.status !== "released") countInBooks(totals, facts.admission.periodStartMs, PLACES[facts.status], 1);
  }
  for (const { admission, status } of sql.exec<DeadLetterRow>("SELECT * FROM dead_letters")) {
    const { periodStartMs } = JSON.parse(admission) as { periodStartMs: number };
    countInBooks(totals, periodStartMs, status === "dead" ? "deadLettered" : "purged", 1);
  }
  expect(withoutZeros(head.totals)).toEqual(withoutZeros(totals));
}

/** The row of a group, and the changes in the head that are not in the row yet, count the lines of the group. */
function expectGroupsToAddUp({ sql, head }: StoreState, lines: readonly NumberedLine[], hasDropped: boolean): void {
  type Group = { event: string; source: string; count: number; held: number; anonymous: number };
  const stored = sql.exec<Group>("SELECT event, source, count, held, anonymous FROM event_groups");
  const counted = lines.flatMap(({ facts }): Group[] => {
    const { status, deletedAtMs } = facts;
    const name = groupOf(facts);
    if (name === null || deletedAtMs !== null || !["processed", "anonymous", "held"].includes(status)) return [];
    return [{ ...name, count: -1, held: status === "held" ? -1 : 0, anonymous: status === "anonymous" ? -1 : 0 }];
  });
  const all = [...stored, ...Object.values(head.groups), ...counted];
  for (const [name, parts] of Map.groupBy(all, ({ event, source }) => `${event} ${source}`)) {
    const surplus = (field: "count" | "held" | "anonymous") => parts.reduce((sum, part) => sum + part[field], 0);
    const { count, ...rest } = { count: surplus("count"), held: surplus("held"), anonymous: surplus("anonymous") };
    expect(rest, name).toEqual({ held: 0, anonymous: 0 });
    // Retention leaves the counts of signals that it drops.
    expect(hasDropped ? Math.min(0, count) : count, name).toBe(0);
  }
}

/** The sums in a row of `timelines`, and their values by the entries. */
function sumsOf({ entries: text, ...row }: TimelineRow) {
  const entries = readEntries(text);
  const times = entries.flatMap(({ occurredMs }) => occurredMs ?? []);
  const traits = entries.flatMap((entry) => entry.traits ?? []);
  const days = entries.flatMap(({ dropped }) => dropped?.lapseDay ?? []);
  const stored = [row.first_ms, row.last_ms, row.fields, row.traits_at, row.lapse_day];
  const byEntries = [
    times.length === 0 ? null : Math.min(...times),
    times.length === 0 ? null : Math.max(...times),
    traits.reduce((all, { fields }) => all | fields, 0),
    Math.max(0, ...traits.map(({ receivedAtMs }) => receivedAtMs)),
    days.length === 0 ? null : Math.min(...days),
  ];
  return { stored, byEntries };
}

type TimelineRow = typeof timelines.$inferSelect & { list: ArrayBuffer };

/** A person's times and traits are those of the lines, and of the base of lines that retention has dropped. */
function expectPersonToAddUp(person: PersonRow, entries: readonly Entry[], lines: readonly NumberedLine[]): void {
  const { id, email } = person;
  const theirs = lines.filter(({ facts }) => facts.person?.personId === id);
  const stored = entries.filter(({ dropped }) => dropped === undefined);
  const inOrder = (all: readonly Entry[]) => [...all].sort((x, y) => x.seq - y.seq);
  expect(inOrder(stored), email).toEqual(inOrder(theirs.map(({ seq, facts }) => entryOf(seq, facts))));
  for (const { seq, scored, traits } of entries.filter((entry) => entry.dropped !== undefined)) {
    expect({ seq, scored, traits }).toEqual({ seq, scored: expect.anything(), traits: undefined });
  }
  const base = person.base === "" ? null : (JSON.parse(person.base) as PersonBase);
  const times = [
    ...theirs.map(({ facts }) => facts.occurred.ms),
    ...(base === null ? [] : [base.firstMs, base.lastMs]),
  ];
  const seen = { first_seen: Math.min(...times), last_seen: Math.max(...times), last_day: dayOf(Math.max(...times)) };
  expect(person, email).toMatchObject(seen);
  for (const field of PERSON_FIELDS) {
    const sent = theirs.flatMap(({ facts: { traits, admission } }) => {
      const value = traits[field];
      return value === undefined ? [] : [{ value, ...admission }];
    });
    const [latest] = [...sent, base?.traits[field] ?? []].flat().sort((x, y) => (isLater(x, y) ? -1 : 1));
    expect({ email, field, value: person[field] }).toEqual({ email, field, value: latest?.value ?? null });
  }
}

/** Scores, lists of lines and counts of rules. */
function expectPeopleToAddUp(state: StoreState, lines: readonly NumberedLine[]): void {
  const { sql } = state;
  const people = sql.exec<PersonRow>("SELECT * FROM people").toArray();
  const listed = new Map<string, Map<number, readonly number[]>>();
  const entriesOf = new Map<string, Entry[]>();
  const stored = sql.exec<TimelineRow>("SELECT * FROM timelines ORDER BY list, from_seq").toArray();
  for (const row of stored) {
    const { stored: sums, byEntries } = sumsOf(row);
    expect(sums, listOfKey(row.list)).toEqual(byEntries);
  }
  const rows = stored.map(({ list, entries }) => ({ list: listOfKey(list), entries }));
  for (const { list, entries } of [
    ...rows,
    ...people.map(({ id, recent }) => ({ list: personList(id), entries: recent })),
  ]) {
    const here = listed.get(list) ?? new Map<number, readonly number[]>();
    listed.set(list, here);
    const seqs = readEntries(entries).map(({ seq }) => seq);
    expect(seqs, list).toEqual([...seqs].sort((a, b) => a - b));
    for (const entry of readEntries(entries)) {
      const { seq, scored } = entry;
      expect(here.has(seq), `line ${seq} is listed twice in ${list}`).toBe(false);
      here.set(seq, scored?.outcomes ?? []);
      entriesOf.set(list, [...(entriesOf.get(list) ?? []), entry]);
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
  for (const person of people) {
    const { id, email, score, lapses, next_lapse_at } = person;
    const ids = { anonymous: person.anonymous_ids, user: person.user_ids };
    expect({ email, ...ids }).toEqual({ email, anonymous: claimsOf(id, "a"), user: claimsOf(id, "u") });
    const entries = entriesOf.get(personList(id)) ?? [];
    const scoring = countedOf(
      state,
      id,
      entries.flatMap(({ scored }) => scored ?? []),
    );
    const row = { score, lapses, next_lapse_at };
    const today = Math.max(dayOf(Date.now()), state.head.lapsedUntil);
    expect({ email, ...scoreAt(row, today) }).toEqual({ email, ...unlapsedOf(state, id, scoring, today) });
    for (const { ruleId } of scoring) ruleCounts.set(ruleId, (ruleCounts.get(ruleId) ?? 0) + 1);
    expectPersonToAddUp(person, entries, lines);
  }
  expect([...ruleDaysOf(state)].map(([ruleId, { count }]) => [ruleId, count])).toEqual(
    [...ruleCounts].sort(([a], [b]) => (a < b ? -1 : 1)),
  );

  const known = new Set(people.map(({ id }) => id));
  const persons = sql.exec<{ id: number }>("SELECT DISTINCT person_id AS id FROM single_scores").toArray();
  expect(persons.filter(({ id }) => !known.has(id))).toEqual([]);

  for (const { seq, facts } of lines) {
    if (facts.person !== null) expect(facts.status).toBe("processed");
    else if (facts.status !== "anonymous") expect(facts.outcomes).toEqual([]);
    if (facts.status === "anonymous") expect(facts.timelineIds, `line ${seq} is on no list`).not.toEqual([]);
    for (const kind of facts.timelineIds) {
      const list = visitorList({ kind, value: (kind === "user_id" ? facts.userId : facts.anonymousId) ?? "" });
      expect(listed.get(list)?.delete(seq), `line ${seq} is not on the list ${list}`).toBe(true);
    }
  }
  const unknown = [...listed].filter(([list, seqs]) => !list.startsWith("p") && seqs.size > 0);
  expect(unknown, "entries whose line does not say that it stands there").toEqual([]);
}

/** The score of a person's matches that count, by the days on which their points lapse. */
function unlapsedOf(
  { singleScores }: StoreState,
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
    const day = lapseDayOf(singleScores.fromDay(personId, match, match) * DAY_MS, match.lastDays);
    if (day > today) addPointsUntil(person, day, match.points);
  }
  return person;
}

/**
 * An account has the sum of its people's stored scores, and the earliest of their first times and of its own. An account without people that
 * nothing has named is gone.
 */
function expectAccountsToAddUp({ sql }: StoreState): void {
  type Sums = { account: string; score: number; people: number; first_seen: number };
  const sums = sql.exec<Sums>(
    `SELECT account, sum(score) AS score, count(*) AS people,
       min(min(first_seen), coalesce((SELECT first_named_at FROM accounts WHERE external_id = account), 1e15)) AS first_seen
     FROM people WHERE account IS NOT NULL
     GROUP BY account ORDER BY account`,
  );
  const stored = sql.exec<Sums>(
    "SELECT external_id AS account, score, people, first_seen FROM accounts WHERE people <> 0 OR score <> 0 ORDER BY external_id",
  );
  expect([...stored.toArray()]).toEqual([...sums.toArray()]);
  const without = sql.exec("SELECT * FROM accounts WHERE people = 0 AND first_seen IS NOT first_named_at");
  expect([...without.toArray()]).toEqual([]);
  expectRecomputedToBeMarked(sql);
}

/** Exactly the people whose matches are being replaced, and their accounts, have the score that was compared last. */
function expectRecomputedToBeMarked(sql: SqlStorage): void {
  const column = (query: string): SqlStorageValue[] => [...sql.exec(query).raw()].flat();
  const searched = "SELECT DISTINCT person_id FROM replacements WHERE person_id IN (SELECT id FROM people) ORDER BY 1";
  expect(column("SELECT id FROM people WHERE score_before IS NOT NULL ORDER BY id")).toEqual(column(searched));
  const members =
    "SELECT DISTINCT account FROM people WHERE score_before IS NOT NULL AND account IS NOT NULL ORDER BY 1";
  expect(column("SELECT external_id FROM accounts WHERE score_before IS NOT NULL ORDER BY 1")).toEqual(column(members));
}

/**
 * The scores that count in a person's list. A rule that scores once a day or once ever has a score wherever one of its
 * versions may score; but retention forgets a day whose points have lapsed. The `single_scores` rows of the person name signals
 * of this list only.
 */
export function countedOf(
  state: StoreState,
  personId: number,
  scored: readonly Scored[],
): (RuleMatch & Omit<Scored, "outcomes"> & { outcome: number })[] {
  const all = scored.flatMap(({ outcomes, ...occasion }) =>
    outcomes.map((outcome) => ({ ...state.outcomes.get(outcome), ...occasion, outcome })),
  );
  const counted = all.filter((match) => state.singleScores.counts(personId, match, match));
  const searched = searchedRules(state.sql, personId);
  const mayScore = ({ frequency, occurredMs, lastDays }: (typeof all)[number]): boolean =>
    frequency === "once_ever" ||
    (frequency === "once_per_day" && (lastDays === undefined || lapseDayOf(occurredMs, lastDays) > todayOf(state)));
  const mayTake = ({ ruleId, ruleVersion }: (typeof all)[number]): boolean =>
    state.outcomes.takersOf(ruleId).some((taker) => taker.ruleVersion === ruleVersion);
  const limited = all.filter((match) => mayScore(match) && mayTake(match) && !searched.includes(match.ruleId));
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
    .exec<{ signal_id: string; rule_id: string; outcome: number | null; from_day: number | null }>(
      "SELECT signal_id, rule_id, outcome, from_day FROM single_scores WHERE person_id = ?",
      personId,
    )
    .toArray();
  for (const { outcome, from_day: fromDay } of rows.filter(
    (row) => row.outcome !== null && !searched.includes(row.rule_id),
  )) {
    const days = all.filter((match) => match.outcome === outcome).map(({ occurredMs }) => dayOf(occurredMs));
    expect(fromDay, "the earliest match of a rule that scores once").toBe(Math.min(...days));
  }
  const holders = counted.filter(({ frequency }) => frequency !== undefined).map(({ signalId }) => signalId);
  expect(rows.map((row) => row.signal_id).sort()).toEqual(holders.sort());
  return counted;
}

/** The rules of a person whose removed matches are still being replaced. */
function searchedRules(sql: SqlStorage, personId: number): string[] {
  const rows = sql.exec<{ rule_id: string }>("SELECT rule_id FROM replacements WHERE person_id = ?", personId);
  return rows.toArray().map(({ rule_id: ruleId }) => ruleId);
}

function withoutZeros(totals: Record<string, number[]>) {
  return Object.fromEntries(Object.entries(totals).filter(([, counts]) => counts.some((count) => count !== 0)));
}
