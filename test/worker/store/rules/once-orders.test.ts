/**
 * Design §8.5, §8.6: after any history, a rule that is applied to the past gives its own scores. This includes rules that score once and
 * rules whose points lapse.
 */
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { DAY_MS, dayOf } from "../../../../src/domain/duration.ts";
import {
  POINTS_LAST_DAYS,
  RULE_FREQUENCIES,
  type MappingRule,
  type PointsLastDays,
  type RuleFrequency,
} from "../../../../src/domain/rules/mapping-rule.ts";
import { stepDeletions } from "../../../../src/store/deletion/person-deletions.ts";
import { deleteExpired, setRetention } from "../../../../src/store/deletion/retention.ts";
import { areLapsesDue, stepLapses } from "../../../../src/store/people/lapse-run.ts";
import { readEntries, ascendingEntries, personList } from "../../../../src/store/people/timelines.ts";
import { startRuleJob, stepRuleJob } from "../../../../src/store/rules/rule-jobs.ts";
import { todayOf } from "../../../../src/store/state/store-state.ts";
import { updateGroups } from "../../../../src/store/state/status-change.ts";
import { expectStateToAddUp, linesOf, ruleDaysOf } from "../../../support/adds-up.ts";
import { assertForSoLong } from "../../../support/for-so-long.ts";
import { inStore, type TestStore } from "../../../support/store.ts";
import { nextDeletionMs, nextLinkJobMs, nextReplacementMs, nextRuleJobMs } from "../../../../src/store/state/due.ts";

const [ANN, BOB] = ["ann@example.com", "bob@example.com"];
const PAGES = ["home", "pricing"] as const;
const NOW = Date.now();
const TODAY = Math.floor(NOW / DAY_MS) * DAY_MS - DAY_MS;
const MOST_STEPS = 200;

type Page = (typeof PAGES)[number];
interface Rule {
  event: "E" | "E*" | "*F";
  pages: readonly Page[];
  isForAnn: boolean;
  frequency: RuleFrequency;
  points: number;
  pointsLastDays: PointsLastDays | null;
}

/** A store, the workspace's only rule, and the sent signals. */
class World {
  readonly store: TestStore;
  readonly sent = new Map<string, { event: string; page: Page }>();
  hasDropped = false;
  isEnabled = true;
  rule: Rule = {
    event: "E*",
    pages: PAGES,
    isForAnn: false,
    frequency: "once_per_day",
    points: 5,
    pointsLastDays: null,
  };
  #ids = 0;
  #keptDays = 100;

  constructor(store: TestStore) {
    this.store = store;
    this.change({});
  }

  get mappingRule(): MappingRule {
    const { event, pages, isForAnn, frequency, points, pointsLastDays } = this.rule;
    const conditions = [
      { path: "properties.page", operator: "in" as const, value: [...pages] },
      ...(isForAnn ? [{ path: "email", operator: "equals" as const, value: ANN }] : []),
    ];
    const version = this.store.rulesVersion ?? 1;
    const score = { scoringSignal: "s", points, pointsLastDays };
    return { id: "rule_1", version, event, match: "all", conditions, frequency, ...score };
  }

  /** Whether the rule matches a signal of a person. */
  matches(signalId: string, email: string): boolean {
    const sent = this.sent.get(signalId);
    if (sent === undefined) return false;
    const { event, page } = sent;
    const isAbout = this.rule.event === "E*" || (this.rule.event === "E" ? event === "E" : event === "EF");
    return isAbout && this.rule.pages.includes(page) && (!this.rule.isForAnn || email === ANN);
  }

  change(rule: Partial<Rule> | { isEnabled: boolean }): void {
    this.store.rulesVersion = (this.store.rulesVersion ?? 0) + 1;
    if ("isEnabled" in rule) this.isEnabled = rule.isEnabled;
    else this.rule = { ...this.rule, ...rule };
    this.store.mappingRules = this.isEnabled ? [this.mappingRule] : [];
  }

  /** @param page null: an identify call. @param occurred days before the receipt. */
  record(ids: object, page: Page | null, daysAgo = 0, event = "E", occurred = 0): void {
    const number = ++this.#ids;
    const type = page === null ? { type: "identify" } : { type: "track", event, properties: { page } };
    const receivedAtMs = TODAY - daysAgo * DAY_MS + number;
    const timestamp = receivedAtMs - occurred * DAY_MS;
    const payload = { ...type, messageId: `m-${number}`, timestamp, ...ids };
    const [id = ""] = this.store.record(Date.now(), { payload, receivedAtMs });
    if (page !== null) this.sent.set(id, { event, page });
  }

  apply(): void {
    const { state, rulesVersion } = this.store;
    const version = rulesVersion ?? 1;
    const toApply = this.isEnabled ? { rule: this.mappingRule } : { rule: null, disabledVersion: version };
    startRuleJob(state, { ruleId: "rule_1", rulesVersion: version, ...toApply }, Date.now());
    state.signals.flush();
  }

  drop(daysAgo: number): void {
    this.hasDropped = true;
    const kept = ++this.#keptDays;
    const nowMs = TODAY + (1 - daysAgo + kept) * DAY_MS;
    setRetention(this.store.state, { retentionDays: kept }, nowMs);
    deleteExpired(this.store.state, nowMs);
  }

  /** Lets days pass. @param isVisited whether the alarm then visits the people whose points lapse. */
  pass(days: number, isVisited: boolean): void {
    vi.setSystemTime(Date.now() + days * DAY_MS);
    if (!isVisited) return;
    while (areLapsesDue(this.store.state)) stepLapses(this.store.state, Date.now());
  }

  async step(): Promise<void> {
    await stepRuleJob(this.store.state, this.store.storage, 1);
  }

  /** Runs all jobs to their ends. */
  async finish(): Promise<void> {
    const { store } = this;
    const isBusy = (): boolean =>
      nextRuleJobMs(store.sql) !== null || nextLinkJobMs(store.sql) !== null || nextReplacementMs(store.sql) !== null;
    const deletes = (): boolean => (nextDeletionMs(store.state) ?? Number.POSITIVE_INFINITY) <= Date.now();
    for (let steps = 0; isBusy() || deletes(); steps++) {
      expect(steps, "jobs that do not end").toBeLessThan(MOST_STEPS);
      /* oxlint-disable no-await-in-loop -- each step continues the step before */
      if (deletes()) stepDeletions(store.state, Date.now());
      await store.link();
      // A link job that met a deletion waits a minute.
      if (!deletes()) store.sql.exec("UPDATE link_jobs SET due_at = min(due_at, ?)", Date.now());
      await this.step();
      store.replaceAll();
      /* oxlint-enable no-await-in-loop */
    }
    this.pass(0, true);
    updateGroups(store.state);
    expectStateToAddUp(store.state, { hasDropped: this.hasDropped });
  }

  /** The scores of the rule over all stored signals, with the scores that dropped signals keep. */
  expected(): Record<string, number> {
    const { state, sql } = this.store;
    const people = sql.exec<{ id: number; email: string; recent: string }>("SELECT id, email, recent FROM people");
    return Object.fromEntries(
      [...people].map(({ id, email, recent }) => {
        const occasionOf = (signalId: string, occurredMs: number): string => {
          const { frequency } = this.rule;
          return frequency === "every_time" ? signalId : frequency === "once_ever" ? "ever" : String(dayOf(occurredMs));
        };
        // Retention may have run at a later time than now. Points that had lapsed by then stay gone.
        const today = todayOf(state);
        const counts = (day: number, lastDays: number | null | undefined): boolean => today <= day + (lastDays ?? 1e9);
        /** The first day of each occasion. */
        const occasions = new Map<string, number>();
        const note = (occasion: string, ms: number): void => {
          occasions.set(occasion, Math.min(dayOf(ms), occasions.get(occasion) ?? Infinity));
        };
        for (const { facts } of linesOf(state.signals)) {
          const { person, kind, admission, occurred } = facts;
          const isTheirs = person?.personId === id && kind === "signal";
          if (isTheirs && this.matches(admission.id, email)) note(occasionOf(admission.id, occurred.ms), occurred.ms);
        }
        const taken = new Set<string>();
        let score = 0;
        for (const { scored } of ascendingEntries(sql, personList(id), readEntries(recent))) {
          if (scored === null || state.signals.find(scored.signalId) !== null) continue;
          for (const outcome of scored.outcomes) {
            const match = state.outcomes.get(outcome);
            const current = Math.max(...state.outcomes.takersOf("rule_1").map(({ ruleVersion }) => ruleVersion));
            if (occasions.has("ever") && match.ruleVersion === current) note("ever", scored.occurredMs);
            if (!state.singleScores.counts(id, scored, match)) continue;
            if (counts(state.singleScores.fromDay(id, scored, match), match.lastDays)) score += match.points;
            if (match.frequency !== undefined) taken.add("ever").add(String(dayOf(scored.occurredMs)));
          }
        }
        const { pointsLastDays } = this.rule;
        const open = [...occasions].filter(([occasion, day]) => !taken.has(occasion) && counts(day, pointsLastDays));
        return [email.split("@")[0], score + open.length * this.rule.points];
      }),
    );
  }
}

type Act = (world: World) => unknown;

const ids = fc.constantFrom<object>(
  { email: ANN },
  { email: BOB },
  { anonymousId: "a-1" },
  { anonymousId: "a-1", userId: "u-1" },
  { userId: "u-1" },
);
const identified = fc.constantFrom<object>(
  { anonymousId: "a-1", traits: { email: ANN } },
  { anonymousId: "a-1", traits: { email: BOB } },
  { userId: "u-1", traits: { email: BOB } },
  { userId: "u-1", traits: { email: BOB, company: { id: "acme" } } },
  { anonymousId: "a-1", traits: { company: { id: "globex" } } },
  { anonymousId: "a-1", type: "group", groupId: "initech" },
);
const track = fc.record({
  who: ids,
  page: fc.constantFrom(...PAGES),
  daysAgo: fc.nat(2),
  event: fc.constantFrom("E", "EF"),
  occurred: fc.constantFrom(0, 0, 1, 29, 31, 200),
});
const rule = fc.record({
  event: fc.constantFrom("E" as const, "E*", "*F"),
  pages: fc.subarray([...PAGES], { minLength: 1 }),
  isForAnn: fc.boolean(),
  frequency: fc.constantFrom(...RULE_FREQUENCIES),
  points: fc.integer({ min: -5, max: 9 }),
  pointsLastDays: fc.constantFrom(null, null, ...POINTS_LAST_DAYS),
});
const days = fc.record({ days: fc.constantFrom(1, 2, 30, 60, 400), isVisited: fc.boolean() });
const crash = fc.record({ writes: fc.nat(20), isRestarted: fc.boolean() });
/** @param name of the act, which a failing history prints. */
const actOf = <T>(name: string, weight: number, value: fc.Arbitrary<T>, act: (world: World, value: T) => unknown) => ({
  weight,
  arbitrary: value.map((drawn): Act => {
    const text = `${name} ${JSON.stringify(drawn)}`;
    return Object.assign((world: World) => act(world, drawn), { [fc.toStringMethod]: () => text });
  }),
});
const anyAct: fc.Arbitrary<Act> = fc.oneof(
  actOf("record", 8, track, (world, { who, page, daysAgo, event, occurred }) =>
    world.record(who, page, daysAgo, event, occurred),
  ),
  actOf("identify", 3, identified, (world, who) => world.record(who, null)),
  actOf("change rule", 2, rule, (world, changed) => world.change(changed)),
  actOf("enable", 1, fc.boolean(), (world, isEnabled) => world.change({ isEnabled })),
  actOf("pass", 2, days, (world, passing) => world.pass(passing.days, passing.isVisited)),
  actOf("apply", 2, fc.constant(null), (world) => world.apply()),
  actOf("step", 3, fc.constant(null), (world) => world.step()),
  actOf("crash", 2, crash, async (world, { writes, isRestarted }) => {
    await world.store.crashAfter(writes, () => world.step());
    if (isRestarted) world.store.restart();
  }),
  actOf("link", 2, fc.constant(null), (world) => world.store.link()),
  actOf("seal", 2, fc.constant(null), (world) => world.store.seal()),
  actOf("delete", 1, fc.constantFrom(ANN, BOB), (world, email) => world.store.beginDeletion(email, Date.now())),
  actOf("drop", 1, fc.integer({ min: 1, max: 2 }), (world, daysAgo) => world.drop(daysAgo)),
);

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: NOW }));
afterEach(() => void vi.useRealTimers());

const withWorld = (act: (world: World) => Promise<void>) => () => inStore((store) => act(new World(store)));

describe("a rule applied to the past", () => {
  test("scores by its current content, and scores nothing when it is disabled, after any history", async () => {
    await assertForSoLong(
      fc.asyncProperty(fc.array(anyAct, { maxLength: 40, size: "max" }), (acts) =>
        inStore(async (store) => {
          vi.setSystemTime(NOW);
          const world = new World(store);
          // oxlint-disable-next-line no-await-in-loop -- a history
          for (const act of acts) await act(world);
          await world.finish();
          world.apply();
          await world.finish();
          const nothing = Object.fromEntries(Object.keys(store.scores).map((name) => [name, 0]));
          expect(store.scores).toEqual(world.isEnabled ? world.expected() : nothing);
          world.change({ isEnabled: false });
          world.apply();
          await world.finish();
          expect(store.scores).toEqual(nothing);
          expect(store.sql.exec("SELECT * FROM single_scores").toArray()).toEqual([]);
          expect([...ruleDaysOf(store.state)]).toEqual([]);
          const scored = linesOf(store.state.signals).filter(
            ({ facts }) => facts.person !== null && facts.outcomes.length > 0,
          );
          expect(scored).toEqual([]);
        }),
      ),
      { numRuns: 2_000, limitMs: 40_000 },
    );
  });

  test(
    "replaces a removed match by the first recorded one, until it is applied by one of its own version",
    withWorld(async (world) => {
      world.change({ frequency: "once_ever" });
      world.record({ anonymousId: "a-1", traits: { email: ANN } }, null);
      world.record({ anonymousId: "a-1", userId: "u-1" }, "pricing");
      world.record({ email: ANN }, "home");
      world.change({ points: 7, pages: ["pricing"] });
      expect(world.store.scores).toEqual({ ann: 5 });
      world.record({ email: ANN }, "pricing");
      world.record({ userId: "u-1", traits: { email: BOB } }, null);
      await world.finish();
      // Ann's signal on the home page has matched the earlier version of the rule.
      expect(world.store.scores).toEqual({ ann: 5, bob: 7 });
      world.apply();
      await world.finish();
      expect(world.store.scores).toEqual({ ann: 7, bob: 7 });
    }),
  );
});
