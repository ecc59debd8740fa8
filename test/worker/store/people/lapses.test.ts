/** Design §8.6: points that lapse, day by day, and what a night of lapses raises and costs. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { DAY_MS } from "../../../../src/domain/duration.ts";
import type { MappingRule, RuleFrequency } from "../../../../src/domain/rules/mapping-rule.ts";
import { notificationTypes } from "../../../../src/domain/notifications/notification.ts";
import { LAPSE_CROSSINGS_MAX } from "../../../../src/limits.ts";
import { areLapsesDue, stepLapses } from "../../../../src/store/people/lapse-run.ts";
import { beginDeletion } from "../../../../src/store/deletion/person-deletions.ts";
import { deleteExpired, setRetention } from "../../../../src/store/deletion/retention.ts";
import { readPersonPage } from "../../../../src/store/queries/person-page.ts";
import { findPeople } from "../../../../src/store/queries/people-search.ts";
import { scoredPeople } from "../../../../src/store/queries/rule-preview.ts";
import { traceSignal } from "../../../../src/store/queries/newest-signals.ts";
import { startRuleJob, stepRuleJob } from "../../../../src/store/rules/rule-jobs.ts";
import { wantNotifications } from "../../../../src/store/state/raise-notifications.ts";
import { ofType, takeRaised } from "../../../support/raised.ts";
import { rowsWritten } from "../../../support/sql-cost.ts";
import { inBalance, type TestStore } from "../../../support/store.ts";
import { wanting } from "../../../support/wanting.ts";
import { nextLapseMs } from "../../../../src/store/state/due.ts";
import { STEPS } from "../../../../src/store/steps.ts";

const NOON = Date.UTC(2026, 10, 25, 12);
const ANN = "ann@example.com";
const SIZES = { ...STEPS };

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: NOON }));
afterEach(() => {
  vi.useRealTimers();
  Object.assign(STEPS, SIZES);
});

let messages = 0;

/** Gives the store one rule whose points last 30 days. */
function use(store: TestStore, frequency: RuleFrequency = "every_time", points = 20): void {
  const rule: MappingRule = {
    id: "rule_1",
    version: 1,
    event: "Visit",
    match: "all",
    conditions: [],
    scoringSignal: "visit",
    points,
    frequency,
    pointsLastDays: 30,
  };
  store.mappingRules = [rule];
  store.rulesVersion = 1;
}

/** Records a visit that occurred a number of days ago. Returns its id. */
function visit(store: TestStore, who: object, daysAgo = 0): string {
  const timestamp = Date.now() - daysAgo * DAY_MS;
  const payload = { type: "track", event: "Visit", messageId: `m-${messages++}`, timestamp, ...who };
  return store.record(Date.now(), { payload })[0] ?? "";
}

function identify(store: TestStore, who: object): void {
  store.record(Date.now(), { payload: { type: "identify", messageId: `m-${messages++}`, ...who } });
}

function pass(days: number): void {
  vi.setSystemTime(Date.now() + days * DAY_MS);
}

function visitDue(store: TestStore): number {
  let steps = 0;
  for (; areLapsesDue(store.state); steps++) stepLapses(store.state, Date.now());
  return steps;
}

const raised = (store: TestStore) => takeRaised(store.state.raised);

function want(store: TestStore, ...thresholds: number[]): void {
  wantNotifications(store.state, wanting({ types: [...notificationTypes], thresholds }));
  store.state.signals.flush();
}

describe("points that last 30 days", () => {
  test(
    "count until the end of the thirtieth day after the signal occurred, and not from 00:00 UTC on",
    inBalance((store) => {
      use(store);
      visit(store, { email: ANN }, 10);
      visit(store, { email: ANN });
      const midnight = Math.floor(NOON / DAY_MS) * DAY_MS;
      expect([store.scores, nextLapseMs(store.state)]).toEqual([{ ann: 40 }, midnight + 21 * DAY_MS]);
      vi.setSystemTime(midnight + 21 * DAY_MS - 1);
      expect(visitDue(store)).toBe(0);
      vi.setSystemTime(midnight + 21 * DAY_MS);
      visitDue(store);
      expect([store.scores, nextLapseMs(store.state)]).toEqual([{ ann: 20 }, midnight + 31 * DAY_MS]);
      pass(10);
      visitDue(store);
      expect([store.scores, nextLapseMs(store.state)]).toEqual([{ ann: 0 }, null]);
    }),
  );

  test(
    "add nothing if they have lapsed on arrival, and the trace says when they lapsed",
    inBalance(async (store) => {
      use(store);
      want(store, 10);
      const id = visit(store, { email: ANN }, 31);
      expect([store.scores, nextLapseMs(store.state), raised(store)]).toEqual([{ ann: 0 }, null, []]);
      const trace = await traceSignal(() => store.shown, id);
      const lapsesAtMs = Math.floor(NOON / DAY_MS) * DAY_MS;
      expect(trace).toMatchObject({
        points: 0,
        rulesMatched: [{ points: 20, scored: true, lapsed: true, lapsesAtMs }],
      });
    }),
  );

  test(
    "are missing from lists, pages, previews and the curve at once, before the alarm has visited the person",
    inBalance((store) => {
      use(store);
      visit(store, { email: ANN }, 2);
      pass(40);
      const { items, lapsing } = findPeople(store.shown, { sort: "score" }, { cursor: null, limit: 5 });
      expect([items.map(({ score, nextLapseAtMs }) => [score, nextLapseAtMs]), lapsing]).toEqual([[[0, null]], true]);
      const page = readPersonPage(store.shown, ANN, "scores", { cursor: null, limit: 5 });
      expect(page).toMatchObject({
        person: { score: 0 },
        timeline: { items: [{ scores: [{ points: 20, lapsed: true }] }] },
        curve: { byRule: [] },
      });
      expect(page?.curve.points.map(({ score }) => score)).toEqual([20, 0]);
      expect(scoredPeople(store.shown, [1])).toEqual([{ personId: 1, email: ANN, name: null, score: 0 }]);
      visitDue(store);
      expect(findPeople(store.shown, { sort: "score" }, { cursor: null, limit: 5 })).toMatchObject({ lapsing: false });
    }),
  );

  test(
    "are lapsed for pages, lists and the curve too if the clock is set back",
    inBalance((store) => {
      use(store);
      visit(store, { email: ANN });
      visit(store, { email: "late@example.com" });
      pass(31);
      STEPS.lapsePeople = 1;
      stepLapses(store.state, Date.now());
      pass(-20);
      const list = findPeople(store.shown, { sort: "newest" }, { cursor: null, limit: 5 });
      expect([list.items.map(({ score }) => score), list.lapsing]).toEqual([[0, 0], true]);
      const page = readPersonPage(store.shown, ANN, "scores", { cursor: null, limit: 5 });
      expect(page).toMatchObject({ person: { score: 0 }, timeline: { items: [{ scores: [{ lapsed: true }] }] } });
      expect(page?.curve.points.map(({ score }) => score)).toEqual([20, 0]);
    }),
  );

  test(
    "stay lapsed if the clock is set back, also when a signal is removed then",
    inBalance((store) => {
      use(store);
      identify(store, { anonymousId: "a-1", traits: { email: ANN } });
      visit(store, { anonymousId: "a-1", userId: "u-1" }, 10);
      pass(25);
      visitDue(store);
      expect(store.scores).toEqual({ ann: 0 });
      pass(-20);
      identify(store, { userId: "u-1", traits: { email: "bob@example.com" } });
      return store.linkAll().then(() => expect(store.scores).toEqual({ ann: 0, bob: 0 }));
    }),
  );
});

describe("a rule that scores once ever", () => {
  /** In how many days each person's points lapse. */
  function lapseDays({ sql }: TestStore): Record<string, number> {
    const rows = sql.exec<{ email: string; ms: number }>("SELECT email, next_lapse_at AS ms FROM people");
    const today = Math.floor(NOON / DAY_MS);
    return Object.fromEntries([...rows].map(({ email, ms }) => [email.split("@")[0], ms / DAY_MS - today]));
  }

  test(
    "has a curve that begins on the day of the earliest match, and never falls below zero",
    inBalance((store) => {
      use(store, "once_ever");
      visit(store, { email: ANN }, 1);
      visit(store, { email: ANN }, 29);
      pass(10);
      const curve = readPersonPage(store.shown, ANN, "scores", { cursor: null, limit: 5 })?.curve;
      expect(curve?.points.map(({ score }) => score)).toEqual([20, 0]);
      const days = curve?.points.map(({ atMs }) => Math.floor(atMs / DAY_MS) - Math.floor(NOON / DAY_MS));
      expect(days).toEqual([-29, 2]);
    }),
  );

  test(
    "has a curve without a hole if the points lapsed before the match that counts occurred",
    inBalance((store) => {
      use(store, "once_ever");
      visit(store, { email: ANN }, 1);
      visit(store, { email: ANN }, 40);
      const curve = readPersonPage(store.shown, ANN, "scores", { cursor: null, limit: 5 })?.curve;
      expect(curve?.points.map(({ score }) => score)).toEqual([20, 0]);
    }),
  );

  test(
    "counts from the next earliest match when the earliest is removed",
    inBalance(async (store) => {
      use(store, "once_ever");
      identify(store, { anonymousId: "a-1", traits: { email: ANN } });
      visit(store, { email: ANN }, 1);
      visit(store, { anonymousId: "a-1", userId: "u-1" }, 5);
      visit(store, { email: ANN }, 3);
      expect(lapseDays(store)).toEqual({ ann: 26 });
      identify(store, { userId: "u-1", traits: { email: "bob@example.com" } });
      await store.linkAll();
      store.replaceAll();
      expect([store.scores, lapseDays(store)]).toEqual([
        { ann: 20, bob: 20 },
        { ann: 28, bob: 26 },
      ]);
    }),
  );

  test(
    "counts from a match that retention has dropped, also when another signal scores instead",
    inBalance(
      async (store) => {
        use(store, "once_ever");
        identify(store, { anonymousId: "a-1", traits: { email: ANN } });
        visit(store, { anonymousId: "a-1", userId: "u-1" }, 2);
        store.record(Date.now(), {
          payload: { type: "track", event: "Visit", messageId: "old", timestamp: NOON - 15 * DAY_MS, email: ANN },
          receivedAtMs: NOON - 10 * DAY_MS,
        });
        visit(store, { email: ANN }, 1);
        expect(lapseDays(store)).toEqual({ ann: 16 });
        setRetention(store.state, { retentionDays: 5 }, Date.now());
        deleteExpired(store.state, Date.now());
        identify(store, { userId: "u-1", traits: { email: "bob@example.com" } });
        await store.linkAll();
        store.replaceAll();
        expect([store.scores, lapseDays(store)]).toEqual([
          { ann: 20, bob: 20 },
          { ann: 16, bob: 29 },
        ]);
      },
      { hasDropped: true },
    ),
  );
});

describe("a night", () => {
  /** People who each have 20 points that lapse on the same day. */
  function fill(store: TestStore, count: number, points = 20): void {
    use(store, "every_time", points);
    const timestamp = Date.now();
    const sent = Array.from({ length: count }, (_, index) => ({
      payload: { type: "track", event: "Visit", messageId: `n-${index}`, timestamp, email: `p${index}@example.com` },
    }));
    for (let from = 0; from < count; from += 500) store.record(Date.now(), ...sent.slice(from, from + 500));
    raised(store);
  }

  test(
    "raises each fall below a threshold once, until the score has risen again",
    inBalance((store) => {
      want(store, 10);
      fill(store, 2);
      pass(31);
      visitDue(store);
      const fell = ofType(raised(store), "person.score_fell");
      expect(fell).toEqual([
        { email: "p0@example.com", threshold: 10, score: 0, score_before: 20 },
        { email: "p1@example.com", threshold: 10, score: 0, score_before: 20 },
      ]);
      pass(1);
      visit(store, { email: "p0@example.com" });
      expect(ofType(raised(store), "person.score_crossed")).toHaveLength(1);
      pass(31);
      // A signal may come before the alarm: it removes the points too.
      store.record(Date.now(), { payload: { event: "Other", email: "p0@example.com" } });
      expect(ofType(raised(store), "person.score_fell")).toHaveLength(1);
      expect(visitDue(store)).toBe(0);
    }),
  );

  test.each([
    ["falls", 20, { risen: 0, fallen: LAPSE_CROSSINGS_MAX + 1 }],
    ["rises", -20, { risen: LAPSE_CROSSINGS_MAX + 1, fallen: 0 }],
  ])("raises one summary instead of more %s than the limit, in bounded steps", (_, points, crossings) =>
    inBalance((store) => {
      const threshold = points / 2;
      want(store, threshold);
      fill(store, LAPSE_CROSSINGS_MAX + 1, points);
      pass(31);
      expect(visitDue(store)).toBe(Math.ceil((LAPSE_CROSSINGS_MAX + 1) / STEPS.lapsePeople));
      const notifications = raised(store);
      expect(notifications).toHaveLength(1);
      expect(ofType(notifications, "people.rescored")).toEqual([
        {
          cause: "points_lapsed",
          rule_id: null,
          email: null,
          added: 0,
          changed: 0,
          removed: 0,
          points: -points * (LAPSE_CROSSINGS_MAX + 1),
          thresholds: [{ threshold, ...crossings }],
        },
      ]);
      expect(store.sql.exec("SELECT 1 FROM lapse_crossings").toArray()).toEqual([]);
      // The next night has one crossing again.
      visit(store, { email: "p0@example.com" });
      raised(store);
      pass(31);
      visitDue(store);
      expect(raised(store).map(({ type }) => type)).toEqual([`person.score_${points > 0 ? "fell" : "crossed"}`]);
    })(),
  );

  test(
    "raises each of as many crossings as the limit, when all people are visited",
    inBalance((store) => {
      want(store, 10);
      fill(store, LAPSE_CROSSINGS_MAX);
      pass(31);
      stepLapses(store.state, Date.now());
      expect(raised(store)).toEqual([]);
      store.restart();
      visitDue(store);
      const fell = raised(store);
      expect(fell.map(({ type }) => type)).toEqual(Array.from(fell, () => "person.score_fell"));
      expect(fell).toHaveLength(LAPSE_CROSSINGS_MAX);
    }),
  );

  test(
    "that ends after midnight is reported before the next night, which has a state of its own",
    inBalance((store) => {
      want(store, 10);
      fill(store, LAPSE_CROSSINGS_MAX + 1);
      visit(store, { email: "late@example.com" }, -1);
      raised(store);
      pass(31);
      for (let left = LAPSE_CROSSINGS_MAX; left > 0; left -= STEPS.lapsePeople) stepLapses(store.state, Date.now());
      expect(raised(store)).toEqual([]);
      pass(1);
      visitDue(store);
      // The last person of the first night and the person of the second are reported alone.
      expect(ofType(raised(store), "person.score_fell").map(({ email }) => email)).toHaveLength(
        LAPSE_CROSSINGS_MAX + 2,
      );
    }),
  );

  test(
    "does not name a person who is deleted before the run ends",
    inBalance((store) => {
      want(store, 10);
      fill(store, STEPS.lapsePeople + 1);
      pass(31);
      stepLapses(store.state, Date.now());
      store.deletePerson("p0@example.com", Date.now());
      raised(store);
      visitDue(store);
      const emails = ofType(raised(store), "person.score_fell").map(({ email }) => email);
      expect(emails).toHaveLength(STEPS.lapsePeople);
      expect(emails).not.toContain("p0@example.com");
    }),
  );

  test(
    "writes at most three rows a person, and nothing where no rule's points lapse",
    inBalance((store) => {
      fill(store, 100);
      pass(31);
      expect(rowsWritten(store.sql, () => stepLapses(store.state, Date.now()))).toBeLessThanOrEqual(3 * 100 + 1);
      expect(nextLapseMs(store.state)).toBeNull();
    }),
  );
});

describe("points that a step meets after they have lapsed", () => {
  /** Ann's 20 points lapse. Her visit with the user id may become Bob's. */
  function lapse(store: TestStore): void {
    use(store);
    identify(store, { anonymousId: "a-1", traits: { email: ANN } });
    visit(store, { email: ANN });
    store.record(Date.now(), { payload: { type: "track", event: "Other", anonymousId: "a-1", userId: "u-1" } });
    want(store, 10);
    pass(31);
    raised(store);
  }
  const fell = [{ email: ANN, threshold: 10, score: 0, score_before: 20 }];

  test(
    "are a fall of their own when a link job takes a signal of the person",
    inBalance(async (store) => {
      lapse(store);
      identify(store, { userId: "u-1", traits: { email: "bob@example.com" } });
      await store.linkAll();
      expect(ofType(raised(store), "person.score_fell")).toEqual(fell);
    }),
  );

  test(
    "are a fall of their own when the deletion of another person takes a signal",
    inBalance((store) => {
      lapse(store);
      identify(store, { userId: "u-1", traits: { email: "bob@example.com" } });
      beginDeletion(store.state, "del_1", "bob@example.com", Date.now());
      expect(ofType(raised(store), "person.score_fell")).toEqual(fell);
    }),
  );

  test(
    "are a fall of their own when a rule job changes the person, and no part of its summary",
    inBalance(async (store) => {
      lapse(store);
      visit(store, { email: "bob@example.com" }, 40);
      store.record(Date.now(), { payload: { event: "Now", email: "bob@example.com" } });
      const [rule] = store.mappingRules ?? [];
      if (rule === undefined) throw new Error("no rule");
      store.mappingRules = [{ ...rule, version: 2, pointsLastDays: 90, points: 30 }];
      store.rulesVersion = 2;
      raised(store);
      startRuleJob(store.state, { ruleId: rule.id, rule: store.mappingRules[0] ?? rule, rulesVersion: 2 }, Date.now());
      store.state.signals.flush();
      while (await stepRuleJob(store.state, store.storage));
      const notifications = raised(store);
      expect(ofType(notifications, "person.score_fell")).toEqual(fell);
      // Ann's and Bob's points count again, until the ninetieth day.
      expect(ofType(notifications, "people.rescored")).toMatchObject([
        { changed: 2, points: 60, thresholds: [{ threshold: 10, risen: 2, fallen: 0 }] },
      ]);
    }),
  );
});
