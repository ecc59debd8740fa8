/**
 * Repairs people who lose lines (src/store/people/people.ts), in bounded steps for any number of lines: times and traits are
 * recomputed, and matches of rules that score once are replaced.
 */
import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DAY_MS } from "../../../../src/domain/duration.ts";
import { compileRules } from "../../../../src/domain/rules/mapping-rule.ts";
import { RULE_STEP_SEGMENTS } from "../../../../src/limits.ts";
import { deleteExpired, setRetention } from "../../../../src/store/deletion/retention.ts";
import { hasRecounts, hasReplacements, stepRecounts, stepReplacements } from "../../../../src/store/people/people.ts";
import { REPLACE_STEP_ENTRIES } from "../../../../src/store/people/scoring.ts";
import { expectStateToAddUp, linesOf } from "../../../support/adds-up.ts";
import { ringUntilQuiet } from "../../../support/cold.ts";
import { assertForSoLong } from "../../../support/for-so-long.ts";
import { expectToAddUp, readStore } from "../../../support/read-store.ts";
import { rowsRead } from "../../../support/sql-cost.ts";
import { identify, inStore, track, type Sent, type TestStore } from "../../../support/store.ts";

const NOW = Date.UTC(2026, 5, 1, 12);
const ANN = "ann@example.com";
const NO_RULES = { version: 1, rules: compileRules([]) };

const visit = (fields: object = {}, receivedAtMs = NOW): Sent =>
  track({ anonymousId: "v-ann", ...fields }, { receivedAtMs, periodStartMs: NOW });
const named = (name: string) => ({ context: { traits: { name } } });

/** Runs the alarm after an eviction, and reads a column of all people. */
async function columnAfterEviction(workspaceId: string, column: "name" | "score"): Promise<unknown[]> {
  await evictDurableObject(env.SIGNAL_STORE.getByName(workspaceId));
  await ringUntilQuiet(workspaceId);
  await expectToAddUp(workspaceId);
  return readStore(workspaceId, ({ sql }) =>
    [...sql.exec(`SELECT ${column} FROM people ORDER BY id`).raw<[unknown] & SqlStorageValue[]>()].flat(),
  );
}

describe("a recount", () => {
  /** One line in each, so that a step does not finish them. */
  const SEGMENTS = 2 * RULE_STEP_SEGMENTS + 20;

  /** The first step stops before the line with Ann's name. */
  const many = (): Sent[] =>
    Array.from({ length: SEGMENTS }, (_, n) =>
      visit(n === SEGMENTS - RULE_STEP_SEGMENTS - 5 ? named("Ann") : {}, NOW + n),
    );
  /** The first and the last line, which also has a name. */
  const bobs = (): Sent[] => [
    visit({ userId: "u-1" }, NOW - 9_000),
    visit({ userId: "u-1", ...named("Bob") }, NOW + 9_000),
  ];

  /** Records Ann's lines. Some are hers only by her anonymous id, so the person of their user id takes them. */
  function history(store: TestStore, ...lines: Sent[]): void {
    store.rulesVersion = 1;
    store.record(NOW, identify(ANN, { anonymousId: "v-ann" }));
    for (const line of lines) {
      store.record(NOW, line);
      store.seal();
    }
  }

  async function take(store: TestStore, userId: string): Promise<void> {
    store.record(NOW, identify(`${userId}@example.com`, { userId }));
    await store.linkAll(NO_RULES);
  }

  const people = ({ sql }: TestStore) =>
    sql.exec("SELECT id, first_seen, last_seen, name FROM people ORDER BY id").toArray();

  /** People as recomputed from all lines at once. */
  const expected = (store: TestStore) =>
    people(store).map(({ id }) => {
      const lines = linesOf(store.state.signals)
        .map(({ facts }) => facts)
        .filter(({ person }) => person?.personId === id)
        .sort((a, b) => a.admission.receivedAtMs - b.admission.receivedAtMs);
      const times = lines.map(({ admission }) => admission.receivedAtMs);
      const name = lines.findLast(({ traits }) => traits.name !== undefined)?.traits.name ?? null;
      return { id, first_seen: times[0], last_seen: times.at(-1), name };
    });

  /** Finishes the recounts, with a restart before each step. */
  function finish(store: TestStore, options?: { hasDropped: boolean }): void {
    for (let steps = 0; hasRecounts(store.sql); steps++) {
      if (steps > 50) throw new Error("it does not end");
      store.restart();
      expect(rowsRead(store.sql, () => stepRecounts(store.state, Date.now()))).toBeLessThan(8 * RULE_STEP_SEGMENTS);
    }
    expectStateToAddUp(store.state, options);
  }

  const daysAgo = (days: number) => NOW - days * DAY_MS;
  test.each([
    ["first", visit({}, daysAgo(3)), visit({ userId: "u-1" }, daysAgo(1)), { first: 10, last: 3 }],
    // The taken line occurred before the dropped signals. A dropped signal may have the same time, so that first time stays too.
    [
      "last",
      visit({ timestamp: daysAgo(15) }, daysAgo(3)),
      visit({ userId: "u-1", timestamp: daysAgo(20) }, daysAgo(1)),
      { first: 20, last: 10 },
    ],
  ])("keeps the %s time of a signal that retention has dropped", (_, kept, taken, { first, last }) =>
    inStore(async (store) => {
      store.rulesVersion = 1;
      store.record(NOW, identify(ANN, { anonymousId: "v-ann" }, { receivedAtMs: daysAgo(10), periodStartMs: NOW }));
      store.record(NOW, kept, taken);
      setRetention(store.sql, { retentionDays: 5 }, NOW);
      deleteExpired(store.state, NOW);
      await take(store, "u-1");
      finish(store, { hasDropped: true });
      expect(people(store)[0]).toMatchObject({ first_seen: daysAgo(first), last_seen: daysAgo(last) });
    }),
  );

  test("ends when the person is deleted", () =>
    inStore((store) => {
      store.record(NOW, identify(ANN, { anonymousId: "v-ann" }));
      store.sql.exec("INSERT INTO recounts (person_id, before) VALUES (1, NULL)");
      store.beginDeletion(ANN, NOW + 10_000);
      stepRecounts(store.state, Date.now());
      expect([hasRecounts(store.sql), people(store)]).toEqual([false, []]);
    }));

  test("is continued by the alarm after an eviction", async () => {
    const workspaceId = await inStore(async (store) => {
      history(store, ...bobs(), ...many());
      await take(store, "u-1");
      expect(hasRecounts(store.sql)).toBe(true);
      return store.workspaceId;
    });
    expect(await columnAfterEviction(workspaceId, "name")).toEqual(["Ann", "Bob"]);
  });

  const line = { after: fc.integer({ min: -99, max: 999 }), isNamed: fc.boolean() };
  const anyAction = fc.oneof(
    { weight: 3, arbitrary: fc.record({ do: fc.constant("take" as const), user: fc.nat(5) }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constantFrom("count" as const, "count", "count", "restart") }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("record" as const), ...line }) },
  );
  /** Lines that another person may take. */
  const taken = fc.array(fc.record({ at: fc.nat(SEGMENTS), ...line }), { minLength: 6, maxLength: 6 });

  test("gives the same result as recomputing everything at once, in any order of removals and recordings", async () => {
    await assertForSoLong(
      fc.asyncProperty(taken, fc.array(anyAction, { minLength: 3, maxLength: 14 }), (lines, actions) =>
        inStore(async (store) => {
          const all = many();
          for (const [user, { at, after, isNamed }] of lines.entries()) {
            const fields = { userId: `u-${user}`, ...(isNamed ? named(`Name ${user}`) : {}) };
            all.splice(at, 0, visit(fields, NOW + after));
          }
          history(store, ...all);
          for (const action of actions) {
            if (action.do === "take") await take(store, `u-${action.user}`);
            else if (action.do === "count") stepRecounts(store.state, Date.now());
            else if (action.do !== "record") store.restart();
            else store.record(NOW, visit(action.isNamed ? named("New") : {}, NOW + action.after));
          }
          finish(store);
          expect(people(store)).toEqual(expected(store));
        }),
      ),
      { numRuns: 15, limitMs: 10_000 },
    );
  }, 60_000);
});

describe("the replacement of a match", () => {
  const LINES = 2 * REPLACE_STEP_ENTRIES + 10;

  /** Ann's first signal scores; later signals would score too. Then the first one becomes Bob's, and no rule scores it now. */
  async function loseFirst(store: TestStore): Promise<void> {
    store.rulesVersion = 1;
    store.frequency = "once_per_day";
    store.record(NOW, identify(ANN, { anonymousId: "v-ann" }, { periodStartMs: NOW }));
    store.record(NOW + 1, visit({ userId: "u-bob" }));
    const unscored = Array.from({ length: LINES }, () => visit({ event: "Other" }));
    for (let from = 0; from < LINES; from += 1_000) store.record(NOW + 2, ...unscored.slice(from, from + 1_000));
    store.record(NOW + 3, visit(), visit({ more: 1 }));
    expect(store.scores).toEqual({ ann: 5 });
    store.record(NOW + 4, identify("bob@example.com", { userId: "u-bob" }, { periodStartMs: NOW }));
    await store.linkAll(NO_RULES);
    expect(store.scores).toEqual({ ann: 0, bob: 0 });
  }

  test("is found after many signals, in bounded steps of the alarm, also after an eviction", async () => {
    const workspaceId = await inStore(async (store) => {
      await loseFirst(store);
      store.restart();
      expect(rowsRead(store.sql, () => stepReplacements(store.state, NOW))).toBeLessThan(REPLACE_STEP_ENTRIES / 10);
      expect(hasReplacements(store.sql)).toBe(true);
      return store.workspaceId;
    });
    expect(await columnAfterEviction(workspaceId, "score")).toEqual([5, 0]);
  });

  test("is never a signal that retention has dropped", () =>
    inStore(async (store) => {
      store.rulesVersion = 1;
      store.frequency = "once_ever";
      store.record(NOW, identify(ANN, { anonymousId: "v-ann" }, { periodStartMs: NOW }));
      store.record(NOW, visit({ userId: "u-bob" }, NOW - DAY_MS));
      // Recorded later than the signal that scores, although it was received before.
      store.record(NOW, visit({}, NOW - 10 * DAY_MS));
      setRetention(store.sql, { retentionDays: 5 }, NOW);
      deleteExpired(store.state, NOW);
      store.record(NOW, identify("bob@example.com", { userId: "u-bob" }, { periodStartMs: NOW }));
      await store.linkAll();
      expect(store.scores).toEqual({ ann: 0, bob: 5 });
      expectStateToAddUp(store.state, { hasDropped: true });
    }));

  test.each<[string, (store: TestStore) => unknown, TestStore["scores"]]>([
    ["another signal has scored", (store) => store.record(NOW, visit()), { ann: 5 }],
    ["the person was deleted", (store) => store.beginDeletion(ANN, NOW), {}],
  ])("ends without a change if %s meanwhile", (_, act, scores) =>
    inStore((store) => {
      store.frequency = "once_per_day";
      store.record(NOW, identify(ANN, { anonymousId: "v-ann" }, { periodStartMs: NOW }));
      store.sql.exec("INSERT INTO replacements (person_id, rule_id, behind_seq) VALUES (1, 'rule_1', -1)");
      act(store);
      stepReplacements(store.state, NOW);
      expect([hasReplacements(store.sql), store.scores]).toEqual([false, scores]);
      expectStateToAddUp(store.state);
    }),
  );
});
