/** Design §8.6: points that lapse, day by day, and what a night of lapses raises and costs. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { DAY_MS } from "../../../../src/domain/duration.ts";
import type { MappingRule, RuleFrequency } from "../../../../src/domain/rules/mapping-rule.ts";
import { eventTypes } from "../../../../src/domain/events/workspace-event.ts";
import { SCORE_FALLS_MAX } from "../../../../src/limits.ts";
import { LAPSE_STEP_PEOPLE, areLapsesDue, nextLapseMs, stepLapses } from "../../../../src/store/people/lapse-run.ts";
import { deleteExpired, setRetention } from "../../../../src/store/deletion/retention.ts";
import { readPersonPage } from "../../../../src/store/queries/person-page.ts";
import { findPeople } from "../../../../src/store/queries/people-search.ts";
import { traceSignal } from "../../../../src/store/queries/newest-signals.ts";
import { wantEvents } from "../../../../src/store/state/raise-events.ts";
import { ofType, takeRaised } from "../../../support/raised.ts";
import { rowsWritten } from "../../../support/sql-cost.ts";
import { inBalance, type TestStore } from "../../../support/store.ts";
import { wanting } from "../../../support/wanting.ts";

const NOON = Date.UTC(2026, 10, 25, 12);
const ANN = "ann@example.com";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: NOON }));
afterEach(() => void vi.useRealTimers());

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
  for (; areLapsesDue(store.sql, Date.now()); steps++) stepLapses(store.state, Date.now());
  return steps;
}

const raised = (store: TestStore) => takeRaised(store.state.raised);

function want(store: TestStore, ...thresholds: number[]): void {
  wantEvents(store.state, wanting({ types: [...eventTypes], thresholds }));
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
      expect([store.scores, nextLapseMs(store.sql)]).toEqual([{ ann: 40 }, midnight + 21 * DAY_MS]);
      vi.setSystemTime(midnight + 21 * DAY_MS - 1);
      expect(visitDue(store)).toBe(0);
      vi.setSystemTime(midnight + 21 * DAY_MS);
      visitDue(store);
      expect([store.scores, nextLapseMs(store.sql)]).toEqual([{ ann: 20 }, midnight + 31 * DAY_MS]);
      pass(10);
      visitDue(store);
      expect([store.scores, nextLapseMs(store.sql)]).toEqual([{ ann: 0 }, null]);
    }),
  );

  test(
    "add nothing if they have lapsed on arrival, and the trace says when they lapsed",
    inBalance(async (store) => {
      use(store);
      want(store, 10);
      const id = visit(store, { email: ANN }, 31);
      expect([store.scores, nextLapseMs(store.sql), raised(store)]).toEqual([{ ann: 0 }, null, []]);
      const trace = await traceSignal(store.state, store.objects, id);
      const lapsesAtMs = Math.floor(NOON / DAY_MS) * DAY_MS;
      expect(trace).toMatchObject({
        points: 0,
        rulesMatched: [{ points: 20, scored: true, lapsed: true, lapsesAtMs }],
      });
    }),
  );

  test(
    "are missing from lists, pages and the curve at once, before the alarm has visited the person",
    inBalance((store) => {
      use(store);
      visit(store, { email: ANN }, 2);
      pass(40);
      const { items, lapsing } = findPeople(store.state, { sort: "score" }, { cursor: null, limit: 5 });
      expect([items.map(({ score, nextLapseAtMs }) => [score, nextLapseAtMs]), lapsing]).toEqual([[[0, null]], true]);
      const page = readPersonPage(store.state, ANN, "scores", { cursor: null, limit: 5 });
      expect(page).toMatchObject({
        person: { score: 0 },
        timeline: { items: [{ scores: [{ points: 20, lapsed: true }] }] },
        curve: { byRule: [] },
      });
      expect(page?.curve.points.map(({ score }) => score)).toEqual([20, 0]);
      visitDue(store);
      expect(findPeople(store.state, { sort: "score" }, { cursor: null, limit: 5 })).toMatchObject({ lapsing: false });
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
        setRetention(store.sql, { retentionDays: 5 }, Date.now());
        deleteExpired(store.state, Date.now());
        identify(store, { userId: "u-1", traits: { email: "bob@example.com" } });
        await store.linkAll();
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
  function fill(store: TestStore, count: number): void {
    use(store);
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

  test(
    "raises one summary if more people than the limit fall below a threshold, in bounded steps",
    inBalance((store) => {
      want(store, 10);
      fill(store, SCORE_FALLS_MAX + 1);
      pass(31);
      expect(visitDue(store)).toBe(Math.ceil((SCORE_FALLS_MAX + 1) / LAPSE_STEP_PEOPLE));
      const events = raised(store);
      expect(events).toHaveLength(1);
      expect(ofType(events, "people.rescored")).toMatchObject([
        { cause: "points_lapsed", points: -20 * (SCORE_FALLS_MAX + 1), thresholds: [{ threshold: 10, fallen: 1_001 }] },
      ]);
      // The next night has one fall again.
      visit(store, { email: "p0@example.com" });
      pass(31);
      visitDue(store);
      expect(ofType(raised(store), "person.score_fell")).toHaveLength(1);
    }),
  );

  test(
    "writes at most three rows a person, and nothing where no rule's points lapse",
    inBalance((store) => {
      fill(store, 100);
      pass(31);
      expect(rowsWritten(store.sql, () => stepLapses(store.state, Date.now()))).toBeLessThanOrEqual(3 * 100 + 1);
      expect(nextLapseMs(store.sql)).toBeNull();
    }),
  );
});
