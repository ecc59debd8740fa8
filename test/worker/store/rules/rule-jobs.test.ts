/** Design §8.5: a rule is applied to the past step by step, wherever lines and payloads are (src/store/rules). */
import { describe, expect, test, vi } from "vitest";
import type { MappingRule } from "../../../../src/domain/rules/mapping-rule.ts";
import { COLD_RETRY_MS } from "../../../../src/limits.ts";
import { COLD_AFTER_MS } from "../../../../src/store/log/cold.ts";
import type { RuleJob, RuleToApply } from "../../../../src/store/protocol/store-operations.ts";
import { findRuleJob, ruleResults, startRuleJob, stepRuleJob } from "../../../../src/store/rules/rule-jobs.ts";
import { isStale } from "../../../../src/store/state/rule-outcomes.ts";
import { countInBooks, updateGroups } from "../../../../src/store/state/status-change.ts";
import { expectStateToAddUp } from "../../../support/adds-up.ts";
import { bucketWith, losePayloads } from "../../../support/cold.ts";
import { expectLogged } from "../../../support/logged.ts";
import { readScores } from "../../../support/read-store.ts";
import { inStore, type TestStore } from "../../../support/store.ts";
import { previewPart } from "../../../../src/store/queries/rule-preview.ts";
import { testStored, dropLines, openState } from "../../../support/log.ts";
import { nextRuleJobMs } from "../../../../src/store/state/due.ts";
import { STEPS } from "../../../../src/store/steps.ts";

const NOW = Date.now();
const RULE: MappingRule = {
  id: "rule_1",
  version: 1,
  event: "Form",
  match: "all",
  conditions: [],
  scoringSignal: "form",
  points: 3,
};
const DEMO = [{ path: "properties.form", operator: "equals" as const, value: "demo" }];
/** Matches always, so that lines have further outcomes. */
const OTHER: MappingRule = { ...RULE, id: "rule_other", event: "*", scoringSignal: "any", points: 100 };

interface Form {
  event?: string;
  who?: string | null;
  form?: string;
  text?: string;
}

/** A store without its alarm, so that only the test causes changes. */
class Bench {
  readonly store: TestStore;
  sent = 0;
  isR2Down = false;
  reads = 0;

  constructor(store: TestStore) {
    this.store = store;
    const before = (call: string): void => {
      if (call !== "get") return;
      this.reads++;
      if (this.isR2Down) throw new Error("R2 is down");
    };
    store.state = openState(store.storage, store.workspaceId, bucketWith({ before }));
  }

  /** Records signals as the consumer does with these rules. */
  record(forms: readonly Form[], rules: readonly MappingRule[] = []): void {
    this.store.mappingRules = rules;
    for (const { event = "Form", who = "ann", form = "demo", text } of forms) {
      const ids = who === null ? {} : who.startsWith("v-") ? { anonymousId: who } : { email: `${who}@example.com` };
      const payload = { event, ...ids, id: `id-${++this.sent}`, properties: { form, text } };
      this.store.record(Date.now(), { payload, receivedAtMs: NOW + this.sent, periodStartMs: 1 });
    }
  }

  /** Identifies a visitor as Ann, who gets the visitor's signals by these rules. */
  async link(anonymousId: string, rules: readonly MappingRule[]): Promise<void> {
    const payload = { type: "identify", anonymousId, traits: { email: "ann@example.com" } };
    this.store.mappingRules = rules;
    this.store.record(Date.now(), { payload, receivedAtMs: NOW + ++this.sent, periodStartMs: 1 });
    await this.store.linkAll({ ...this.store.rules, version: 9 });
  }

  /** Moves all sealed segments to R2. */
  async freeze(): Promise<void> {
    await this.store.state.signals.work(Date.now() + COLD_AFTER_MS + 1);
  }

  apply(change: Partial<RuleToApply> = {}): RuleJob {
    const toApply = { ruleId: RULE.id, rule: RULE, rulesVersion: 1, ...change };
    updateGroups(this.store.state);
    startRuleJob(this.store.state, toApply, Date.now());
    this.store.state.signals.flush();
    return this.job(toApply.ruleId);
  }

  job(ruleId = RULE.id): RuleJob {
    const job = findRuleJob(this.store.sql, ruleId);
    if (job === null) throw new Error("there is no such job");
    return job;
  }

  step(limit?: number): Promise<boolean> {
    return stepRuleJob(this.store.state, this.store.storage, limit);
  }

  /** Returns the finished job. */
  async finish(limit?: number): Promise<RuleJob> {
    while (await this.step(limit));
    return this.job();
  }

  /** Returns whether the step crashed. */
  crashingStep(writes: number): Promise<boolean> {
    return this.store.crashAfter(writes, () => this.step(1));
  }

  /** Drops segments as retention does. */
  drop(from: number, to: number): void {
    const { signals, head } = this.store.state;
    for (const { firstSeq, lastSeq, seqs } of [...signals.walk({ after: 0 })].slice(from, to)) {
      countInBooks(head.dropped, 1, "processed", seqs.length);
      dropLines(this.store.state, (seq) => seq >= firstSeq && seq <= lastSeq);
    }
  }

  /** Points of all scoring signals, in received order. */
  get points(): number[] {
    this.store.restart();
    expectStateToAddUp(this.store.state, { hasDropped: true });
    const { scoring } = readScores(this.store.sql);
    return scoring.sort((a, b) => a.at - b.at).map(({ points }) => points);
  }

  /** The number of rewrites of each segment. */
  get versions(): number[] {
    return [...this.store.sql.exec("SELECT version FROM signals_facts ORDER BY first_seq").raw<[number]>()].flat();
  }
}

const withBench = (act: (bench: Bench) => void | Promise<void>) => () => inStore((store) => act(new Bench(store)));
const forms = (count: number, form: Form = {}): Form[] => Array.from({ length: count }, () => form);

/** Lets time pass, so that later links and requests have a later time. */
async function aMoment(): Promise<void> {
  const then = Date.now();
  await vi.waitUntil(() => Date.now() > then, { interval: 1 });
}

describe("a rule's job", () => {
  testStored(
    "keeps what the rule has matched in a payload that is lost, with the points of its new version, and finds nothing new there",
    withBench(async (bench) => {
      bench.record(forms(2), [RULE]);
      bench.record([{ form: "other" }]);
      bench.store.seal();
      await bench.freeze();
      await losePayloads(bench.store);
      const applied = { rule: { ...RULE, version: 2, conditions: DEMO, points: 5 }, rulesVersion: 2 };
      bench.apply(applied);
      expect(await bench.finish()).toMatchObject({ scanned: 3, matched: 2, added: 0, changed: 2, removed: 0 });
      expect(bench.points).toEqual([5, 5]);
      bench.apply({ ruleId: OTHER.id, rule: OTHER, rulesVersion: 3 });
      await bench.finish();
      expect(bench.job(OTHER.id)).toMatchObject({ matched: 0, added: 0 });
      bench.apply({ rule: null, disabledVersion: 3, rulesVersion: 4 });
      await bench.finish();
      expect(bench.points).toEqual([]);
    }),
  );

  testStored(
    "processes open, sealed and cold segments in bounded steps, and reads an object of R2 once a step",
    withBench(async (bench) => {
      for (let segment = 0; segment < 4; segment++) {
        bench.record([...forms(3), { event: "Other" }, { who: null }, { who: "v-1" }, { form: "no" }], [OTHER]);
        bench.store.seal();
        if (segment === 1) await bench.freeze();
      }
      bench.record(forms(2, { who: "bob" }), [OTHER]);
      const rule = { ...RULE, conditions: DEMO };
      expect(bench.apply({ rule })).toMatchObject({ status: "queued", total: 26, scanned: 0 });
      expect(await bench.step(5)).toBe(true);
      expect(bench.job()).toMatchObject({ status: "running", scanned: 12, matched: 6, added: 6, finishedAtMs: null });
      expect(await bench.finish(5)).toMatchObject({ status: "done", scanned: 26, matched: 14, added: 14, removed: 0 });
      expect(bench.reads).toBe(1);
      expect(bench.points.filter((points) => points === 3)).toHaveLength(14);
      expect(ruleResults(bench.store.state, [RULE.id, "rule_none"])).toMatchObject([
        { hasScoringSignals: true, job: { status: "done" } },
        { hasScoringSignals: false, job: null, days: "" },
      ]);
    }),
  );

  testStored(
    "rewrites each segment at most once, and only where an outcome changes",
    withBench(async (bench) => {
      for (let segment = 0; segment < 3; segment++) {
        bench.record([...forms(3), { form: "no" }]);
        bench.store.seal();
      }
      bench.record([{ event: "Other" }]);
      bench.apply();
      await bench.finish();
      bench.apply();
      expect(await bench.finish()).toMatchObject({ matched: 12, added: 0, changed: 0, removed: 0 });
      expect(bench.versions).toEqual([1, 1, 1]);
      bench.apply({ rule: { ...RULE, version: 2, points: 5, conditions: DEMO } });
      expect(await bench.finish()).toMatchObject({ matched: 9, changed: 9, removed: 3 });
      expect(bench.versions).toEqual([2, 2, 2]);
      expect(new Set(bench.points)).toEqual(new Set([5]));
    }),
  );

  testStored(
    "waits while R2 does not answer, and lets the jobs of other rules run",
    withBench(async (bench) => {
      expectLogged("cold_read_failed");
      bench.record(forms(3));
      bench.store.seal();
      bench.record(forms(3));
      bench.store.seal();
      await bench.freeze();
      bench.record(forms(3, { event: "Other" }), [OTHER]);
      bench.isR2Down = true;
      bench.apply();
      expect(await bench.step()).toBe(false);
      const waiting = bench.job();
      expect(waiting).toMatchObject({ status: "running", scanned: 0, added: 0 });
      expect(nextRuleJobMs(bench.store.sql)).toBeGreaterThan(Date.now() + COLD_RETRY_MS / 2);
      expect([await bench.step(), bench.reads]).toEqual([false, 1]);

      bench.apply({ ruleId: OTHER.id, rule: null });
      await bench.finish();
      expect(bench.job(OTHER.id)).toMatchObject({ status: "done", removed: 3 });
      expect(bench.job()).toEqual(waiting);

      bench.isR2Down = false;
      bench.store.sql.exec("UPDATE rule_jobs SET due_at = 1");
      expect(await bench.finish()).toMatchObject({ status: "done", scanned: 6, added: 6 });
      expect(bench.points).toEqual([3, 3, 3, 3, 3, 3]);
    }),
  );

  test(
    "repeats and loses nothing if a step crashes, also within a step",
    withBench(async (bench) => {
      for (let segment = 0; segment < 4; segment++) {
        bench.record([...forms(2), ...forms(2, { who: `p${segment}` })], [OTHER]);
        bench.store.seal();
      }
      bench.apply();
      let crashes = 0;
      for (let writes = 0; nextRuleJobMs(bench.store.sql) !== null; writes++) {
        const before = bench.job();
        const isCrashed = await bench.crashingStep(writes);
        crashes += Number(isCrashed);
        if (isCrashed) expect(bench.job()).toEqual(before);
        else writes = 0;
        // The memory of the object goes on after every third crash.
        if (writes % 3 === 0) void bench.points;
        else expectStateToAddUp(bench.store.state);
      }
      expect(crashes).toBeGreaterThan(12);
      expect(bench.job()).toMatchObject({ status: "done", scanned: 16, matched: 16, added: 16 });
      expect(bench.points.filter((points) => points === 3)).toHaveLength(16);
    }),
  );

  test(
    "starts again when it is requested during a step, and ignores requests with older rules",
    withBench(async (bench) => {
      bench.record(forms(2));
      bench.store.seal();
      await bench.freeze();
      bench.record(forms(2));
      bench.apply({ rulesVersion: 4 });
      expect(bench.apply({ rulesVersion: 3, rule: { ...RULE, version: 9 } })).toMatchObject({ ruleVersion: 1 });
      expect([isStale(bench.store.sql, 3), isStale(bench.store.sql, 4)]).toEqual([true, false]);
      const step = bench.step();
      bench.apply({ rulesVersion: 4, rule: { ...RULE, version: 2, points: 8 } });
      expect(await step).toBe(true);
      expect(bench.job()).toMatchObject({ status: "queued", ruleVersion: 2, scanned: 0 });
      expect(await bench.finish()).toMatchObject({ status: "done", scanned: 4, added: 4 });
      expect(bench.points).toEqual([8, 8, 8, 8]);
    }),
  );

  testStored(
    "processes signals of 64 KB in steps that fit into memory",
    withBench(async (bench) => {
      // Two fit into a segment.
      const count = 2 * STEPS.portions + 10;
      bench.record(forms(count, { text: "x".repeat(60_000) }));
      bench.apply();
      expect(await bench.step()).toBe(true);
      expect(bench.job().scanned).toBeLessThan(count);
      expect(await bench.finish()).toMatchObject({ scanned: count, added: count });
    }),
  );
});

describe("the removal of a rule's scores", () => {
  test(
    "keeps the scores since the rule was enabled again, also if it is requested late",
    withBench(async (bench) => {
      bench.record(forms(2), [RULE]);
      bench.store.seal();
      bench.record([...forms(2), { who: "v-1" }], [RULE, OTHER]);
      bench.store.seal();
      bench.apply({ rule: null, disabledVersion: 2 });
      expect(await bench.step(1)).toBe(true);
      expect(bench.job()).toMatchObject({ ruleVersion: null, removed: 2, total: 0 });
      await aMoment();
      const again = { ...RULE, version: 3, points: 9 };
      bench.record(forms(1), [again]);
      await bench.link("v-1", [again]);
      expect(await bench.finish()).toMatchObject({ status: "done", removed: 4 });
      expect(bench.points).toEqual([100, 100, 9, 9]);
      bench.apply({ rule: null, disabledVersion: 2 });
      await bench.finish();
      expect(bench.points).toEqual([100, 100, 9, 9]);
    }),
  );

  test(
    "needs no payload",
    withBench(async (bench) => {
      bench.record(forms(3), [RULE, OTHER]);
      bench.store.seal();
      await bench.freeze();
      bench.isR2Down = true;
      bench.apply({ rule: null, disabledVersion: RULE.version });
      await bench.finish();
      expect([bench.reads, bench.points]).toEqual([0, [100, 100, 100]]);
    }),
  );

  test(
    "includes dropped signals, in steps that may crash; an edited rule keeps their scores",
    withBench(async (bench) => {
      for (let segment = 0; segment < 20; segment++) {
        const scored = { who: `p${segment}` };
        bench.record([...forms(6), ...forms(6, { who: "bob" }), scored], [RULE, OTHER]);
        bench.store.seal();
      }
      expect(bench.store.sql.exec("SELECT count(*) AS rows FROM timelines").one()["rows"]).toBeGreaterThan(3);
      bench.drop(0, 15);
      bench.apply({ rule: { ...RULE, version: 2, points: 4 } });
      expect(await bench.finish()).toMatchObject({ changed: 65, removed: 0, added: 0 });
      expect(bench.points.filter((points) => points === 3)).toHaveLength(195);

      bench.apply({ rule: null, rulesVersion: 2 });
      let [steps, isMore] = [0, true];
      for (let before = 0; isMore; steps++) {
        await bench.crashingStep(3);
        void bench.points;
        isMore = await bench.step(1);
        // A row of a timeline is processed as a whole.
        expect(bench.job().removed - before).toBeLessThan(100);
        before = bench.job().removed;
      }
      expect(steps).toBeGreaterThan(5);
      expect(bench.job()).toMatchObject({ status: "done", removed: 260 });
      expect(bench.points).toEqual(Array.from({ length: 260 }, () => 100));
    }),
  );

  test(
    "keeps scores made after its request, also of signals that were dropped meanwhile",
    withBench(async (bench) => {
      bench.record(forms(2), [RULE]);
      bench.store.seal();
      bench.record([...forms(1), { who: "v-1" }], [RULE]);
      bench.drop(0, 1);
      bench.apply({ rule: null });
      await aMoment();
      await bench.link("v-1", [RULE]);
      await bench.step();
      expect(bench.points).toEqual([3, 3, 3]);
      bench.record(forms(1), [RULE]);
      bench.store.seal();
      bench.drop(1, 2);
      expect(await bench.finish()).toMatchObject({ status: "done", removed: 3 });
      expect(bench.points).toEqual([3, 3]);
    }),
  );
});

describe("a preview", () => {
  const preview = ({ store }: Bench, change: object = {}, rule = RULE) =>
    previewPart(store.shown, rule, {
      sinceMs: 0,
      beforeSeq: Number.MAX_SAFE_INTEGER,
      limit: 10,
      today: 0,
      ...change,
    });

  testStored(
    "of a rule's next version matches in lost payloads what the job matches there, and a new rule matches nothing",
    withBench(async (bench) => {
      // After all signals were received, and before they are recorded.
      const sinceMs = Date.now();
      bench.record(forms(2), [RULE, OTHER]);
      bench.record([{ form: "other" }], [OTHER]);
      bench.store.seal();
      await bench.freeze();
      await losePayloads(bench.store);
      const rule = { ...RULE, version: 2, points: 5, conditions: DEMO };
      const found = await preview(bench, {}, rule);
      expect(found).toMatchObject({ scanned: 3, matches: 2, complete: true, samples: [] });
      expect(await preview(bench, {}, { ...rule, id: "preview" })).toMatchObject({ scanned: 3, matches: 0 });
      expect(await preview(bench, { sinceMs }, rule)).toMatchObject({ scanned: 3, matches: 0 });
      bench.apply({ rule, rulesVersion: 2 });
      expect(await bench.finish()).toMatchObject({ matched: found.matches });
    }),
  );

  testStored(
    "ends where cold storage does not answer, and says so",
    withBench(async (bench) => {
      expectLogged("cold_read_failed");
      bench.record(forms(3));
      bench.store.seal();
      await bench.freeze();
      bench.record([...forms(2, { who: "bob" }), { event: "Other" }, { who: "v-1" }]);
      expect(await preview(bench)).toMatchObject({
        scanned: 6,
        matches: 5,
        people: [2, 1],
        next: null,
        complete: true,
      });
      const first = await preview(bench, { limit: 2 });
      expect(first).toMatchObject({ scanned: 2, matches: 1, complete: true, next: 5 });
      const second = await preview(bench, { limit: 2, beforeSeq: first.next });
      expect(second).toMatchObject({ scanned: 2, matches: 2, next: 3 });
      bench.isR2Down = true;
      expect(await preview(bench)).toMatchObject({ scanned: 3, matches: 2, people: [2], next: null, complete: false });
      expect(await preview(bench, { limit: 3 })).toMatchObject({ scanned: 3, complete: true, next: 4 });
    }),
  );

  test(
    "reads a bounded number of segments, and only the requested period",
    withBench(async (bench) => {
      bench.record(forms(3));
      bench.store.seal();
      for (let segment = 0; segment < STEPS.portions + 5; segment++) {
        bench.record([{ event: "Other" }]);
        bench.store.seal();
      }
      const rule = { ...RULE, event: "*orm" };
      const since = (sinceMs: number, change: object = {}) => preview(bench, { sinceMs, ...change }, rule);
      expect(await since(0)).toMatchObject({ scanned: 0, complete: true, next: 9 });
      expect(await since(0, { beforeSeq: 9 })).toMatchObject({ scanned: 3, matches: 3, next: null });
      expect(await since(NOW + 2, { beforeSeq: 9 })).toMatchObject({ scanned: 3, matches: 2, next: null });
      expect(await since(Date.now() + 1_000, { beforeSeq: 9 })).toMatchObject({ scanned: 0, next: null });
      bench.record(forms(2));
      await aMoment();
      const sinceMs = Date.now();
      bench.record(forms(1));
      expect(await since(sinceMs)).toMatchObject({ scanned: 1, next: null });
      expect(await since(Date.now() + 1_000)).toMatchObject({ scanned: 0, next: null });
    }),
  );
});
