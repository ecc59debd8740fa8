/** What should not score: exclusions as signals arrive, as visitors become known, and applied to the past. */
import { describe, expect, test } from "vitest";
import type { Exclusion } from "../../../../src/domain/rules/exclusion.ts";
import type { MappingRule } from "../../../../src/domain/rules/mapping-rule.ts";
import { COLD_AFTER_MS } from "../../../../src/store/log/cold.ts";
import { wantNotifications } from "../../../../src/store/state/raise-notifications.ts";
import { updateGroups } from "../../../../src/store/state/status-change.ts";
import { traceSignal } from "../../../../src/store/queries/newest-signals.ts";
import { previewExclusionsPart } from "../../../../src/store/queries/exclusions-preview.ts";
import { previewPart } from "../../../../src/store/queries/rule-preview.ts";
import {
  ALL_RULES,
  findRuleJob,
  startExclusionsJob,
  startRuleJob,
  stepRuleJob,
} from "../../../../src/store/rules/rule-jobs.ts";
import { isStale } from "../../../../src/store/state/rule-outcomes.ts";
import { dayOf } from "../../../../src/domain/duration.ts";
import { bucketWith, losePayloads } from "../../../support/cold.ts";
import { expectLogged } from "../../../support/logged.ts";
import { openState, testStored } from "../../../support/log.ts";
import { identify, inBalance, inStore, track, type TestStore } from "../../../support/store.ts";
import { wanting } from "../../../support/wanting.ts";

expectLogged("cold_read_failed");

const NOW = Date.now();
const EACH: MappingRule = {
  id: "rule_1",
  version: 1,
  event: "E",
  match: "all",
  conditions: [],
  scoringSignal: "each",
  points: 5,
};
const ONCE: MappingRule = { ...EACH, id: "rule_2", scoringSignal: "once", points: 20, frequency: "once_ever" };
const LAPSING: MappingRule = { ...ONCE, id: "rule_3", scoringSignal: "lapsing", points: 100, pointsLastDays: 30 };
const RULES = [EACH, ONCE, LAPSING];

const on = (id: string, path: string, value: string, operator: "equals" | "ends_with" = "equals"): Exclusion => ({
  id,
  name: `Name of ${id}`,
  match: "all",
  conditions: [{ path, operator, value }],
});
const STAFF = on("exc_staff", "email", "@own.example", "ends_with");
const TESTS = on("exc_tests", "payload.test", "yes");

/** For new signals. */
function exclude(store: TestStore, exclusions: readonly Exclusion[]): void {
  store.exclusions = exclusions;
  store.rulesVersion = (store.rulesVersion ?? 0) + 1;
}

/** For stored signals too. Returns the finished job. */
async function apply(store: TestStore, exclusions: readonly Exclusion[]) {
  exclude(store, exclusions);
  const { state, rulesVersion } = store;
  updateGroups(state);
  const version = rulesVersion ?? 0;
  startExclusionsJob(state, { exclusions, version, rulesVersion: version }, Date.now());
  state.signals.flush();
  // oxlint-disable-next-line no-await-in-loop -- each step continues the step before
  while (await stepRuleJob(state, store.storage, 1));
  return findRuleJob(store.sql, ALL_RULES);
}

function begin(store: TestStore, exclusions: readonly Exclusion[] = []): void {
  store.mappingRules = RULES;
  store.rulesVersion = 1;
  store.exclusions = exclusions;
}

/** All that scores: people, the rows of rules that score once, and counts by rule. */
function scored(store: TestStore): unknown {
  updateGroups(store.state);
  const rows = (query: string) => [...store.sql.exec(query)];
  return {
    people: rows("SELECT email, score, lapses, next_lapse_at, recent FROM people ORDER BY email"),
    once: rows("SELECT * FROM single_scores ORDER BY person_id, rule_id, day"),
  };
}

const trace = (store: TestStore, id: string) => traceSignal(() => store.shown, id);

describe("an exclusion", () => {
  test(
    "lets a signal be recorded with its person and traits, and score nothing",
    inBalance(async (store) => {
      begin(store, [TESTS]);
      const sent = track({ email: "ann@example.com", test: "yes", context: { traits: { name: "Ann" } } });
      const [excluded = "", other = ""] = store.record(NOW, sent, track({ email: "bob@example.com" }));
      expect(store.scores).toEqual({ ann: 0, bob: 125 });
      expect(await trace(store, excluded)).toMatchObject({
        status: "processed",
        person: { email: "ann@example.com" },
        traits: { name: "Ann" },
        rulesTried: 3,
        excludedBy: "exc_tests",
        rulesMatched: [],
        points: 0,
      });
      expect(await trace(store, other)).toMatchObject({ excludedBy: null, points: 125 });
    }),
  );

  test(
    "on the email covers a visitor's signals when the visitor becomes known",
    inBalance(async (store) => {
      begin(store, [STAFF]);
      const [earlier = ""] = store.record(NOW, track({ anonymousId: "d1" }), track({ userId: "u2" }));
      store.record(
        NOW + 1,
        identify("ann@own.example", { anonymousId: "d1" }),
        identify("bob@example.com", { userId: "u2" }),
      );
      await store.linkAll();
      store.record(NOW + 2, track({ anonymousId: "d1" }));
      await store.linkAll();
      expect(store.scores).toEqual({ ann: 0, bob: 125 });
      expect(await trace(store, earlier)).toMatchObject({ excludedBy: "exc_staff", rulesMatched: [], points: 0 });
    }),
  );

  testStored("on the email cover signals without a rule while payloads cannot be read, so that linking goes on", () =>
    inStore(async (store) => {
      const before = (call: string): void => {
        if (call === "get") throw new Error("R2 is down");
      };
      store.state = openState(store.storage, store.workspaceId, bucketWith({ before }));
      begin(store, [STAFF]);
      const [earlier = ""] = store.record(NOW, track({ anonymousId: "d1", event: "No rule" }));
      store.seal();
      await store.state.signals.work(Date.now() + COLD_AFTER_MS + 1);
      exclude(store, [STAFF]);
      store.record(NOW + 1, identify("ann@own.example", { anonymousId: "d1" }));
      await store.linkAll();
      expect(await trace(store, earlier)).toMatchObject({ status: "processed", excludedBy: "exc_staff" });
    }),
  );

  const batches = [
    [track({ anonymousId: "d1" })],
    [identify("ann@own.example", { anonymousId: "d1", userId: "u1" })],
    [track({ userId: "u1", event: "Other" })],
    [track({ email: "ann@own.example" })],
  ];
  const orders = batches.flatMap((_, first) =>
    batches.flatMap((__, second) =>
      batches.flatMap((___, third) => {
        const last = 6 - first - second - third;
        return new Set([first, second, third]).size < 3 ? [] : [[first, second, third, last]];
      }),
    ),
  );
  test.each(orders)("gives no single score in the order of delivery %i %i %i %i", (...order) =>
    inStore(async (store) => {
      begin(store, [STAFF]);
      for (const [nth, index] of order.entries()) {
        const [sent] = batches[index] ?? [];
        if (sent !== undefined) store.record(NOW + nth, { ...sent, receivedAtMs: NOW + index });
        // oxlint-disable-next-line no-await-in-loop -- one after the other
        await store.linkAll();
      }
      expect(store.scores).toEqual({ ann: 0 });
      expect(store.sql.exec("SELECT * FROM single_scores").toArray()).toEqual([]);
    }),
  );
});

describe("exclusions applied to the past", () => {
  const HISTORY = [
    track({ email: "ann@own.example" }),
    track({ email: "ann@own.example", test: "yes" }),
    track({ email: "bob@example.com", test: "yes" }),
    track({ email: "bob@example.com" }),
    track({ email: "cyd@example.com", event: "Other" }),
  ];

  test(
    "take points away, and give back exactly what would have been",
    inBalance(async (store) => {
      begin(store);
      for (const [nth, sent] of HISTORY.entries()) store.record(NOW + nth, sent);
      store.seal();
      const before = scored(store);
      expect(store.scores).toEqual({ ann: 130, bob: 130, cyd: 0 });

      expect(await apply(store, [STAFF])).toMatchObject({ scanned: 5, total: 5, matched: 2, removed: 2, added: 0 });
      expect(store.scores).toEqual({ ann: 0, bob: 130, cyd: 0 });
      // Bob's other signal scores in place of the excluded one.
      expect(await apply(store, [TESTS])).toMatchObject({ matched: 2 });
      expect(store.scores).toEqual({ ann: 125, bob: 125, cyd: 0 });

      expect(await apply(store, [])).toMatchObject({ matched: 0, status: "done" });
      expect(store.scores).toEqual({ ann: 130, bob: 130, cyd: 0 });
      await apply(store, [STAFF]);
      expect(await apply(store, [])).toMatchObject({ added: 2, removed: 0 });
      expect(store.scores).toEqual({ ann: 130, bob: 130, cyd: 0 });
      expect(scored(store)).toMatchObject({ people: [{ score: 130 }, { score: 130 }, { score: 0 }] });
      expect(before).toMatchObject({ people: [{ score: 130 }, { score: 130 }, { score: 0 }] });
    }),
  );

  test(
    "give back what each signal had before, although a rule has changed without being applied",
    inBalance(async (store) => {
      begin(store);
      store.mappingRules = [EACH];
      store.record(NOW, track({ email: "ann@own.example" }));
      store.mappingRules = [{ ...EACH, version: 2, points: 50 }];
      exclude(store, []);
      store.record(NOW + 1, track({ email: "ann@own.example" }));
      const before = scored(store);
      await apply(store, [STAFF]);
      expect(store.scores).toEqual({ ann: 0 });
      await apply(store, []);
      expect(scored(store)).toEqual(before);
    }),
  );

  const changedRules: [string, MappingRule, MappingRule][] = [
    ["once ever", ONCE, { ...ONCE, version: 2, points: 50 }],
    ["once ever for a time", LAPSING, { ...LAPSING, version: 2, points: 50 }],
    [
      "once a day",
      { ...ONCE, frequency: "once_per_day" },
      { ...ONCE, frequency: "once_per_day", version: 2, points: 7 },
    ],
  ];
  test.each(changedRules)(
    "give back the match that counted, although a rule that scores %s has changed without being applied",
    (_, rule, changed) =>
      inStore(async (store) => {
        begin(store);
        store.mappingRules = [rule];
        store.record(NOW, track({ email: "ann@example.com", test: "yes" }));
        store.mappingRules = [changed];
        exclude(store, []);
        store.record(NOW + 1, track({ email: "ann@example.com" }));
        const before = scored(store);
        expect(store.scores).toEqual({ ann: rule.points });
        await apply(store, [TESTS]);
        expect(store.scores).toEqual({ ann: changed.points });
        await apply(store, []);
        expect(scored(store)).toEqual(before);
      }),
  );

  test(
    "let a signal that arrived excluded score as it would have",
    inBalance(async (store) => {
      begin(store, [STAFF, TESTS]);
      for (const [nth, sent] of HISTORY.entries()) store.record(NOW + nth, sent);
      expect(store.scores).toEqual({ ann: 0, bob: 125, cyd: 0 });
      expect(await apply(store, [])).toMatchObject({ added: 3, matched: 0 });
      expect(store.scores).toEqual({ ann: 130, bob: 130, cyd: 0 });
    }),
  );

  test(
    "leave it to a rule's job what comes back",
    inBalance(async (store) => {
      begin(store);
      store.mappingRules = [EACH];
      store.record(NOW, track({ email: "ann@own.example" }));
      await apply(store, [STAFF]);
      const rule = { ...EACH, version: 2, points: 50 };
      store.mappingRules = [rule];
      exclude(store, [STAFF]);
      startRuleJob(store.state, { ruleId: rule.id, rule, rulesVersion: store.rulesVersion ?? 0 }, Date.now());
      // oxlint-disable-next-line no-await-in-loop -- each step continues the step before
      while (await stepRuleJob(store.state, store.storage));
      expect(findRuleJob(store.sql, rule.id)).toMatchObject({ scanned: 1, matched: 0, added: 0, changed: 0 });
      expect(store.scores).toEqual({ ann: 0 });
      await apply(store, []);
      expect(store.scores).toEqual({ ann: 50 });
    }),
  );

  test("reject signals that older exclusions have evaluated", () =>
    inStore(async (store) => {
      begin(store);
      await apply(store, [STAFF]);
      expect([isStale(store.sql, 1), isStale(store.sql, 2)]).toEqual([true, false]);
    }));

  testStored("wait while a payload cannot be read", () =>
    inStore(async (store) => {
      let isDown = true;
      const before = (call: string): void => {
        if (call === "get" && isDown) throw new Error("R2 is down");
      };
      store.state = openState(store.storage, store.workspaceId, bucketWith({ before }));
      store.state.due.set([]);
      begin(store);
      store.record(NOW, track({ email: "ann@example.com", test: "yes" }));
      store.seal();
      await store.state.signals.work(Date.now() + COLD_AFTER_MS + 1);
      expect(await apply(store, [TESTS])).toMatchObject({ status: "running", scanned: 0 });
      expect(store.scores).toEqual({ ann: 125 });
      isDown = false;
      expect(await apply(store, [TESTS])).toMatchObject({ status: "done", scanned: 1 });
      expect(store.scores).toEqual({ ann: 0 });
    }),
  );

  testStored("on the email need no payload: they are previewed and applied while payloads cannot be read", () =>
    inStore(async (store) => {
      const before = (call: string): void => {
        if (call === "get") throw new Error("R2 is down");
      };
      store.state = openState(store.storage, store.workspaceId, bucketWith({ before }));
      store.state.due.set([]);
      begin(store);
      store.record(NOW, track({ email: "ann@own.example" }), track({ email: "bob@example.com" }));
      store.seal();
      await store.state.signals.work(Date.now() + COLD_AFTER_MS + 1);
      const range = { sinceMs: 0, beforeSeq: Number.MAX_SAFE_INTEGER, limit: 100, today: dayOf(NOW) };
      const part = await previewExclusionsPart(store.shown, [STAFF], range);
      expect(part).toMatchObject({ scanned: 2, excluded: 1, complete: true });
      expect(await apply(store, [STAFF])).toMatchObject({ status: "done", scanned: 2, matched: 1 });
      expect(store.scores).toEqual({ ann: 0, bob: 125 });
    }),
  );

  testStored("say in the preview what the application does with a signal whose payload is lost", () =>
    inStore(async (store) => {
      begin(store);
      store.record(NOW, track({ email: "ann@example.com", test: "yes" }));
      await apply(store, [TESTS]);
      expect(store.scores).toEqual({ ann: 0 });
      store.seal();
      await store.state.signals.work(Date.now() + COLD_AFTER_MS + 1);
      await losePayloads(store);
      const range = { sinceMs: 0, beforeSeq: Number.MAX_SAFE_INTEGER, limit: 100, today: dayOf(NOW) };
      const other = on("exc_other", "payload.test", "no");
      expect(await previewExclusionsPart(store.shown, [TESTS, other], range)).toMatchObject({ included: 0 });
      expect(await previewExclusionsPart(store.shown, [other], range)).toMatchObject({ included: 1 });
      await apply(store, [TESTS, other]);
      expect(store.scores).toEqual({ ann: 0 });
      await apply(store, [other]);
      expect(store.scores).toEqual({ ann: 125 });
    }),
  );

  test("raise one notification", () =>
    inStore(async (store) => {
      wantNotifications(store.state, wanting({ types: ["people.rescored", "person.score_fell"], thresholds: [100] }));
      begin(store);
      store.record(NOW, track({ email: "ann@own.example" }));
      await apply(store, [STAFF]);
      const raised = store.state.raised.next()?.notifications ?? [];
      const thresholds = [{ threshold: 100, risen: 0, fallen: 1 }];
      expect(raised.map(({ type, data }) => ({ type, ...data }))).toMatchObject([
        { type: "people.rescored", cause: "exclusions_applied", rule_id: null, removed: 1, points: -125, thresholds },
      ]);
    }));

  test("are previewed: lines, points that change, and matches of rules that score once", () =>
    inStore(async (store) => {
      begin(store);
      for (const [nth, sent] of HISTORY.entries()) store.record(NOW + nth, sent);
      await apply(store, [STAFF]);
      const range = { sinceMs: 0, beforeSeq: Number.MAX_SAFE_INTEGER, limit: 100, today: dayOf(NOW) };
      const part = await previewExclusionsPart(store.shown, [TESTS], range);
      expect(part).toMatchObject({ scanned: 5, excluded: 1, included: 1, covered: [["exc_tests", 2]], next: null });
      const emails = part.samples.map(({ email, excludedBy }) => [email, excludedBy]);
      expect(emails).toEqual([
        ["bob@example.com", "exc_tests"],
        ["ann@own.example", null],
      ]);
      expect(part.points.map(([, points]) => points)).toEqual([-5, 5]);
      const once = part.singles.filter(({ points }) => points === 20);
      const counts = once.map(({ signalId, countedId, isExcluded }) => {
        return [countedId === null ? "none" : countedId === signalId ? "yes" : "other", isExcluded];
      });
      expect(counts).toEqual([
        ["other", false],
        ["yes", true],
        ["none", true],
        ["none", false],
      ]);
    }));

  test("leave signals out of the preview of a rule", () =>
    inStore(async (store) => {
      begin(store, [STAFF]);
      for (const [nth, sent] of HISTORY.entries()) store.record(NOW + nth, sent);
      const range = { sinceMs: 0, beforeSeq: Number.MAX_SAFE_INTEGER, limit: 100, today: dayOf(NOW) };
      expect(await previewPart(store.shown, EACH, range)).toMatchObject({ scanned: 4, matches: 2 });
    }));
});

test("exclusions of lines are known after a restart", () =>
  inStore(async (store) => {
    begin(store, [TESTS]);
    const [id = ""] = store.record(NOW, track({ email: "ann@example.com", test: "yes" }));
    store.seal();
    store.restart();
    expect(await trace(store, id)).toMatchObject({ excludedBy: "exc_tests" });
  }));
