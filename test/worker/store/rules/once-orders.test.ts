/** Rules that score once: after any history, applying the rule gives its own scores. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { DAY_MS } from "../../../../src/domain/duration.ts";
import { dayOf } from "../../../../src/domain/quota/day-counts.ts";
import { evaluate } from "../../../../src/domain/rules/evaluate-rules.ts";
import {
  compileRules,
  type MappingRule,
  RULE_FREQUENCIES,
  type RuleFrequency,
} from "../../../../src/domain/rules/mapping-rule.ts";
import { normalise } from "../../../../src/domain/signal/normalise.ts";
import {
  beginDeletion,
  handedOver,
  nextDeletionMs,
  stepDeletions,
} from "../../../../src/store/deletion/person-deletions.ts";
import { deleteExpired, setRetention } from "../../../../src/store/deletion/retention.ts";
import { hasRecounts, stepRecounts } from "../../../../src/store/people/recount.ts";
import { nextLinkJobMs } from "../../../../src/store/people/linking.ts";
import { stepLinkJobs } from "../../../../src/store/people/linking.ts";
import { readEntries, ascendingEntries } from "../../../../src/store/people/timelines.ts";
import { personList } from "../../../../src/store/people/visitors.ts";
import { hasRuleJobs, startRuleJob } from "../../../../src/store/rules/rule-jobs.ts";
import { stepRuleJob } from "../../../../src/store/rules/rule-jobs.ts";
import { recordSignals } from "../../../../src/store/record-signals.ts";
import { updateGroups } from "../../../../src/store/state/status-change.ts";
import { expectStateToAddUp, linesOf, ruleDaysOf } from "../../../support/adds-up.ts";
import { assertForSoLong } from "../../../support/for-so-long.ts";
import { inStore } from "../../../support/store.ts";
import type { Sent, TestStore } from "../../../support/store.ts";

const [ANN, BOB] = ["ann@example.com", "bob@example.com"];
const PAGES = ["home", "pricing"] as const;
const TODAY = Math.floor(Date.now() / DAY_MS) * DAY_MS - DAY_MS;
const MOST_STEPS = 200;

type Page = (typeof PAGES)[number];
interface Rule {
  pages: readonly Page[];
  frequency: RuleFrequency;
  points: number;
}

/** A store, the workspace's only rule, and the sent signals. */
class World {
  readonly store: TestStore;
  readonly pages = new Map<string, Page>();
  hasDropped = false;
  isEnabled = true;
  rule: Rule = { pages: PAGES, frequency: "once_per_day", points: 5 };
  #version = 1;
  #sent = 0;
  #keptDays = 100;

  constructor(store: TestStore) {
    this.store = store;
  }

  get rules() {
    return { version: this.#version, rules: compileRules(this.isEnabled ? [this.mappingRule] : []) };
  }

  get mappingRule(): MappingRule {
    const { pages, frequency, points } = this.rule;
    const condition = { path: "properties.page", operator: "in" as const, value: [...pages] };
    const written = {
      id: "rule_1",
      version: this.#version,
      event: "E",
      match: "all" as const,
      conditions: [condition],
    };
    return { ...written, scoringSignal: "s", points, frequency };
  }

  record(ids: object, page: Page | null, daysAgo = 0): void {
    const number = ++this.#sent;
    const type = page === null ? { type: "identify" } : { type: "track", event: "E", properties: { page } };
    const payload = { ...type, messageId: `m-${number}`, ...ids };
    const sent: Sent = { payload, receivedAtMs: TODAY - daysAgo * DAY_MS + number };
    const signal = this.store.signal(Date.now(), sent);
    const { work } = signal;
    if (work.kind === "signal") {
      work.evaluation = evaluate(this.rules.rules, normalise(payload, undefined));
      this.pages.set(signal.admission.id, page ?? "home");
    }
    recordSignals(this.store.state, [signal], Date.now(), this.#version);
  }

  change(rule: Partial<Rule> | { isEnabled: boolean }): void {
    this.#version++;
    if ("isEnabled" in rule) this.isEnabled = rule.isEnabled;
    else this.rule = { ...this.rule, ...rule };
  }

  apply(): void {
    const toApply = this.isEnabled ? { rule: this.mappingRule } : { rule: null, disabledVersion: this.#version };
    startRuleJob(this.store.state, { ruleId: "rule_1", rulesVersion: this.#version, ...toApply }, Date.now());
    this.store.state.signals.flush();
  }

  drop(daysAgo: number): void {
    this.hasDropped = true;
    const kept = ++this.#keptDays;
    const nowMs = TODAY + (1 - daysAgo + kept) * DAY_MS;
    setRetention(this.store.sql, { retentionDays: kept }, nowMs);
    deleteExpired(this.store.state, nowMs);
  }

  delete(email: string): void {
    const id = `del_${++this.#sent}`;
    beginDeletion(this.store.state, id, email, Date.now());
    handedOver(this.store.state, id, Date.now());
  }

  async step(): Promise<void> {
    await stepRuleJob(this.store.state, this.store.objects, this.store.storage, 1);
  }

  async link(): Promise<void> {
    const { state, storage, objects } = this.store;
    await stepLinkJobs({ state, storage, objects, rules: async () => this.rules });
  }

  /** Runs all jobs to their ends. */
  async finish(): Promise<void> {
    const { state, sql } = this.store;
    const isBusy = (): boolean => hasRuleJobs(sql) || hasRecounts(sql) || nextLinkJobMs(sql) !== null;
    const deletes = (): boolean => (nextDeletionMs(state, Date.now()) ?? Number.POSITIVE_INFINITY) <= Date.now();
    for (let steps = 0; isBusy() || deletes(); steps++) {
      expect(steps, "jobs that do not end").toBeLessThan(MOST_STEPS);
      /* oxlint-disable no-await-in-loop -- each step is what the one before it left */
      if (deletes()) stepDeletions(state, Date.now());
      await this.link();
      await this.step();
      if (hasRecounts(sql)) stepRecounts(state);
      /* oxlint-enable no-await-in-loop */
    }
  }

  expectToAddUp(): void {
    updateGroups(this.store.state);
    expectStateToAddUp(this.store.state, { hasDropped: this.hasDropped });
  }

  scores(): Record<string, number> {
    const people = this.store.sql.exec<{ email: string; score: number }>("SELECT email, score FROM people");
    return Object.fromEntries([...people].map(({ email, score }) => [email, score]));
  }

  /** The expected scores of the rule applied to all stored signals, and the scores of dropped signals. */
  expected(): Record<string, number> {
    const { state, sql } = this.store;
    const people = sql.exec<{ id: number; email: string; recent: string }>("SELECT id, email, recent FROM people");
    return Object.fromEntries(
      [...people].map(({ id, email, recent }) => {
        const lines = linesOf(state.signals as never).filter(({ facts }) => facts.owner?.personId === id);
        const live = lines.filter(({ facts }) =>
          this.rule.pages.includes(this.pages.get(facts.admission.id) ?? "home"),
        );
        const occasions = live.flatMap(({ facts: { admission, kind } }) => {
          if (kind !== "signal") return [];
          const { frequency } = this.rule;
          if (frequency === "every_time") return [admission.id];
          return [frequency === "once_ever" ? "ever" : String(dayOf(admission.receivedAtMs))];
        });
        const taken = new Set<string>();
        let score = 0;
        for (const { scored } of ascendingEntries(sql, personList(id), readEntries(recent))) {
          if (scored === null || state.signals.find(scored.signalId) !== null) continue;
          const matches = scored.outcomes.map((verdict) => state.outcomes.get(verdict));
          const counted = matches.filter((match) => state.once.counts(id, scored, match));
          for (const { points, frequency } of counted) {
            score += points;
            if (frequency !== undefined) taken.add("ever").add(String(dayOf(scored.atMs)));
          }
        }
        const open = new Set(occasions.filter((occasion) => !taken.has(occasion)));
        return [email, score + open.size * this.rule.points];
      }),
    );
  }
}

type Act = (world: World) => void | Promise<void>;

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
);
const anyAct: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({ who: ids, page: fc.constantFrom(...PAGES), daysAgo: fc.nat(2) }).map(
      ({ who, page, daysAgo }): Act =>
        (world) =>
          world.record(who, page, daysAgo),
    ),
  },
  {
    weight: 3,
    arbitrary: identified.map(
      (who): Act =>
        (world) =>
          world.record(who, null),
    ),
  },
  {
    weight: 2,
    arbitrary: fc
      .record({
        pages: fc.subarray([...PAGES], { minLength: 1 }),
        frequency: fc.constantFrom(...RULE_FREQUENCIES),
        points: fc.integer({ min: 1, max: 9 }),
      })
      .map(
        (rule): Act =>
          (world) =>
            world.change(rule),
      ),
  },
  {
    weight: 1,
    arbitrary: fc.boolean().map(
      (isEnabled): Act =>
        (world) =>
          world.change({ isEnabled }),
    ),
  },
  { weight: 2, arbitrary: fc.constant<Act>((world) => world.apply()) },
  { weight: 3, arbitrary: fc.constant<Act>((world) => world.step()) },
  { weight: 2, arbitrary: fc.constant<Act>((world) => world.link()) },
  { weight: 2, arbitrary: fc.constant<Act>((world) => world.store.seal()) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(ANN, BOB).map(
      (email): Act =>
        (world) =>
          world.delete(email),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.integer({ min: 1, max: 2 }).map(
      (daysAgo): Act =>
        (world) =>
          world.drop(daysAgo),
    ),
  },
);

test("a rule applied to the past scores by its current content, and a disabled rule scores nothing, after any history", async () => {
  await assertForSoLong(
    fc.asyncProperty(fc.array(anyAct, { maxLength: 40, size: "max" }), (acts) =>
      inStore(async (store) => {
        const world = new World(store);
        // oxlint-disable-next-line no-await-in-loop -- a history
        for (const play of acts) await play(world);
        await world.finish();
        world.expectToAddUp();
        world.apply();
        await world.finish();
        world.expectToAddUp();
        const left = world.isEnabled
          ? world.expected()
          : Object.fromEntries(Object.keys(world.scores()).map((email) => [email, 0]));
        expect(world.scores()).toEqual(left);
        world.change({ isEnabled: false });
        world.apply();
        await world.finish();
        world.expectToAddUp();
        expect(Object.values(world.scores()).filter((score) => score !== 0)).toEqual([]);
        expect(store.sql.exec("SELECT * FROM once").toArray()).toEqual([]);
        expect([...ruleDaysOf(store.state)]).toEqual([]);
        expect(
          linesOf(store.state.signals as never).filter(
            ({ facts }) => facts.owner !== null && facts.outcomes.length > 0,
          ),
        ).toEqual([]);
      }),
    ),
    { numRuns: 2_000, limitMs: 40_000 },
  );
});

const withWorld = (act_: (world: World) => Promise<void>) => () => inStore((store) => act_(new World(store)));

test(
  "only the rule's current version scores in place of a signal that goes, until the rule is applied to the past",
  withWorld(async (world) => {
    world.rule = { pages: PAGES, frequency: "once_ever", points: 5 };
    world.record({ anonymousId: "a-1", traits: { email: ANN } }, null);
    world.record({ anonymousId: "a-1", userId: "u-1" }, "pricing");
    world.record({ email: ANN }, "home");
    world.change({ points: 7, pages: ["pricing"] });
    expect(world.scores()).toEqual({ [ANN]: 5 });
    world.record({ email: ANN }, "pricing");
    world.record({ userId: "u-1", traits: { email: BOB } }, null);
    await world.finish();
    // Of Ann's signals the one on the home page scored by the earlier version of the rule.
    expect(world.scores()).toEqual({ [ANN]: 7, [BOB]: 7 });
    world.expectToAddUp();
  }),
);

test(
  "points of a rule that was disabled and removed do not return when signals are removed or added later",
  withWorld(async (world) => {
    world.rule = { pages: PAGES, frequency: "once_ever", points: 5 };
    world.record({ anonymousId: "a-1", traits: { email: ANN } }, null);
    world.record({ anonymousId: "a-1", userId: "u-1" }, "pricing");
    for (let n = 0; n < 3; n++) {
      world.record({ email: ANN }, "home");
      world.store.seal();
    }
    world.change({ isEnabled: false });
    world.apply();
    await world.step();
    world.record({ userId: "u-1", traits: { email: BOB } }, null);
    await world.finish();
    expect(world.scores()).toEqual({ [ANN]: 0, [BOB]: 0 });
    world.change({ isEnabled: true });
    world.record({ email: ANN }, "home");
    expect(world.scores()).toEqual({ [ANN]: 5, [BOB]: 0 });
    world.expectToAddUp();
    const outcomes = readEntries(
      world.store.sql.exec<{ recent: string }>("SELECT recent FROM people WHERE email = ?", ANN).one().recent,
    ).flatMap(({ scored }) => scored?.outcomes ?? []);
    expect(outcomes.map((id) => world.store.state.outcomes.get(id).ruleVersion)).toEqual([3]);
  }),
);
