/**
 * Rules that score once, when the match that counts leaves a person (src/store/people/replacements.ts): which match counts instead, in
 * what steps, and what is shown and raised meanwhile.
 */
import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { DAY_MS, dayOf } from "../../../../src/domain/duration.ts";
import { notificationTypes } from "../../../../src/domain/notifications/notification.ts";
import { compileRules, type MappingRule } from "../../../../src/domain/rules/mapping-rule.ts";
import { deleteExpired, setRetention } from "../../../../src/store/deletion/retention.ts";
import { stepReplacements } from "../../../../src/store/people/replacements.ts";
import { listAccounts, readAccountPage } from "../../../../src/store/queries/account-page.ts";
import { findPeople, readPeople } from "../../../../src/store/queries/people-search.ts";
import { readPersonPage } from "../../../../src/store/queries/person-page.ts";
import { startRuleJob, stepRuleJob } from "../../../../src/store/rules/rule-jobs.ts";
import { nextReplacementMs } from "../../../../src/store/state/due.ts";
import { wantNotifications } from "../../../../src/store/state/raise-notifications.ts";
import { STEPS } from "../../../../src/store/steps.ts";
import { expectStateToAddUp } from "../../../support/adds-up.ts";
import { ringUntilQuiet } from "../../../support/cold.ts";
import { takeRaised } from "../../../support/raised.ts";
import { expectToAddUp, readStore } from "../../../support/read-store.ts";
import { rowsRead } from "../../../support/sql-cost.ts";
import { identify, inBalance, inStore, track, type Sent, type TestStore } from "../../../support/store.ts";
import { wanting } from "../../../support/wanting.ts";

const NOW = Date.UTC(2026, 5, 1, 12);
const TODAY = dayOf(NOW);
const ANN = "ann@example.com";
const BOB = "bob@example.com";
const NO_RULES = { version: 1, rules: compileRules([]) };
const PAGE = { cursor: null, limit: 5 };
const SIZES = { ...STEPS };

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: NOW }));
afterEach(() => {
  vi.useRealTimers();
  Object.assign(STEPS, SIZES);
});

const visit = (fields: object = {}, receivedAtMs = NOW): Sent =>
  track({ anonymousId: "v-ann", ...fields }, { receivedAtMs, periodStartMs: NOW });
const known = (email: string, ids: object): Sent => identify(email, ids, { periodStartMs: NOW });

/** A visit that becomes Bob's when `loseToBob` names its user id, and that no rule scores then. */
const bobs = (fields: object = {}, receivedAtMs = NOW): Sent => visit({ userId: "u-bob", ...fields }, receivedAtMs);

async function loseToBob(store: TestStore): Promise<void> {
  store.record(NOW, known(BOB, { userId: "u-bob" }));
  await store.linkAll(NO_RULES);
}

/** Ann's first signal scores; later signals would score too. */
function score(store: TestStore, ...later: Sent[]): void {
  store.rulesVersion = 1;
  store.frequency ??= "once_per_day";
  store.record(NOW, known(ANN, { anonymousId: "v-ann" }));
  store.record(NOW, bobs());
  store.record(NOW, ...later);
}

const rule = (more: Partial<MappingRule>): MappingRule => ({
  id: "rule_1",
  version: 1,
  event: "E",
  match: "all",
  conditions: [],
  scoringSignal: "s",
  points: 20,
  ...more,
});

/** Thresholds of people and accounts; not the summary of linked signals. */
function want(store: TestStore, threshold: number): void {
  const types = notificationTypes.filter((type) => type !== "person.scored" && type !== "people.rescored");
  wantNotifications(store.state, wanting({ types, thresholds: [threshold], accountThresholds: [threshold] }));
  store.state.signals.flush();
  takeRaised(store.state.raised);
}

const raised = (store: TestStore) => takeRaised(store.state.raised).map(({ type, data }) => ({ type, data }));

describe("the replacement of a match", () => {
  const LINES = 2 * STEPS.replaceEntries + 10;

  test("is found after many signals, in bounded steps of the alarm, also after an eviction", async () => {
    const workspaceId = await inStore(async (store) => {
      score(store);
      const unscored = Array.from({ length: LINES }, () => visit({ event: "Other" }));
      for (let from = 0; from < LINES; from += 1_000) store.record(NOW + 2, ...unscored.slice(from, from + 1_000));
      store.record(NOW + 3, visit(), visit({ more: 1 }));
      expect(store.scores).toEqual({ ann: 5 });
      await loseToBob(store);
      expect(store.scores).toEqual({ ann: 0, bob: 0 });
      store.restart();
      expect(rowsRead(store.sql, () => stepReplacements(store.state, NOW))).toBeLessThan(STEPS.replaceEntries / 10);
      expect(nextReplacementMs(store.sql)).not.toBeNull();
      return store.workspaceId;
    });
    vi.useRealTimers();
    await evictDurableObject(env.SIGNAL_STORE.getByName(workspaceId));
    await ringUntilQuiet(workspaceId);
    await expectToAddUp(workspaceId);
    const scores = await readStore(workspaceId, ({ sql }) =>
      [...sql.exec("SELECT score FROM people ORDER BY id").raw()].flat(),
    );
    expect(scores).toEqual([5, 0]);
  });

  test(
    "reads no line of the log, in however many segments the person's signals are",
    inBalance(async (store) => {
      score(store);
      for (let n = 0; n < 50; n++) {
        store.record(NOW + n, visit({ event: "Other" }));
        store.seal();
      }
      store.record(NOW + 60, visit());
      await loseToBob(store);
      store.restart();
      const statements: string[] = [];
      const exec = store.sql.exec.bind(store.sql);
      store.sql.exec = ((query: string, ...values: SqlStorageValue[]) => {
        statements.push(query);
        return exec(query, ...values);
      }) as typeof exec;
      store.replaceAll();
      store.sql.exec = exec;
      expect(store.scores).toEqual({ ann: 5, bob: 0 });
      expect(statements.filter((query) => /FROM signals_/.test(query))).toEqual([]);
    }),
  );

  test.each([
    ["before", (drop: () => void, move: () => Promise<void>) => move().then(drop)],
    ["after", (drop: () => void, move: () => Promise<void>) => Promise.resolve(drop()).then(move)],
  ])("is the same whether the match moves %s retention drops the next one", (_, inOrder) =>
    inBalance(
      async (store) => {
        store.frequency = "once_ever";
        score(store);
        // Recorded later than the signal that scores, although it was received before.
        store.record(NOW, visit({}, NOW - 10 * DAY_MS));
        await inOrder(
          () => {
            setRetention(store.state, { retentionDays: 5 }, NOW);
            deleteExpired(store.state, NOW);
          },
          async () => {
            await loseToBob(store);
            store.replaceAll();
          },
        );
        expect(store.scores).toEqual({ ann: 5, bob: 0 });
      },
      { hasDropped: true },
    )(),
  );

  test.each<[string, (store: TestStore) => unknown, TestStore["scores"]]>([
    ["another signal has scored", (store) => store.record(NOW, visit()), { ann: 5, bob: 0 }],
    ["the person was deleted", (store) => store.beginDeletion(ANN, NOW), { bob: 0 }],
    ["the rule was deleted", (store) => startRuleJob(store.state, REMOVED, NOW), { ann: 0, bob: 0 }],
  ])("ends without a change if %s meanwhile", (_, act, scores) =>
    inBalance(async (store) => {
      score(store);
      await loseToBob(store);
      act(store);
      store.state.signals.flush();
      while (await stepRuleJob(store.state, store.storage));
      store.replaceAll();
      expect(store.scores).toEqual(scores);
      expect(store.sql.exec("SELECT 1 FROM people WHERE score_before IS NOT NULL").toArray()).toEqual([]);
    })(),
  );
});

const REMOVED = { ruleId: "rule_1", rule: null, rulesVersion: 2 };

test(
  "a once-ever rule whose points lapse counts from the earliest match, however many steps the search takes",
  inBalance(async (store) => {
    const daysAgo = (days: number) => ({ timestamp: NOW - days * DAY_MS });
    store.mappingRules = [rule({ frequency: "once_ever", pointsLastDays: 30 })];
    const others = Array.from({ length: 5 }, () => visit({ event: "Other" }));
    score(
      store,
      visit(daysAgo(3)),
      ...others,
      visit(daysAgo(14)),
      ...Array.from({ length: 5 }, () => visit({ event: "Other" })),
    );
    await loseToBob(store);
    STEPS.replaceEntries = 4;
    let steps = 0;
    for (; nextReplacementMs(store.sql) !== null; steps++) {
      store.restart();
      stepReplacements(store.state, NOW);
    }
    expect(steps).toBeGreaterThan(2);
    const lapses = store.sql.exec<{ at: number }>("SELECT next_lapse_at AS at FROM people WHERE email = ?", ANN).one();
    expect([store.scores, lapses.at / DAY_MS - TODAY]).toEqual([{ ann: 20, bob: 0 }, 31 - 14]);
  }),
);

describe("while a match is being replaced", () => {
  /** Ann's only points, of the account, are lost to Bob. */
  async function lose(store: TestStore, ...later: Sent[]): Promise<void> {
    store.points = 20;
    store.rulesVersion = 1;
    store.record(NOW, { payload: { type: "group", anonymousId: "v-ann", groupId: "acme" }, periodStartMs: NOW });
    score(store, ...later);
    want(store, 10);
    await loseToBob(store);
  }
  const recomputing = (store: TestStore) => [
    readPersonPage(store.shown, ANN, "all", PAGE)?.person.recomputing,
    findPeople(store.shown, { sort: "newest", text: ANN }, PAGE).items[0]?.recomputing,
    readPeople(store.shown, { email: ANN }, PAGE).items[0]?.recomputing,
    readAccountPage(store.shown, "acme", PAGE)?.recomputing,
    listAccounts(store.state, {}, PAGE).items[0]?.recomputing,
  ];

  test(
    "nothing is raised if the score ends as it began, although a step shows it without the points",
    inBalance(async (store) => {
      await lose(store, visit());
      expect([store.scores, raised(store)]).toEqual([{ ann: 0, bob: 0 }, []]);
      expectStateToAddUp(store.state);
      store.record(NOW, visit({ event: "Other" }));
      store.replaceAll();
      expect([store.scores, raised(store)]).toEqual([{ ann: 20, bob: 0 }, []]);
    }),
  );

  test(
    "a fall is raised at the end, once for the person and once for the account, from the score before the removal",
    inBalance(async (store) => {
      await lose(store);
      store.record(NOW, visit({ event: "Other" }));
      expect(raised(store)).toEqual([]);
      store.replaceAll();
      const fall = { threshold: 10, score: 0, score_before: 20 };
      expect(raised(store)).toEqual([
        { type: "person.score_fell", data: { email: ANN, ...fall } },
        { type: "account.score_fell", data: { external_id: "acme", name: null, ...fall } },
      ]);
    }),
  );

  test(
    "an account is compared at the end of its last member's replacements, or when that member is deleted",
    inBalance(async (store) => {
      await lose(store);
      store.record(NOW, track({ email: BOB, event: "Other" }), known(BOB, { userId: "u-bob" }));
      store.record(NOW, { payload: { type: "group", userId: "u-bob", groupId: "acme" }, periodStartMs: NOW });
      expect(readAccountPage(store.shown, "acme", PAGE)?.recomputing).toBe(true);
      store.deletePerson(ANN, NOW);
      expect(readAccountPage(store.shown, "acme", PAGE)?.recomputing).toBe(false);
    }),
  );

  test(
    "pages and the API say that the scores of the person and the account are being recomputed",
    inBalance(async (store) => {
      await lose(store, visit());
      expect(recomputing(store)).toEqual([true, true, true, true, true]);
      store.replaceAll();
      expect(recomputing(store)).toEqual([false, false, false, false, false]);
    }),
  );

  test(
    "a rule job counts its own replacements in its summary, and raises nothing about a single person",
    inBalance(async (store) => {
      store.points = 20;
      score(store);
      store.record(NOW, track({ email: BOB, page: "old" }), track({ email: "cyd@example.com", page: "old" }));
      const conditions = [{ path: "properties.page", operator: "equals" as const, value: "new" }];
      store.mappingRules = [rule({ version: 2, frequency: "once_per_day", conditions })];
      store.rulesVersion = 2;
      // Bob has a match of the new version, which counts in place of the removed one.
      store.record(NOW, { payload: { event: "E", email: BOB, properties: { page: "new" } } });
      wantNotifications(store.state, wanting({ types: [...notificationTypes], thresholds: [10] }));
      store.state.signals.flush();
      takeRaised(store.state.raised);
      const [applied] = store.mappingRules;
      startRuleJob(store.state, { ruleId: "rule_1", rule: applied ?? null, rulesVersion: 2 }, NOW);
      store.state.signals.flush();
      while (await stepRuleJob(store.state, store.storage, 1));
      expect(store.scores).toEqual({ ann: 0, bob: 20, cyd: 0 });
      expect(raised(store)).toMatchObject([
        {
          type: "people.rescored",
          data: { removed: 2, points: -40, thresholds: [{ threshold: 10, risen: 0, fallen: 2 }] },
        },
      ]);
      expect(nextReplacementMs(store.sql)).toBeNull();
    }),
  );
});
