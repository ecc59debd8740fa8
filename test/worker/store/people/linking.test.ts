/**
 * Spec §6.1: linking of earlier signals of visitors who become known (src/store/people/linking.ts): with the batch,
 * or by jobs.
 */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compileRules } from "../../../../src/domain/rules/mapping-rule.ts";
import { COLD_RETRY_MS, RULE_STEP_SEGMENTS } from "../../../../src/limits.ts";
import { ColdObjects } from "../../../../src/store/log/cold.ts";
import { nextLinkJobMs } from "../../../../src/store/people/linking.ts";
import { stepLinkJobs, LINK_PAGE_SIGNALS } from "../../../../src/store/people/linking.ts";
import { traceSignal } from "../../../../src/store/queries/trace.ts";
import { expectStateToAddUp, linesOf } from "../../../support/adds-up.ts";
import { bucketWith } from "../../../support/cold.ts";
import { assertForSoLong } from "../../../support/for-so-long.ts";
import { inStore } from "../../../support/store.ts";
import type { Sent, TestStore } from "../../../support/store.ts";

const DAY = 24 * 3_600_000;
const NOW = Date.now() - 3 * DAY;

let sent = 0;
const visit = (visitor: string, event = "E", ids: object = {}): Sent => ({
  payload: { type: "track", event, messageId: `m-${sent++}`, anonymousId: `visitor-${visitor}`, ...ids },
});
const identify = (visitor: string, email = `${visitor}@example.com`, ids: object = {}): Sent => ({
  payload: { type: "identify", messageId: `m-${sent++}`, anonymousId: `visitor-${visitor}`, ...ids, traits: { email } },
});

/** The current rule with which TestStore scores event E. */
const rulesOf = ({ rulesVersion, points }: TestStore) => ({
  version: rulesVersion ?? 1,
  rules: compileRules([
    {
      id: "rule_1",
      version: rulesVersion ?? 1,
      event: "E",
      match: "all",
      conditions: [],
      scoringSignal: "s",
      points,
    },
  ]),
});
const stepOf = (store: TestStore, objects = store.objects) =>
  stepLinkJobs({ state: store.state, storage: store.storage, objects, rules: async () => rulesOf(store) });
const jobs = ({ sql }: TestStore) => sql.exec("SELECT 1 FROM link_jobs").toArray().length;
const statuses = ({ state }: TestStore) => linesOf(state.signals as never).map(({ facts }) => facts.status);
const scores = ({ sql }: TestStore) =>
  Object.fromEntries(
    sql
      .exec<{ email: string; score: number }>("SELECT email, score FROM people ORDER BY email")
      .toArray()
      .map(({ email, score }) => [email.slice(0, email.indexOf("@")), score]),
  );
/** Creates another version of the rule with these points. */
const changeRules = (store: TestStore, points: number): void => {
  store.rulesVersion = (store.rulesVersion ?? 0) + 1;
  store.points = points;
};
const withRules = <T>(act: (store: TestStore) => T | Promise<T>): Promise<T> =>
  inStore((store) => {
    changeRules(store, 5);
    return act(store);
  });

describe("visitors who become known", () => {
  test("are linked by the batch that identifies them, with one write per segment for all of them", () =>
    withRules((store) => {
      for (let segment = 0; segment < 3; segment++) {
        store.record(NOW, ...["a", "b", "c"].map((visitor) => visit(visitor)));
        store.seal();
      }
      const versions = () => [1, 4, 7].map((seq) => store.state.signals.segmentOf(seq)?.version);
      expect(versions()).toEqual([0, 0, 0]);
      store.record(NOW, identify("a"), identify("b"), visit("d"));
      expect(versions()).toEqual([1, 1, 1]);
      expect(jobs(store)).toBe(0);
      expect(scores(store)).toEqual({ a: 15, b: 15 });
      expect(statuses(store).filter((status) => status === "anonymous").length).toBe(4);
      expectStateToAddUp(store.state);
    }));

  test("have open signals linked too, and later ones in the batch keep their place", () =>
    withRules((store) => {
      store.record(NOW, visit("a"), visit("b"));
      store.record(NOW, identify("a"), visit("a"), visit("b"), visit("a", "F"));
      expect(scores(store)).toEqual({ a: 10 });
      store.restart();
      expectStateToAddUp(store.state);
    }));

  test("score nothing before, and raise no notification", () =>
    withRules(async (store) => {
      const [id = ""] = store.record(NOW, visit("a"));
      const trace = () => traceSignal(store.state, store.objects, id);
      expect(await trace()).toMatchObject({ status: "anonymous", rulesMatched: [], points: 0 });
      store.record(NOW, identify("a"));
      expect(await trace()).toMatchObject({ status: "processed", rulesTried: 1, points: 5 });
    }));

  test("are linked by jobs if the batch is unsuitable, all jobs in one step", () =>
    withRules(async (store) => {
      const visitors = Array.from({ length: 40 }, (_, n) => `v${n}`);
      for (const visitor of visitors) store.record(NOW, visit(visitor), visit(visitor, "F"));
      store.seal();
      changeRules(store, 7);
      store.record(NOW, ...visitors.map((visitor) => identify(visitor)));
      expect(jobs(store)).toBe(40);
      expect(await stepOf(store)).toBe(false);
      expect(jobs(store)).toBe(0);
      expect(scores(store)).toEqual(Object.fromEntries(visitors.map((visitor) => [visitor, 7])));
      expect(store.state.signals.segmentOf(1)?.version).toBe(1);
      expectStateToAddUp(store.state);
    }));

  test("with more signals than a batch reads are linked partly by it and then by jobs", () =>
    withRules(async (store) => {
      const many = LINK_PAGE_SIGNALS + 30;
      store.record(NOW, ...Array.from({ length: many }, () => visit("a")), visit("b"));
      for (let n = 0; n < RULE_STEP_SEGMENTS + 5; n++) {
        store.record(NOW, visit("c"));
        store.seal();
      }
      store.record(NOW, identify("c"), identify("a"), identify("b"));
      expect(jobs(store)).toBe(3);
      expect(statuses(store)).toContain("anonymous");
      while (await stepOf(store));
      expect(jobs(store)).toBe(0);
      expect(scores(store)).toEqual({ a: 5 * many, b: 5, c: 5 * (RULE_STEP_SEGMENTS + 5) });
      expectStateToAddUp(store.state);
    }));

  test("are linked by a job if their user id takes over an anonymous id, and the previous owner is recomputed", () =>
    withRules(async (store) => {
      store.record(NOW, identify("a", "ann@example.com"));
      store.record(NOW, visit("a", "E", { userId: "u-1" }));
      expect(scores(store)).toEqual({ ann: 5 });
      store.record(NOW, identify("b", "bob@example.com", { userId: "u-1" }));
      expect([jobs(store), scores(store)]).toEqual([1, { ann: 5, bob: 0 }]);
      while (await stepOf(store));
      expect([jobs(store), scores(store)]).toEqual([0, { ann: 0, bob: 5 }]);
      expectStateToAddUp(store.state);
    }));
});

describe.each(["open", "sealed", "cold"])(
  "an id that goes back and forth between two people, over lines that are %s",
  (where) => {
    test("with several owners give each the signals of their time, and the first owner the earlier ones", () =>
      withRules(async (store) => {
        const settle = async (): Promise<void> => {
          if (where !== "open") store.seal();
          if (where === "cold") await store.workOnCold(NOW + 3 * DAY);
        };
        const at = (ms: number, signal: Sent): Sent => ({ ...signal, receivedAtMs: NOW + ms });
        const inTurn = ["ann", "bob", "ann", "bob"].map((name) => `${name}@example.com`);
        // In each turn one line also has a user id without an owner yet, so that it gets another owner in the end.
        store.record(NOW, at(0, visit("x")), at(1, visit("x", "E", { userId: "u-1" })));
        for (const [turn, email] of inTurn.entries()) {
          await settle();
          changeRules(store, 5);
          const ms = 10 * (turn + 1);
          store.record(NOW, at(ms, identify("x", email)), at(ms + 1, visit("x")));
          store.record(NOW, at(ms + 2, visit("x", "E", { userId: "u-1" })), at(ms + 3, visit("x", "F")));
          if (turn !== 1) while (await stepOf(store));
        }
        await settle();
        // A late signal belongs to the owner of the id at its receipt.
        store.record(NOW, at(25, visit("x")), at(5, visit("x")));
        expect(scores(store)).toEqual({ ann: 35, bob: 25 });
        store.record(NOW, identify("carol", "carol@example.com", { userId: "u-1" }));
        while (await stepOf(store));
        expect([jobs(store), scores(store)]).toEqual([0, { ann: 20, bob: 15, carol: 25 }]);
        const seen = store.sql.exec(
          "SELECT first_seen - ? AS first, last_seen - ? AS last FROM people ORDER BY email",
          NOW,
          NOW,
        );
        expect(seen.toArray().slice(0, 2)).toEqual([
          { first: 0, last: 33 },
          { first: 20, last: 43 },
        ]);
        expectStateToAddUp(store.state);
      }));
  },
);

describe("a visitor who becomes known after the rules have changed", () => {
  test("is scored by the new rules, although the signals were processed on arrival", () =>
    withRules(async (store) => {
      store.record(NOW, visit("a"));
      changeRules(store, 7);
      store.record(NOW, visit("b"));
      store.record(NOW, identify("a"), identify("b"));
      expect([jobs(store), scores(store)]).toEqual([1, { a: 0, b: 7 }]);
      while (await stepOf(store));
      expect([jobs(store), scores(store)]).toEqual([0, { a: 7, b: 7 }]);
      expectStateToAddUp(store.state);
    }));

  test("is scored by the new rules, even if the consumer of their signals used old ones", () =>
    withRules(async (store) => {
      const before = { rulesVersion: store.rulesVersion, points: store.points };
      changeRules(store, 7);
      store.record(NOW, visit("a"));
      const now = { rulesVersion: store.rulesVersion, points: store.points };
      Object.assign(store, before);
      store.record(NOW, visit("b"));
      Object.assign(store, now);
      store.record(NOW, visit("c"));
      store.record(NOW, identify("a"), identify("b"), identify("c"));
      expect([jobs(store), scores(store)]).toEqual([2, { a: 0, b: 0, c: 7 }]);
      while (await stepOf(store));
      expect(scores(store)).toEqual({ a: 7, b: 7, c: 7 });
    }));
});

describe("a failing link step", () => {
  test("links no visitor, and the next batch links all", () =>
    withRules(async (store) => {
      for (const visitor of ["a", "b", "c"]) {
        store.record(NOW, visit(visitor));
        store.seal();
      }
      changeRules(store, 7);
      store.record(NOW, ...["a", "b", "c"].map((visitor) => identify(visitor)));
      store.sql.exec(
        "CREATE TRIGGER refused BEFORE UPDATE ON people WHEN NEW.id = 2 AND NEW.score > 0 BEGIN SELECT RAISE(ABORT, 'no'); END",
      );
      await expect(stepOf(store)).rejects.toThrow("no");
      expect([jobs(store), scores(store)]).toEqual([3, { a: 0, b: 0, c: 0 }]);
      expectStateToAddUp(store.state);
      store.sql.exec("DROP TRIGGER refused");
      await stepOf(store);
      expect([jobs(store), scores(store)]).toEqual([0, { a: 7, b: 7, c: 7 }]);
      expectStateToAddUp(store.state);
    }));

  test("for missing data in R2 postpones only the visitors who need it", () =>
    withRules(async (store) => {
      store.record(NOW, visit("a"), visit("b"));
      store.seal();
      await store.workOnCold(NOW + 2 * DAY);
      store.record(NOW, visit("c"), visit("b"));
      changeRules(store, 7);
      store.record(NOW, ...["a", "b", "c"].map((visitor) => identify(visitor)));
      const isDown = () => Promise.reject(new Error("R2 is down"));
      const broken = new ColdObjects(bucketWith({ before: isDown }), store.workspaceId);
      expect(await stepOf(store, broken)).toBe(true);
      expect([jobs(store), scores(store)]).toEqual([2, { a: 0, b: 7, c: 7 }]);
      expect(await stepOf(store, broken)).toBe(false);
      expect(nextLinkJobMs(store.sql)).toBeGreaterThan(Date.now() + COLD_RETRY_MS / 2);
      store.sql.exec("UPDATE link_jobs SET due_at = 1");
      while (await stepOf(store));
      expect([jobs(store), scores(store)]).toEqual([0, { a: 7, b: 14, c: 7 }]);
      expectStateToAddUp(store.state);
    }));
});

const visitor = fc.constantFrom("a", "b", "c", "d");
const anyStep = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("visit" as const),
      visitors: fc.array(visitor, { minLength: 1, maxLength: 5 }),
      /** The consumer that evaluated them did not know the new rules. */
      isBehind: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("identify" as const),
      visitors: fc.array(visitor, { minLength: 1, maxLength: 3 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("change rules" as const), points: fc.integer({ min: 1, max: 99 }) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("seal" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("cool" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("restart" as const) }) },
);

test("in any order of identification, each signal scores by the rules in force when it first has a person", async () => {
  await assertForSoLong(
    fc.asyncProperty(fc.array(anyStep, { minLength: 8, maxLength: 40, size: "max" }), (steps) =>
      withRules(async (store) => {
        const known: Record<string, number> = {};
        const waiting: string[] = [];
        let before = { rulesVersion: store.rulesVersion, points: store.points };
        for (const step of steps) {
          if (step.do === "visit") {
            const now = { rulesVersion: store.rulesVersion, points: store.points };
            if (step.isBehind) Object.assign(store, before);
            for (const name of step.visitors) {
              if (known[name] === undefined) waiting.push(name);
              else known[name] += store.points;
            }
            store.record(NOW, ...step.visitors.map((name) => visit(name)));
            Object.assign(store, now);
          } else if (step.do === "identify") {
            store.record(NOW, ...step.visitors.map((name) => identify(name)));
            while (await stepOf(store));
            for (const name of step.visitors) {
              known[name] ??= store.points * waiting.filter((waitingName) => waitingName === name).length;
            }
          } else if (step.do === "change rules") {
            before = { rulesVersion: store.rulesVersion, points: store.points };
            changeRules(store, step.points);
          } else if (step.do === "seal") store.seal();
          else if (step.do === "cool") await store.workOnCold(NOW + 2 * DAY);
          else store.restart();
        }
        expect(scores(store)).toEqual(known);
        expect(jobs(store)).toBe(0);
        expectStateToAddUp(store.state);
      }),
    ),
    { numRuns: 60, limitMs: 20_000 },
  );
});
