/** Lists of lines (src/store/people/timelines.ts) equal a plain map after any insertions, changes and removals. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { newId } from "../../../../src/platform/ids.ts";
import { readPersonPage, SCORE_CURVE_SIGNALS } from "../../../../src/store/queries/person-page.ts";
import {
  addToRecent,
  readEntries,
  writeEntries,
  ascendingEntries,
  changeEntries,
  insertEntries,
  latestEntries,
  TIMELINE_ROW_CHARACTERS,
  type Entry,
  type Scored,
  keyOf,
  personList,
} from "../../../../src/store/people/timelines.ts";
import { inStore } from "../../../support/store.ts";

const seq = fc.integer({ min: 1, max: 2_000 });
const scored: fc.Arbitrary<Scored | null> = fc.option(
  fc.record({
    signalId: fc.constantFrom("sig_1", `sig_${"x".repeat(36)}`, newId("sig"), `sig_${crypto.randomUUID()}`),
    atMs: fc.nat(1e12),
    occurredMs: fc.nat(1e12),
    outcomes: fc.array(fc.integer({ min: 1, max: 999 }), { minLength: 1, maxLength: 5 }),
  }),
);
const anyAction = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      what: fc.constant("insert" as const),
      entries: fc.array(fc.tuple(seq, scored), { minLength: 1, maxLength: 60 }),
    }),
  },
  fc.record({ what: fc.constant("recent" as const), count: fc.integer({ min: 1, max: 30 }), scored }),
  fc.record({
    what: fc.constant("change" as const),
    which: fc.array(fc.nat()),
    to: fc.option(scored, { nil: "gone" as const }),
  }),
);
const ascending = (a: Entry, b: Entry) => a.seq - b.seq;

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
          insertEntries(sql, otherList, [{ seq: 5, scored: null }]);
          const plain = new Map<number, Scored | null>();
          let recent = "";
          for (const action of actions) {
            if (action.what === "insert") {
              const fresh = new Map(action.entries.filter(([number]) => !plain.has(number)));
              insertEntries(
                sql,
                list,
                [...fresh].map(([number, score]) => ({ seq: number, scored: score })),
              );
              for (const [number, score] of fresh) plain.set(number, score);
            } else if (action.what === "recent") {
              const newest = Math.max(2_000, ...plain.keys());
              const entries = Array.from({ length: action.count }, (__, n) => ({
                seq: newest + n + 1,
                scored: action.scored,
              }));
              const added = addToRecent(recent, entries);
              if (added === null) {
                insertEntries(sql, list, [
                  ...latestEntries(sql, personList(-1), recent, { before: Infinity, limit: 999 }),
                  ...entries,
                ]);
              }
              recent = added ?? "";
              for (const entry of entries) plain.set(entry.seq, entry.scored);
            } else {
              const all = [...plain.keys()];
              const chosen = new Set(action.which.flatMap((n) => all[n % all.length] ?? []));
              recent = changeEntries(
                sql,
                list,
                recent,
                new Map([...chosen].map((number) => [number, action.to] as const)),
              );
              for (const number of chosen) {
                if (action.to === "gone") plain.delete(number);
                else plain.set(number, action.to);
              }
            }
          }
          const expected = [...plain]
            .map(([number, score]): Entry => ({ seq: number, scored: score }))
            .toSorted(ascending);
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
          const rows = sql
            .exec<{ entries: string }>("SELECT entries FROM timelines WHERE list = ?", keyOf(list))
            .toArray();
          for (const { entries } of rows) expect(entries.length).toBeLessThanOrEqual(TIMELINE_ROW_CHARACTERS);
          expect([...ascendingEntries(sql, otherList)]).toEqual([{ seq: 5, scored: null }]);
          expect(writeEntries([])).toBe("");
        },
      ),
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
      const page = readPersonPage(store.state, email, "scores", { cursor, limit: 1 })?.timeline;
      return [page?.items.flatMap(({ scores }) => scores.map(({ signalId }) => signalId)), page?.next];
    };
    expect(scoresBefore(null)).toEqual([[], "11"]);
    expect(scoresBefore("11")).toEqual([["sig_10"], "10"]);
    expect(scoresBefore("10")).toEqual([["sig_9"], null]);
  }));
