/** Design §8.5: a rule on the past, step by step, wherever the lines and their payloads are (src/store/rules). */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test, vi } from "vitest";
import { compileRules } from "../../../../src/domain/rules/mapping-rule.ts";
import type { CompiledRules, MappingRule } from "../../../../src/domain/rules/mapping-rule.ts";
import { normalise } from "../../../../src/domain/signal/normalise.ts";
import type { JsonObject } from "../../../../src/domain/json/json-value.ts";
import { newId } from "../../../../src/platform/ids.ts";
import { COLD_RETRY_MS, RULE_STEP_SEGMENTS } from "../../../../src/limits.ts";
import { ColdObjects, moveToCold, COLD_AFTER_MS } from "../../../../src/store/log/cold.ts";
import type { Facts } from "../../../../src/store/log/line.ts";
import { stepLinkJobs } from "../../../../src/store/people/linking.ts";
import { People } from "../../../../src/store/people/people.ts";
import type { SignalToRecord } from "../../../../src/store/protocol/stored-signals.ts";
import { countInBooks } from "../../../../src/store/state/status-change.ts";
import { recordSignals } from "../../../../src/store/record-signals.ts";
import type { RuleJob, RuleToApply } from "../../../../src/store/protocol/store-operations.ts";
import { previewPage } from "../../../../src/store/rules/preview.ts";
import { stepRuleJob } from "../../../../src/store/rules/rule-jobs.ts";
import { ruleFacts, findRuleJob, nextRuleJobMs, startRuleJob } from "../../../../src/store/rules/rule-jobs.ts";
import { isStale } from "../../../../src/store/state/rule-outcomes.ts";
import { evaluate } from "../../../../src/domain/rules/evaluate-rules.ts";
import { StoreState } from "../../../../src/store/state/store-state.ts";
import { expectStateToAddUp } from "../../../support/adds-up.ts";
import { readScores } from "../../../support/read-store.ts";
import type { Scores } from "../../../support/read-store.ts";

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
/** A score of another rule that never matches, so that lines have further outcomes. */
const OTHER: MappingRule = { ...RULE, id: "rule_other", event: "*", scoringSignal: "any", points: 100 };

interface Sent {
  event?: string;
  who?: string | null;
  form?: string;
  long?: boolean;
}

/** A store without its alarm, so that only the test causes changes. */
class Bench {
  readonly storage: DurableObjectStorage;
  readonly workspaceId: string;
  state: StoreState;
  sent = 0;
  isR2Down = false;
  reads = 0;

  constructor(storage: DurableObjectStorage, workspaceId: string) {
    this.storage = storage;
    this.workspaceId = workspaceId;
    this.state = new StoreState(storage.sql);
  }

  get objects(): ColdObjects {
    const bucket = new Proxy(env.COLD, {
      get: (target, name) => {
        const call = Reflect.get(target, name) as (...given: unknown[]) => unknown;
        if (name !== "get") return call.bind(target);
        return (...given: unknown[]) => {
          this.reads++;
          if (this.isR2Down) throw new Error("R2 is down");
          return Reflect.apply(call, target, given);
        };
      },
    });
    return new ColdObjects(bucket, this.workspaceId);
  }

  /** Records signals as the consumer would with these rules. */
  record(signals: readonly Sent[], rules: readonly MappingRule[] = []): void {
    const compiled = compileRules(rules);
    this.#recordAll(signals.map((signal) => this.#toRecord(this.#payload(signal), compiled)));
  }

  /** Identifies a visitor as ann, who gets the visitor's signals, with these rules. */
  async link(anonymousId: string, rules: readonly MappingRule[]): Promise<void> {
    const identify = { type: "identify", anonymousId, traits: { email: "ann@example.com" } };
    this.#recordAll([this.#toRecord(identify, compileRules([]))]);
    const version = { version: 9, rules: compileRules(rules) };
    const work = {
      state: this.state,
      storage: this.storage,
      objects: this.objects,
      rules: () => Promise.resolve(version),
    };
    while (await stepLinkJobs(work));
  }

  seal(): void {
    this.storage.transactionSync(() => {
      this.state.signals.seal();
      this.state.signals.flush();
    });
  }

  /** All sealed segments. */
  async freeze(): Promise<void> {
    await moveToCold(
      { storage: this.storage, log: this.state.signals, objects: this.objects },
      Date.now() + COLD_AFTER_MS + 1,
    );
  }

  apply(change: Partial<RuleToApply> = {}): RuleJob {
    const toApply = { ruleId: RULE.id, rule: RULE, rulesVersion: 1, ...change };
    this.storage.transactionSync(() => {
      startRuleJob(this.state, toApply, Date.now());
      this.state.signals.flush();
    });
    return this.job(toApply.ruleId);
  }

  remove(change: Partial<RuleToApply> = {}): RuleJob {
    return this.apply({ rule: null, ...change });
  }

  job(ruleId = RULE.id): RuleJob {
    const job = findRuleJob(this.storage.sql, ruleId);
    if (job === null) throw new Error("there is no such job");
    return job;
  }

  step(limit?: number): Promise<boolean> {
    return stepRuleJob(this.state, this.objects, this.storage, limit);
  }

  /** @returns the number of steps. */
  async finish(limit?: number): Promise<number> {
    let steps = 1;
    while (await this.step(limit)) steps++;
    return steps;
  }

  /** Fails in the middle of the writes. */
  async crashingStep(statements: number): Promise<boolean> {
    const { sql } = this.storage;
    const exec = sql.exec.bind(sql);
    let left = statements;
    sql.exec = ((query: string, ...bindings: SqlStorageValue[]) => {
      if (/^\s*(INSERT|UPDATE|DELETE)/.test(query) && left-- <= 0) throw new Error("crash");
      return exec(query, ...bindings);
    }) as typeof exec;
    try {
      await this.step(1);
      return false;
    } catch (error) {
      expect(String(error)).toContain("crash");
      return true;
    } finally {
      sql.exec = exec;
    }
  }

  restart(): void {
    this.state = new StoreState(this.storage.sql);
  }

  /** Drops the oldest segments as retention does. */
  dropFirst(segments: number, after = 0): void {
    const { signals, books } = this.state;
    this.storage.transactionSync(() => {
      for (const segment of [...signals.walk(0)].slice(after, after + segments)) {
        signals.drop(segment);
        countInBooks(books.dropped, 1, "processed", segment.length);
      }
      signals.flush();
    });
  }

  change(seq: number, facts: Partial<Facts>): void {
    const { signals } = this.state;
    const segment = signals.segmentOf(seq);
    if (segment === null) throw new Error("there is no such line");
    this.storage.transactionSync(() => {
      signals.rewrite(segment, new Map([[seq, { ...segment.facts(seq), ...facts }]]));
      signals.flush();
    });
  }

  get scores(): Scores {
    expectStateToAddUp(new StoreState(this.storage.sql), { hasDropped: true });
    return readScores(this.storage.sql);
  }

  /** In received order. */
  get points(): number[] {
    return this.scores.scoring.sort((a, b) => a.at - b.at).map(({ points }) => points);
  }

  /** The number of rewrites of each segment. */
  get versions(): number[] {
    return this.storage.sql
      .exec<{ version: number }>("SELECT version FROM signals_facts ORDER BY first_seq")
      .toArray()
      .map(({ version }) => version);
  }

  #recordAll(batch: SignalToRecord[]): void {
    this.storage.transactionSync(() => recordSignals(this.state, batch, Date.now()));
  }

  #payload({ event = "Form", who = "ann", form = "demo", long = false }: Sent): JsonObject {
    const named = who === null ? {} : who.startsWith("v-") ? { anonymousId: who } : { email: `${who}@example.com` };
    return { event, ...named, properties: { form, ...(long ? { text: "x".repeat(60_000) } : {}) } };
  }

  #toRecord(payload: JsonObject, rules: CompiledRules): SignalToRecord {
    const n = ++this.sent;
    const normalised = normalise(payload, "site");
    const evaluation = evaluate(rules, normalised);
    return {
      admission: {
        id: newId("sig"),
        keyId: "key_1",
        endpoint: "signal_staging",
        verdict: "accepted",
        ordinal: n,
        signalLimit: 1_000,
        receivedAtMs: NOW + n,
        periodStartMs: 1,
        periodEndMs: NOW + 1_000_000,
      },
      payload: JSON.stringify(payload),
      work: {
        kind: normalised.kind,
        normalised,
        contentHash: null,
        duplicateWindowMs: 0,
        evaluation: rules.asksForEmail && normalised.email === undefined ? null : evaluation,
      },
    };
  }
}

function inStore(act: (bench: Bench) => void | Promise<void>): Promise<void> {
  const id = crypto.randomUUID();
  return runInDurableObject(env.SIGNAL_STORE.getByName(id), (_, { storage }) => act(new Bench(storage, id)));
}

/** Time passes, so that later links and requests have a later time. */
async function aMoment(): Promise<void> {
  const then = Date.now();
  await vi.waitUntil(() => Date.now() > then, { interval: 1 });
}

const forms = (count: number, change: Sent = {}): Sent[] => Array.from({ length: count }, () => change);

test("a rule's job goes through sealed, open and cold segments alike, in bounded steps, and reads an object of R2 once a step", () =>
  inStore(async (bench) => {
    for (let segment = 0; segment < 4; segment++) {
      bench.record([...forms(3), { event: "Other" }, { who: null }, { who: "v-1" }, { form: "no" }], [OTHER]);
      bench.seal();
      if (segment === 1) await bench.freeze();
    }
    bench.record(forms(2, { who: "bob" }), [OTHER]);
    const rule = { ...RULE, conditions: DEMO };
    expect(bench.apply({ rule })).toMatchObject({ status: "queued", total: 26, scanned: 0 });
    expect(await bench.step(5)).toBe(true);
    expect(bench.reads).toBe(1);
    expect(bench.job()).toMatchObject({ status: "running", scanned: 12, matched: 6, added: 6, finishedAtMs: null });
    expect(await bench.finish(5)).toBe(2);
    expect(bench.reads).toBe(1);
    expect(bench.job()).toMatchObject({ status: "done", scanned: 26, matched: 14, added: 14, changed: 0, removed: 0 });
    expect(bench.points.filter((points) => points === 3)).toHaveLength(14);
    expect(ruleFacts(bench.state, [RULE.id, "rule_none"])).toMatchObject([
      { hasScoringSignals: true, job: { status: "done" } },
      { hasScoringSignals: false, job: null, days: "" },
    ]);
  }));

test("applying a rule again rewrites nothing; an edit changes one row of facts a segment", () =>
  inStore(async (bench) => {
    for (let segment = 0; segment < 3; segment++) {
      bench.record([...forms(3), { form: "no" }]);
      bench.seal();
    }
    bench.record([{ event: "Other" }]);
    bench.apply();
    await bench.finish();
    expect(bench.versions).toEqual([1, 1, 1, 0]);
    bench.apply();
    await bench.finish();
    expect(bench.job()).toMatchObject({ matched: 12, added: 0, changed: 0, removed: 0 });
    expect(bench.versions).toEqual([1, 1, 1, 0]);
    bench.apply({ rule: { ...RULE, version: 2, points: 5, conditions: DEMO } });
    await bench.finish();
    expect(bench.job()).toMatchObject({ matched: 9, changed: 9, removed: 3 });
    expect(bench.versions).toEqual([2, 2, 2, 0]);
    expect(new Set(bench.points)).toEqual(new Set([5]));
  }));

test("a rule's job skips other events, and removes scores for events that the rule no longer covers", () =>
  inStore(async (bench) => {
    bench.record([...forms(2), { event: "Form 2" }, { event: "Other" }]);
    bench.seal();
    bench.record(forms(2));
    bench.seal();
    bench.record(forms(2, { event: "Other" }));
    const wide = { ...RULE, event: "Form*" };
    expect(bench.apply({ rule: wide })).toMatchObject({ total: 5 });
    await bench.finish();
    expect(bench.points).toEqual([3, 3, 3, 3, 3]);
    bench.apply({ rule: { ...RULE, version: 2, event: "Other", points: 7 } });
    await bench.finish();
    expect(bench.job()).toMatchObject({ scanned: 3, matched: 3, added: 3, changed: 0, removed: 5 });
    expect(bench.points).toEqual([7, 7, 7]);
  }));

test("a rule's job waits while R2 does not answer, keeps its progress, lets other jobs run, and finishes later", () =>
  inStore(async (bench) => {
    bench.record(forms(3));
    bench.seal();
    bench.record(forms(3));
    bench.seal();
    await bench.freeze();
    bench.record(forms(3, { event: "Other" }), [OTHER]);
    bench.isR2Down = true;
    bench.apply();
    expect(await bench.step()).toBe(false);
    const waiting = bench.job();
    expect(waiting).toMatchObject({ status: "running", scanned: 0, added: 0 });
    expect(nextRuleJobMs(bench.storage.sql)).toBeGreaterThan(Date.now() + COLD_RETRY_MS / 2);
    expect(await bench.step()).toBe(false);
    expect(bench.reads).toBe(1);

    bench.apply({ ruleId: OTHER.id, rule: null, rulesVersion: 1 });
    await bench.finish();
    expect(bench.job(OTHER.id)).toMatchObject({ status: "done", removed: 3 });
    expect(bench.job()).toEqual(waiting);

    bench.isR2Down = false;
    bench.storage.sql.exec("UPDATE rule_jobs SET due_at = 1");
    await bench.finish();
    expect(bench.job()).toMatchObject({ status: "done", scanned: 6, added: 6 });
    expect(bench.points).toEqual([3, 3, 3, 3, 3, 3]);
  }));

test("a rule's job keeps the results from before the first unavailable payload", () =>
  inStore(async (bench) => {
    bench.record(forms(2));
    bench.seal();
    await bench.freeze();
    bench.record(forms(2));
    bench.seal();
    // The second segment is the cold one.
    const { sql } = bench.storage;
    const [first, second] = bench.state.signals.rows("TRUE ORDER BY first_seq");
    if (first === undefined || second === undefined) throw new Error("two segments");
    sql.exec("UPDATE signals_segments SET cold = NULL WHERE first_seq = ?", first.first_seq);
    sql.exec(
      "UPDATE signals_segments SET cold = ?, cold_offset = 0, cold_bytes = 9 WHERE first_seq = ?",
      first.cold,
      second.first_seq,
    );
    sql.exec("UPDATE signals_payloads SET first_seq = ?", first.first_seq);
    bench.restart();
    bench.isR2Down = true;
    bench.apply();
    expect(await bench.step()).toBe(false);
    expect(bench.job()).toMatchObject({ status: "running", scanned: 2, added: 2 });
    expect(bench.points).toEqual([3, 3]);
  }));

test("a crash between or within steps of a rule's job repeats nothing and loses nothing", () =>
  inStore(async (bench) => {
    for (let segment = 0; segment < 4; segment++) {
      bench.record([...forms(2), ...forms(2, { who: `p${segment}` })], [OTHER]);
      bench.seal();
    }
    bench.apply();
    let crashes = 0;
    for (let statements = 0; nextRuleJobMs(bench.storage.sql) !== null; statements++) {
      const before = bench.job();
      const crashed = await bench.crashingStep(statements);
      crashes += Number(crashed);
      if (crashed) expect(bench.job()).toEqual(before);
      else statements = 0;
      void bench.scores;
      if (statements % 3 === 0) bench.restart();
    }
    expect(crashes).toBeGreaterThan(12);
    expect(bench.job()).toMatchObject({ status: "done", scanned: 16, matched: 16, added: 16 });
    expect(bench.points.filter((points) => points === 3)).toHaveLength(16);
  }));

test("a rule's job keeps scores of a newer version and ignores later signals", () =>
  inStore(async (bench) => {
    bench.record(forms(3));
    bench.seal();
    bench.record([{ event: "Other" }]);
    bench.apply();
    const { frequency: _, ...always } = RULE;
    const newer = { ...always, version: 2, points: 50 };
    const [id] = [bench.state.outcomes.idOf({ ...newer, ruleId: RULE.id, ruleVersion: 2 })];
    const people = new People(bench.state);
    bench.storage.transactionSync(() => {
      const segment = bench.state.signals.segmentOf(2);
      if (segment === null) throw new Error("no segment");
      const facts = segment.facts(2);
      bench.state.signals.rewrite(segment, new Map([[2, { ...facts, outcomes: [id] }]]));
      const after = { signalId: facts.admission.id, atMs: facts.admission.receivedAtMs, outcomes: [id] };
      people.rescore(1, new Map([[2, { before: null, after }]]));
      people.write();
    });
    bench.record([{ event: "Other" }]);
    bench.record([...forms(1), ...forms(1, { form: "no" })], [{ ...newer, conditions: DEMO }]);
    bench.seal();
    await bench.finish();
    expect(bench.job()).toMatchObject({ matched: 3, added: 2, changed: 0, removed: 0, scanned: 3 });
    expect(bench.points).toEqual([3, 50, 3, 50]);
  }));

test("signals linked after a rule's job was requested already have the scores of newer rules", () =>
  inStore(async (bench) => {
    bench.record(forms(2));
    bench.apply();
    bench.change(1, { linkedAtMs: Date.now() + 10 });
    await bench.finish();
    expect(bench.job()).toMatchObject({ scanned: 2, added: 1 });
    bench.apply({ rule: { ...RULE, version: 2 } });
    bench.change(1, { linkedAtMs: bench.job().requestedAtMs });
    await bench.finish();
    expect(bench.job()).toMatchObject({ scanned: 2, added: 1, changed: 1 });
  }));

test("a rule that is switched on again while its scores are being removed keeps what it has scored since", () =>
  inStore(async (bench) => {
    bench.record(forms(2), [RULE]);
    bench.seal();
    bench.record([...forms(2), { who: "v-1" }], [RULE, OTHER]);
    bench.seal();
    bench.remove({ disabledVersion: 2 });
    expect(await bench.step(1)).toBe(true);
    expect(bench.job()).toMatchObject({ ruleVersion: null, removed: 2, total: 0 });
    await aMoment();
    // Enabled again: it scores new signals and linked ones.
    const again = { ...RULE, version: 3, points: 9 };
    bench.record(forms(1), [again]);
    await bench.link("v-1", [again]);
    await bench.finish();
    expect(bench.job()).toMatchObject({ status: "done", removed: 4 });
    expect(bench.points).toEqual([100, 100, 9, 9]);
  }));

test("a request to remove a disabled rule's scores that comes late does not remove what it scored when it was on again", () =>
  inStore(async (bench) => {
    bench.record(forms(2), [RULE]);
    bench.record(forms(1), [{ ...RULE, version: 3, points: 9 }]);
    bench.remove({ disabledVersion: 2 });
    await bench.finish();
    expect(bench.points).toEqual([9]);
    bench.remove();
    await bench.finish();
    expect(bench.points).toEqual([]);
    expect(ruleFacts(bench.state, [RULE.id])).toMatchObject([{ hasScoringSignals: false, days: "" }]);
  }));

test("the removal of a rule's scores needs no payload: R2 may be down", () =>
  inStore(async (bench) => {
    bench.record(forms(3), [RULE, OTHER]);
    bench.seal();
    await bench.freeze();
    bench.isR2Down = true;
    bench.remove({ disabledVersion: RULE.version });
    await bench.finish();
    expect(bench.reads).toBe(0);
    expect(bench.points).toEqual([100, 100, 100]);
  }));

test("a rule's job starts again when it is requested again, even within a step, and results of the older job are ignored", () =>
  inStore(async (bench) => {
    bench.record(forms(2));
    bench.seal();
    await bench.freeze();
    bench.record(forms(2));
    bench.apply({ rulesVersion: 4 });
    expect(bench.apply({ rulesVersion: 3, rule: { ...RULE, version: 9 } })).toMatchObject({ ruleVersion: 1 });
    expect([isStale(bench.storage.sql, 3), isStale(bench.storage.sql, 4)]).toEqual([true, false]);
    const step = bench.step();
    bench.apply({ rulesVersion: 4, rule: { ...RULE, version: 2, points: 8 } });
    expect(await step).toBe(true);
    expect(bench.job()).toMatchObject({ status: "queued", ruleVersion: 2, scanned: 0 });
    await bench.finish();
    expect(bench.job()).toMatchObject({ status: "done", scanned: 4, added: 4 });
    expect(bench.points).toEqual([8, 8, 8, 8]);
  }));

test("a line that changes while a rule's job fetches payloads is judged as it is then", () =>
  inStore(async (bench) => {
    bench.record(forms(3));
    bench.seal();
    await bench.freeze();
    bench.apply();
    const step = bench.step();
    bench.change(2, { linkedAtMs: Date.now() + 1_000 });
    expect(await step).toBe(true);
    expect(bench.job()).toMatchObject({ scanned: 0, added: 0 });
    await bench.finish();
    expect(bench.job()).toMatchObject({ scanned: 3, added: 2 });
    expect(bench.points).toEqual([3, 3]);
  }));

test("scores of dropped signals stay with an existing rule and are removed with a deleted one, on any list of the person", () =>
  inStore(async (bench) => {
    for (let segment = 0; segment < 20; segment++) {
      bench.record([...forms(6), ...forms(6, { who: "bob" }), ...forms(1, { who: `p${segment}` })], [RULE, OTHER]);
      bench.seal();
    }
    expect(bench.storage.sql.exec("SELECT count(*) AS rows FROM timelines").one()["rows"]).toBeGreaterThan(3);
    bench.dropFirst(15);
    bench.apply({ rule: { ...RULE, version: 2, points: 4 } });
    await bench.finish();
    expect(bench.job()).toMatchObject({ changed: 65, removed: 0, added: 0 });
    expect(bench.points.filter((points) => points === 3)).toHaveLength(195);

    bench.remove({ rulesVersion: 2 });
    let steps = 0;
    do {
      await bench.crashingStep(3);
      bench.restart();
      void bench.scores;
      steps++;
    } while (await bench.step(1));
    expect(steps).toBeGreaterThan(5);
    expect(bench.job()).toMatchObject({ status: "done", removed: 260 });
    expect(bench.points).toEqual(Array.from({ length: 260 }, () => 100));
  }));

test("scores of very many dropped signals of one person are removed in steps", () =>
  inStore(async (bench) => {
    const [count, limit] = [900, 100];
    bench.record(forms(count), [RULE]);
    bench.seal();
    bench.dropFirst(9);
    bench.record(forms(1));
    bench.remove();
    for (let [before, isMore] = [0, true]; isMore; before = bench.job().removed) {
      isMore = await bench.step(limit);
      // A row of the list is processed as a whole.
      expect(bench.job().removed - before).toBeLessThan(2 * limit);
    }
    expect(bench.job()).toMatchObject({ status: "done", removed: count });
    expect(bench.points).toEqual([]);
  }));

test("scores of dropped signals by a version newer than the disabled one stay", () =>
  inStore(async (bench) => {
    bench.record(forms(2), [RULE]);
    bench.record(forms(1), [{ ...RULE, version: 3, points: 9 }]);
    bench.seal();
    bench.record(forms(1), [RULE]);
    bench.dropFirst(1);
    bench.remove({ disabledVersion: 2 });
    await bench.finish();
    expect(bench.job()).toMatchObject({ removed: 3 });
    expect(bench.points).toEqual([9]);
  }));

test("a rule's job takes signals of 64 KB each in steps that fit into memory", () =>
  inStore(async (bench) => {
    for (let n = 0; n < 90; n++) bench.record(forms(1, { long: true }));
    bench.apply();
    expect(await bench.step()).toBe(true);
    expect(bench.job().scanned).toBeLessThan(90);
    await bench.finish();
    expect(bench.job()).toMatchObject({ scanned: 90, added: 90 });
  }));

test("a preview ends where cold storage does not answer, and says so", () =>
  inStore(async (bench) => {
    bench.record(forms(3));
    bench.seal();
    await bench.freeze();
    bench.record([...forms(2, { who: "bob" }), { event: "Other" }, { who: "v-1" }]);
    const range = { sinceMs: 0, beforeSeq: Number.MAX_SAFE_INTEGER, limit: 10 };
    const preview = (change = {}) => previewPage(bench.state, bench.objects, RULE, { ...range, ...change });
    expect(await preview()).toMatchObject({ scanned: 6, matches: 5, people: [2, 1], next: null, complete: true });
    const first = await preview({ limit: 2 });
    expect(first).toMatchObject({ scanned: 2, matches: 1, complete: true, next: 5 });
    expect(await preview({ limit: 2, beforeSeq: first.next })).toMatchObject({ scanned: 2, matches: 2, next: 3 });
    bench.isR2Down = true;
    expect(await preview()).toMatchObject({ scanned: 3, matches: 2, people: [2], next: null, complete: false });
    expect(await preview({ limit: 3 })).toMatchObject({ scanned: 3, complete: true, next: 4 });
  }));

test("a preview reads the requested period, slice by slice, and skips slices without the event", () =>
  inStore(async (bench) => {
    bench.record(forms(3));
    bench.seal();
    for (let segment = 0; segment < RULE_STEP_SEGMENTS + 5; segment++) {
      bench.record([{ event: "Other" }]);
      bench.seal();
    }
    const rule = { ...RULE, event: "*orm" };
    const preview = (sinceMs: number, beforeSeq = Number.MAX_SAFE_INTEGER) =>
      previewPage(bench.state, bench.objects, rule, { sinceMs, beforeSeq, limit: 10 });
    const first = await preview(0);
    expect(first).toMatchObject({ scanned: 0, complete: true, next: 9 });
    expect(await preview(0, 9)).toMatchObject({ scanned: 3, matches: 3, next: null });
    expect(await preview(NOW + 2, 9)).toMatchObject({ scanned: 3, matches: 2, next: null });
    expect(await preview(Date.now() + 1_000, 9)).toMatchObject({ scanned: 0, next: null });
    bench.record(forms(2));
    await aMoment();
    const sinceMs = Date.now();
    bench.record(forms(1));
    expect(await preview(sinceMs)).toMatchObject({ scanned: 1, next: null });
    expect(await preview(Date.now() + 1_000)).toMatchObject({ scanned: 0, next: null });
  }));

test("scores made after a rule's job was requested stay, in lists too", () =>
  inStore(async (bench) => {
    bench.record(forms(2), [RULE]);
    bench.seal();
    bench.record([...forms(1), { who: "v-1" }], [RULE]);
    bench.dropFirst(1);
    bench.remove();
    await aMoment();
    await bench.link("v-1", [RULE]);
    await bench.step();
    expect(bench.points).toEqual([3, 3, 3]);
    bench.record(forms(1), [RULE]);
    bench.seal();
    bench.dropFirst(1, 1);
    await bench.finish();
    expect(bench.job()).toMatchObject({ status: "done", removed: 3 });
    expect(bench.points).toEqual([3, 3]);
  }));
