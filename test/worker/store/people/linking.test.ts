/**
 * Spec §6.1: linking of earlier signals of visitors who become known (src/store/people/linking.ts), by the batch that
 * identifies them or by jobs; and the timelines of visitors.
 */
import * as fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { COLD_RETRY_MS } from "../../../../src/limits.ts";
import { startLinkJob } from "../../../../src/store/people/linking.ts";
import { startRuleJob, stepRuleJob } from "../../../../src/store/rules/rule-jobs.ts";
import { insertEntries, listOfKey, visitorList } from "../../../../src/store/people/timelines.ts";
import { traceSignal } from "../../../../src/store/queries/newest-signals.ts";
import { expectStateToAddUp, linesOf } from "../../../support/adds-up.ts";
import { bucketWith } from "../../../support/cold.ts";
import { assertForSoLong } from "../../../support/for-so-long.ts";
import { expectLogged } from "../../../support/logged.ts";
import { identify, inStore, track, type Sent, type TestStore } from "../../../support/store.ts";
import { testStored, dropLines, factsOf, openState } from "../../../support/log.ts";
import { nextLinkJobMs } from "../../../../src/store/state/due.ts";
import { STEPS } from "../../../../src/store/steps.ts";

const DAY = 24 * 3_600_000;
const NOW = Date.now() - 3 * DAY;

const visit = (visitor: string, fields: object = {}): Sent => track({ anonymousId: `visitor-${visitor}`, ...fields });
const known = (visitor: string, email = `${visitor}@example.com`, ids: object = {}): Sent =>
  identify(email, { anonymousId: `visitor-${visitor}`, ...ids });
const statuses = ({ state }: TestStore) => linesOf(state.signals).map(({ facts }) => facts.status);
const visitorLists = ({ sql }: TestStore) =>
  [...sql.exec("SELECT list FROM timelines").raw<[ArrayBuffer]>()]
    .map(([list]) => listOfKey(list))
    .filter((list) => !list.startsWith("p"))
    .sort();
const withRules = <T>(act: (store: TestStore) => T | Promise<T>): Promise<T> =>
  inStore((store) => {
    store.changeRules(5);
    return act(store);
  });

describe("a line", () => {
  test.each([
    ["its user id alone", { userId: "u-1" }, ["user_id"]],
    ["its anonymous id alone", { anonymousId: "a-1" }, ["anonymous_id"]],
    ["both ids", { userId: "u-1", anonymousId: "a-1" }, ["user_id", "anonymous_id"]],
    ["both ids, of which the anonymous id is known", { userId: "u-1", anonymousId: "a-known" }, ["user_id"]],
    ["both ids, of which the user id is known", { userId: "u-known", anonymousId: "a-1" }, []],
    ["an email and both ids", { userId: "u-1", anonymousId: "a-1", email: "bob@example.com" }, []],
  ])("with %s stores the timelines that list it", (_, ids, timelineIds) =>
    inStore((store) => {
      store.record(NOW, identify("jane@example.com", { anonymousId: "a-known", userId: "u-known" }), track(ids));
      store.seal();
      store.restart();
      expect(factsOf(store.state.signals, 2).timelineIds).toEqual(timelineIds);
      expectStateToAddUp(store.state);
    }),
  );
});

describe("the batch that identifies visitors", () => {
  test("links their signals with one write per portion of the log, and scores them only then", () =>
    withRules(async (store) => {
      let id = "";
      for (let segment = 0; segment < 3; segment++) {
        [id = ""] = store.record(NOW, visit("a"), visit("b"), visit("c"));
        store.seal();
      }
      store.record(NOW, visit("a"));
      const trace = () => traceSignal(() => store.shown, id);
      expect(await trace()).toMatchObject({ status: "anonymous", rulesMatched: [], points: 0 });
      const rewrite = vi.spyOn(store.state.signals, "rewrite");
      store.record(NOW, known("a"), visit("a"), known("b"), visit("d"), visit("a", { event: "F" }));
      // The open lines are the last portion.
      expect(rewrite.mock.calls.map(([{ firstSeq }]) => firstSeq)).toEqual([1, 4, 7, 10]);
      expect([store.linkJobs, store.scores]).toEqual([0, { a: 25, b: 15 }]);
      expect(await trace()).toMatchObject({ status: "processed", rulesTried: 1, points: 5 });
      expect(statuses(store).filter((status) => status === "anonymous").length).toBe(4);
      store.restart();
      expectStateToAddUp(store.state);
    }));

  test("leaves signals of other rules to jobs, which take all visitors in one step", () =>
    withRules(async (store) => {
      const visitors = Array.from({ length: 40 }, (_, n) => `v${n}`);
      for (const visitor of visitors) store.record(NOW, visit(visitor), visit(visitor, { event: "F" }));
      store.seal();
      store.changeRules(7);
      store.record(NOW, visit("new"), known("new"));
      store.record(NOW, ...visitors.map((visitor) => known(visitor)));
      expect([store.linkJobs, store.scores["new"], store.scores["v1"]]).toEqual([40, 7, 0]);
      const rewrite = vi.spyOn(store.state.signals, "rewrite");
      expect(await store.link()).toBe(false);
      expect(store.linkJobs).toBe(0);
      expect(store.scores).toEqual(Object.fromEntries(["new", ...visitors].map((visitor) => [visitor, 7])));
      expect(rewrite.mock.calls.map(([{ firstSeq }]) => firstSeq)).toEqual([1]);
      expectStateToAddUp(store.state);
    }));

  test("leaves signals above its budget to jobs", () =>
    withRules(async (store) => {
      const many = STEPS.linkSignals + 30;
      store.record(NOW, ...Array.from({ length: many }, () => visit("a")), visit("b"));
      for (let n = 0; n < STEPS.portions + 5; n++) {
        store.record(NOW, visit("c"));
        store.seal();
      }
      store.record(NOW, known("c"), known("a"), known("b"));
      expect(store.linkJobs).toBe(3);
      await store.linkAll();
      expect([store.linkJobs, store.scores]).toEqual([0, { a: 5 * many, b: 5, c: 5 * (STEPS.portions + 5) }]);
      expectStateToAddUp(store.state);
    }));
});

test("the next person of a visitor gets no signals that the deletion of the previous person still has to delete", () =>
  withRules(async (store) => {
    const many = STEPS.deletionLines + 2 * STEPS.linkSignals;
    store.record(NOW, ...Array.from({ length: many }, () => visit("a")));
    store.record(NOW + 1, known("a", "ann@example.com"));
    expect([store.linkJobs, store.scores]).toEqual([1, { ann: 5 * STEPS.linkSignals }]);
    store.beginDeletion("ann@example.com", NOW + 2);
    store.record(NOW + 3, known("a", "bob@example.com"), visit("a"));
    expect(store.finishDeletions(NOW + 4)).toBeGreaterThan(0);
    await store.linkAll();
    expect([store.linkJobs, store.scores]).toEqual([0, { bob: 5 }]);
    expectStateToAddUp(store.state);
  }));

test.each(["open", "sealed", "cold"])(
  "gives each person of an id the %s signals of their time, and the first person the earlier signals",
  (where) =>
    withRules(async (store) => {
      const settle = async (): Promise<void> => {
        if (where !== "open") store.seal();
        if (where === "cold") await store.workOnCold(NOW + 3 * DAY);
      };
      const at = (ms: number, signal: Sent): Sent => ({ ...signal, receivedAtMs: NOW + ms });
      // In each turn a line also has a user id without a person, so that it gets another person in the end.
      store.record(NOW, at(0, visit("x")), at(1, visit("x", { userId: "u-1" })));
      for (const [turn, name] of ["ann", "bob", "ann", "bob"].entries()) {
        await settle();
        store.changeRules(5);
        const ms = 10 * (turn + 1);
        store.record(NOW, at(ms, known("x", `${name}@example.com`)), at(ms + 1, visit("x")));
        store.record(NOW, at(ms + 2, visit("x", { userId: "u-1" })), at(ms + 3, visit("x", { event: "F" })));
        if (turn !== 1) await store.linkAll();
      }
      await settle();
      // A late signal belongs to the person at the time of its receipt.
      store.record(NOW, at(25, visit("x")), at(5, visit("x")));
      expect(store.scores).toEqual({ ann: 35, bob: 25 });
      store.record(NOW, known("carol", "carol@example.com", { userId: "u-1" }));
      await store.linkAll();
      expect([store.linkJobs, store.scores]).toEqual([0, { ann: 20, bob: 15, carol: 25 }]);
      const seen = store.sql.exec(
        "SELECT first_seen - ?1 AS first, last_seen - ?1 AS last FROM people ORDER BY email",
        NOW,
      );
      expect(seen.toArray().slice(0, 2)).toEqual([
        { first: 0, last: 33 },
        { first: 20, last: 43 },
      ]);
      expectStateToAddUp(store.state);
    }),
);

test.each([
  ["anonymous id", { anonymousId: "visitor-a" }],
  ["user id", { userId: "u-1" }],
])("gives both ids of a call to the person of its %s", (_, claimed) =>
  withRules((store) => {
    store.record(NOW, identify("ann@example.com", claimed));
    store.record(NOW, { payload: { type: "identify", messageId: "both", anonymousId: "visitor-a", userId: "u-1" } });
    store.record(NOW, visit("a"), track({ userId: "u-1" }));
    expect(store.scores).toEqual({ ann: 10 });
    expectStateToAddUp(store.state);
  }),
);

describe("a link job", () => {
  test("links no visitor if its step fails, and all visitors in the next step", () =>
    withRules(async (store) => {
      for (const visitor of ["a", "b", "c"]) {
        store.record(NOW, visit(visitor));
        store.seal();
      }
      store.changeRules(7);
      store.record(NOW, known("a"), known("b"), known("c"));
      store.sql.exec(
        "CREATE TRIGGER rejected BEFORE UPDATE ON people WHEN NEW.id = 2 AND NEW.score > 0 BEGIN SELECT RAISE(ABORT, 'no'); END",
      );
      await expect(store.link()).rejects.toThrow("no");
      expect([store.linkJobs, store.scores]).toEqual([3, { a: 0, b: 0, c: 0 }]);
      expectStateToAddUp(store.state);
      store.sql.exec("DROP TRIGGER rejected");
      await store.link();
      expect([store.linkJobs, store.scores]).toEqual([0, { a: 7, b: 7, c: 7 }]);
      expectStateToAddUp(store.state);
    }));

  testStored("waits only if its visitor needs payloads that R2 does not give", () =>
    withRules(async (store) => {
      expectLogged("cold_read_failed");
      store.record(NOW, visit("a"), visit("b"));
      store.seal();
      await store.workOnCold(NOW + 2 * DAY);
      store.record(NOW, visit("c"), visit("b"));
      store.changeRules(7);
      store.record(NOW, known("a"), known("b"), known("c"));
      const isDown = () => Promise.reject(new Error("R2 is down"));
      store.state = openState(store.storage, store.workspaceId, bucketWith({ before: isDown }));
      expect(await store.link()).toBe(true);
      expect([store.linkJobs, store.scores]).toEqual([2, { a: 0, b: 7, c: 7 }]);
      expect(await store.link()).toBe(false);
      expect(nextLinkJobMs(store.sql)).toBeGreaterThan(Date.now() + COLD_RETRY_MS / 2);
      store.sql.exec("UPDATE link_jobs SET due_at = 1");
      store.restart();
      await store.linkAll();
      expect([store.linkJobs, store.scores]).toEqual([0, { a: 7, b: 14, c: 7 }]);
      expectStateToAddUp(store.state);
    }),
  );

  test("ends if the timeline names a line that is gone", () =>
    inStore(async (store) => {
      const visitor = { kind: "anonymous_id", value: "a-1" } as const;
      for (let segment = 0; segment < 3; segment++) {
        store.record(NOW, track({ anonymousId: `a-${segment}` }));
        store.seal();
      }
      dropLines(store.state, (seq) => seq === 2);
      store.record(NOW, identify("jane@example.com", { anonymousId: "a-1" }));
      insertEntries(store.sql, visitorList(visitor), [{ seq: 2, scored: null }]);
      startLinkJob(store.state, visitor, NOW);
      await store.link();
      // The key of a list is the kind of its id, `a`, and the id.
      expect([store.linkJobs, visitorLists(store)]).toEqual([0, ["aa-0", "aa-2"]]);
    }));
});

const visitors = (maxLength: number) => fc.array(fc.constantFrom("a", "b", "c", "d"), { minLength: 1, maxLength });
const anyStep = fc.oneof(
  // `isBehind`: the consumer that evaluated the signals did not know the new rules.
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant("visit" as const), names: visitors(5), isBehind: fc.boolean() }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("identify" as const), names: visitors(3) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("change" as const), points: fc.integer({ min: 1, max: 99 }) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constantFrom("seal" as const, "seal", "cool", "restart") }) },
);

test("each signal scores by the rules in force when it first has a person, in any order of identification", async () => {
  await assertForSoLong(
    fc.asyncProperty(fc.array(anyStep, { minLength: 8, maxLength: 40, size: "max" }), (steps) =>
      withRules(async (store) => {
        const scores: Record<string, number> = {};
        const waiting: string[] = [];
        const rulesNow = () => ({ rulesVersion: store.rulesVersion, points: store.points });
        let before = rulesNow();
        for (const step of steps) {
          if (step.do === "visit") {
            const now = rulesNow();
            if (step.isBehind) Object.assign(store, before);
            for (const name of step.names) {
              if (scores[name] === undefined) waiting.push(name);
              else scores[name] += store.points;
            }
            store.record(NOW, ...step.names.map((name) => visit(name)));
            Object.assign(store, now);
          } else if (step.do === "identify") {
            store.record(NOW, ...step.names.map((name) => known(name)));
            await store.linkAll();
            for (const name of step.names) scores[name] ??= store.points * waiting.filter((v) => v === name).length;
          } else if (step.do === "change") {
            before = rulesNow();
            store.changeRules(step.points);
          } else if (step.do === "seal") store.seal();
          else if (step.do === "cool") await store.workOnCold(NOW + 2 * DAY);
          else store.restart();
        }
        expect([store.linkJobs, store.scores]).toEqual([0, scores]);
        expectStateToAddUp(store.state);
      }),
    ),
    { numRuns: 60, limitMs: 20_000 },
  );
});

test("a rule that is applied to the past scores a line that was linked just before, even if the clock was set back", () =>
  withRules(async (store) => {
    store.record(NOW + DAY, visit("ann"));
    store.record(NOW + DAY, known("ann"));
    expect(store.scores).toEqual({ ann: 5 });
    const rule = { id: "rule_1", version: 2, event: "E", match: "all" as const, conditions: [], scoringSignal: "s" };
    startRuleJob(store.state, { ruleId: "rule_1", rule: { ...rule, points: 7 }, rulesVersion: 2 }, NOW);
    await stepRuleJob(store.state, store.storage);
    expect(store.scores).toEqual({ ann: 7 });
  }));
