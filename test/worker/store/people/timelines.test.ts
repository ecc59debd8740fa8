/** Lists of lines (src/store/people/timelines.ts) equal a plain map after any insertions, changes and removals. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { PERSON_FIELDS, type PersonField } from "../../../../src/domain/signal/traits.ts";
import { newId } from "../../../../src/platform/ids.ts";
import { readPersonPage, SCORE_CURVE_SIGNALS } from "../../../../src/store/queries/person-page.ts";
import {
  addToRecent,
  fitsInRow,
  readEntries,
  writeEntries,
  ascendingEntries,
  changeEntries,
  insertEntries,
  lapsedEntries,
  latestEntries,
  latestWithField,
  PERSON_ROW_CHARACTERS,
  timesOf,
  type Entry,
  type EntryChange,
  type ListKey,
  keyOf,
  personList,
} from "../../../../src/store/people/timelines.ts";
import { inStore } from "../../../support/store.ts";

const seq = fc.integer({ min: 1, max: 2_000 });
const time = fc.integer({ min: 0, max: 1e12 });
const anyId = fc.constantFrom("sig_1", `sig_${"x".repeat(36)}`, newId("sig"), `sig_${crypto.randomUUID()}`);
const outcomes = fc.array(fc.integer({ min: 1, max: 999 }), { minLength: 1, maxLength: 5 });
const fields = fc.array(fc.constantFrom<PersonField>("name", "company", "title", "account"), { maxLength: 3 });
const lapseDay = fc.option(fc.integer({ min: 20_000, max: 20_400 }));
type Content = Omit<Entry, "seq">;
/** What an entry says about its line. */
const content = fc
  .record({
    occurredMs: time,
    atMs: time,
    signalId: fc.option(anyId),
    outcomes,
    fields,
    ordinal: fc.nat(1e5),
    lapseDay,
  })
  .map(({ occurredMs, atMs, signalId: id, outcomes: ids, fields: sent, ordinal, lapseDay: day }): Content => {
    const bits = sent.reduce((all, field) => all | (1 << PERSON_FIELDS.indexOf(field)), 0);
    return {
      occurredMs,
      scored: id === null ? null : { signalId: id, atMs, occurredMs, outcomes: ids },
      ...(bits === 0 ? {} : { traits: { fields: bits, receivedAtMs: atMs, ordinal } }),
      ...(ordinal % 5 === 0 ? { dropped: { lapseDay: day } } : {}),
    };
  });
const anyAction = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      what: fc.constant("insert" as const),
      entries: fc.array(fc.tuple(seq, content), { minLength: 1, maxLength: 60 }),
    }),
  },
  fc.record({ what: fc.constant("recent" as const), count: fc.integer({ min: 1, max: 30 }), content }),
  fc.record({
    what: fc.constant("change" as const),
    which: fc.array(fc.nat()),
    to: fc.option(content, { nil: "gone" as const }),
  }),
);
type Action = typeof anyAction extends fc.Arbitrary<infer A> ? A : never;

/** A timeline in the store, and the same as a plain map. */
class BothTimelines {
  readonly sql: SqlStorage;
  readonly list: ListKey;
  recent = "";
  readonly plain = new Map<number, Content>();

  constructor(sql: SqlStorage, list: ListKey) {
    this.sql = sql;
    this.list = list;
  }

  do(action: Action): void {
    if (action.what === "insert") this.#insert(action.entries);
    else if (action.what === "recent") this.#addRecent(action.count, action.content);
    else this.#change(action.which, action.to);
  }

  #insert(sent: readonly (readonly [number, Content])[]): void {
    const fresh = new Map(sent.filter(([number]) => !this.plain.has(number)));
    insertEntries(
      this.sql,
      this.list,
      [...fresh].map(([number, given]) => ({ seq: number, ...given })),
    );
    for (const [number, given] of fresh) this.plain.set(number, given);
  }

  #addRecent(count: number, given: Content): void {
    const newest = Math.max(2_000, ...this.plain.keys());
    const { dropped: _later, ...line } = given;
    const entries = Array.from({ length: count }, (_, n) => ({ ...line, seq: newest + n + 1 }));
    this.recent = addToRecent(this.recent, entries);
    if (!fitsInRow(this.recent)) {
      insertEntries(this.sql, this.list, readEntries(this.recent), this.recent);
      this.recent = "";
    }
    for (const { seq: number } of entries) this.plain.set(number, line);
  }

  #change(which: readonly number[], to: Content | "gone"): void {
    const all = [...this.plain.keys()];
    const chosen = new Set(which.flatMap((n) => all[n % all.length] ?? []));
    const change: EntryChange = to === "gone" ? to : ({ seq: number }) => ({ seq: number, ...to });
    const changes = new Map([...chosen].map((number) => [number, change] as const));
    this.recent = changeEntries(this.sql, this.list, this.recent, changes);
    for (const number of chosen) {
      if (to === "gone") this.plain.delete(number);
      else this.plain.set(number, to);
    }
  }

  get expected(): Entry[] {
    return [...this.plain].map(([number, given]) => ({ seq: number, ...given })).toSorted((a, b) => a.seq - b.seq);
  }
}

/** Compares what searches find by the sums of rows with a search of all entries. */
function expectSearches({ sql, list, recent, expected }: BothTimelines): void {
  const times = expected.flatMap(({ occurredMs }) => occurredMs ?? []);
  const all = times.length === 0 ? null : { firstMs: Math.min(...times), lastMs: Math.max(...times) };
  expect(timesOf(sql, list, recent)).toEqual(all);
  for (const [place, field] of PERSON_FIELDS.entries()) {
    const sent = expected.flatMap(({ traits }) =>
      traits !== undefined && traits.fields & (1 << place) ? [traits] : [],
    );
    const [latest] = sent.toSorted((a, b) => b.receivedAtMs - a.receivedAtMs || b.ordinal - a.ordinal);
    expect(latestWithField(sql, list, recent, field)?.traits).toEqual(latest);
  }
  const lapsed = expected.filter(({ dropped }) => (dropped?.lapseDay ?? Infinity) <= 20_200).map((entry) => entry.seq);
  const found = lapsedEntries(sql, list, recent, 20_200, 1_000).map((entry) => entry.seq);
  expect(found.toSorted((a, b) => a - b)).toEqual(lapsed);
}

test("a list of lines equals a plain map after inserting, appending, changing and removing lines in any order", async () => {
  await runInDurableObject(env.SIGNAL_STORE.getByName(crypto.randomUUID()), (_, { storage: { sql } }) => {
    let person = 0;
    fc.assert(
      fc.property(
        fc.array(anyAction, { maxLength: 25, size: "max" }),
        fc.nat(2_200),
        fc.integer({ min: 1, max: 300 }),
        (actions, from, limit) => {
          const list = personList(++person);
          const otherList = personList(person + 1_000_000);
          const other: Entry = { seq: 5, occurredMs: 1, scored: null };
          insertEntries(sql, otherList, [other]);
          const both = new BothTimelines(sql, list);
          for (const action of actions) both.do(action);
          const { recent, expected } = both;
          expect([...ascendingEntries(sql, list, readEntries(recent))]).toEqual(expected);
          expect([...ascendingEntries(sql, list, readEntries(recent), from)]).toEqual(
            expected.filter((entry) => entry.seq > from),
          );
          expect(latestEntries(sql, list, recent, { before: from, limit })).toEqual(
            expected
              .filter((entry) => entry.seq < from)
              .toReversed()
              .slice(0, limit),
          );
          expectSearches(both);
          const rows = sql
            .exec<{ entries: string }>("SELECT entries FROM timelines WHERE list = ?", keyOf(list))
            .toArray();
          for (const { entries } of rows) expect(entries.length).toBeLessThanOrEqual(PERSON_ROW_CHARACTERS);
          expect([...ascendingEntries(sql, otherList)]).toEqual([other]);
          expect(writeEntries([])).toBe("");
        },
      ),
      { numRuns: 50 },
    );
  });
});

test("a page of scores ends when it is full, or after SCORE_CURVE_SIGNALS signals, and the next page continues", () =>
  inStore((store) => {
    const email = "ann@example.com";
    store.record(Date.now(), { payload: { event: "Other", email } });
    store.sql.exec(
      "INSERT INTO rule_outcomes (id, rule_id, rule_version, scoring_signal, points) VALUES (99, 'r', 1, 's', 3)",
    );
    const scoredAt = (at: number): Entry => ({
      seq: at,
      scored: { signalId: `sig_${at}`, atMs: 1, occurredMs: 1, outcomes: [99] },
    });
    const unscored = Array.from({ length: SCORE_CURVE_SIGNALS }, (_, n): Entry => ({ seq: 11 + n, scored: null }));
    insertEntries(store.sql, personList(1), [{ seq: 8, scored: null }, scoredAt(9), scoredAt(10), ...unscored]);
    const scoresBefore = (cursor: string | null) => {
      const page = readPersonPage(store.shown, email, "scores", { cursor, limit: 1 })?.timeline;
      return [page?.items.flatMap(({ scores }) => scores.map(({ signalId }) => signalId)), page?.next];
    };
    expect(scoresBefore(null)).toEqual([[], "11"]);
    expect(scoresBefore("11")).toEqual([["sig_10"], "10"]);
    expect(scoresBefore("10")).toEqual([["sig_9"], null]);
  }));
