/**
 * Design §6: changes of plan and overages reach the Quota Counter: pushed with the change, and by the edge if that
 * push failed. Every step may fail without rejecting a sender.
 */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { putPlan } from "../../../src/d1/plans.ts";
import { raiseConfigVersion, updateWorkspace, workspaceConfig } from "../../../src/d1/workspaces.ts";
import { controlDatabase } from "../../../src/d1/database.ts";
import { closePeriod, type Streak } from "../../../src/domain/quota/billing.ts";
import { stopClock } from "../../support/clock.ts";
import { newCounter, TestCounter } from "../../support/counter.ts";
import { BREAKS, LateConfiguration, type StoredConfig } from "../../support/late-configuration.ts";
import { expectLogged } from "../../support/logged.ts";
import { newPlan, newWorkspace } from "../../support/workspace.ts";

const NOW = Date.UTC(2031, 0, 15);
const ANCHOR = "2031-01-01T00:00:00.000Z";
/** Longer than an isolate caches a key. */
const NEXT_LOOK_UP_MS = 61_000;
const MONTH_MS = 31 * 86_400_000;

beforeEach(() => stopClock(NOW));

const pass = (ms: number): void => void vi.setSystemTime(Date.now() + ms);

async function expectNewest(late: LateConfiguration): Promise<void> {
  const { signalLimit, overages, paid, configVersion } = await late.stored();
  expect(await late.usage()).toMatchObject({ signalLimit, overages, paid, configVersion });
}

describe("any history of configuration changes and faults", () => {
  /** Senders get the quota's verdict, never an error about a missing plan. */
  const VERDICTS = ["accepted", "held", "extra_room_exceeded", "allowance_exceeded"];

  const breaks = fc.constantFrom(...BREAKS);
  const steps = fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant("change" as const),
        plan: fc.option(fc.nat({ max: 2 })),
        overages: fc.option(fc.boolean()),
        breaks,
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant("change terms" as const),
        signalLimit: fc.integer({ min: 3, max: 9 }),
        paid: fc.boolean(),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({ do: fc.constant("call" as const), breaks, isReplicaBehind: fc.boolean() }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("push late" as const), since: fc.nat(), which: fc.nat() }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("restore D1 and reconcile" as const), which: fc.nat() }) },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant("pass" as const),
        ms: fc.constantFrom(1, 6_000, NEXT_LOOK_UP_MS, MONTH_MS),
      }),
    },
  );

  type Step = ReturnType<(typeof steps)["generate"]>["value"];

  class History {
    readonly late: LateConfiguration;
    readonly #plans: readonly string[];
    /** Every configuration that D1 has had, by version. */
    readonly #known = new Map<number, StoredConfig>();
    /** Versions that D1 has. A restored D1 no longer has its latest ones. */
    #stored = new Set<number>();
    /** Versions that the counter has: with the newest, all that D1 had then. */
    readonly #applied = new Set<number>();

    private constructor(late: LateConfiguration, plans: readonly string[]) {
      this.late = late;
      this.#plans = plans;
    }

    static async make(): Promise<History> {
      vi.setSystemTime(NOW);
      const late = await LateConfiguration.make(4, ANCHOR);
      const history = new History(late, [late.plan, await newPlan(6), await newPlan(3, false)]);
      await history.check();
      return history;
    }

    async run(step: Step): Promise<void> {
      const { late } = this;
      switch (step.do) {
        case "change": {
          late.breaks = step.breaks;
          const plan = step.plan === null ? {} : { plan: this.#plans[step.plan] };
          const change = { ...plan, ...(step.overages === null ? {} : { overages: step.overages }) };
          expect((await late.change(change)).status).toBe(200);
          break;
        }
        case "change terms": {
          const { signalLimit, paid } = step;
          expect((await late.putPlan({ signal_limit: signalLimit, paid })).status).toBe(200);
          break;
        }
        case "call":
          late.breaks = step.breaks;
          late.replicaVersion = step.isReplicaBehind ? Math.min(...this.#applied) : null;
          expect(VERDICTS).toContain(await late.call());
          break;
        case "push late": {
          // As of any earlier moment, for a counter with any earlier version.
          const versions = [...this.#stored].sort((a, b) => a - b);
          const pushed = versions.slice(step.since % versions.length, 1 + (step.which % versions.length));
          const configs = pushed.map((version) => ({ ...this.#config(version), anchorMs: Date.parse(ANCHOR) }));
          await late.workspace.counter.configure(configs);
          for (const version of pushed) this.#applied.add(version);
          break;
        }
        case "restore D1 and reconcile": {
          late.breaks = "nowhere";
          const versions = [...this.#stored];
          const before = this.#config(versions[step.which % versions.length] ?? 0);
          await late.restoreD1(before);
          // A restore takes longer than versions may be ahead of the time, and longer than a push.
          pass(1_000);
          this.#stored = new Set([...this.#stored].filter((version) => version <= before.configVersion));
          expect((await late.operator("POST", `/workspaces/${late.workspace.id}/reconcile`)).status).toBe(200);
          break;
        }
        case "pass":
          pass(step.ms);
          break;
      }
      late.breaks = "nowhere";
      late.replicaVersion = null;
      await this.check();
    }

    async check(): Promise<void> {
      const stored = await this.late.stored();
      const before = this.#known.get(stored.configVersion);
      // A version identifies one configuration.
      if (before === undefined) this.#known.set(stored.configVersion, stored);
      else expect(before).toEqual(stored);
      this.#stored.add(stored.configVersion);
      const { configVersion, signalLimit, overages, paid, history, extraRoomRemoved, streak } = await this.late.usage();
      const last = Math.max(0, ...this.#applied);
      expect(configVersion).toBeGreaterThanOrEqual(last);
      if (configVersion > last) {
        for (const version of this.#stored) if (version <= configVersion) this.#applied.add(version);
      }
      expect(this.#known.get(configVersion)).toMatchObject({ signalLimit, overages, paid });

      let closed: Streak = { streak: 0, extraRoomRemoved: false };
      for (const period of history.toReversed()) {
        const held = this.#heldAt(period.periodEndMs);
        expect(period).toMatchObject({ signalLimit: held.signalLimit, overages: held.overages });
        closed = closePeriod(closed, { count: period.accepted + period.held, ...held });
        expect(period.streak).toBe(closed.streak);
      }
      expect({ streak, extraRoomRemoved }).toEqual(closed);
    }

    /** The newest configuration that the counter has of those effective before `ms`; else the first. */
    #heldAt(ms: number): StoredConfig {
      const before = [...this.#applied].filter((applied) => applied < ms);
      return this.#config(before.length === 0 ? Math.min(...this.#applied) : Math.max(...before));
    }

    #config(version: number): StoredConfig {
      const config = this.#known.get(version);
      if (config === undefined) throw new Error(`D1 never had version ${version}`);
      return config;
    }
  }

  test("rejects no sender, applies no older push, and reaches the newest version with one more call", async () => {
    expectLogged("configure_failed");
    await fc.assert(
      fc.asyncProperty(fc.array(steps, { minLength: 4, maxLength: 16 }), async (taken) => {
        const history = await History.make();
        // oxlint-disable-next-line no-await-in-loop -- one after the other: that is a history
        for (const step of taken) await history.run(step);
        pass(NEXT_LOOK_UP_MS);
        expect(VERDICTS).toContain(await history.late.call());
        await history.check();
        await expectNewest(history.late);
      }),
      { numRuns: 25, endOnFailure: true },
    );
  }, 120_000);
});

describe("an upgrade whose push fails", () => {
  test.each(BREAKS)("answers 200 at %s, and decides from the call after the next", async (breaks) => {
    expectLogged("configure_failed");
    const late = await LateConfiguration.make(1);
    expect([await late.call(), await late.call(), await late.call()]).toEqual([
      "accepted",
      "held",
      "extra_room_exceeded",
    ]);
    late.breaks = breaks;
    expect((await late.change({ plan: await newPlan(100) })).status).toBe(200);
    late.breaks = "nowhere";
    const isLate = breaks === "D1" || breaks === "the counter";
    pass(NEXT_LOOK_UP_MS);
    expect(await late.call()).toBe(isLate ? "extra_room_exceeded" : "accepted");
    await expectNewest(late);
    expect(await late.call()).toBe("accepted");
  });

  test.each(["D1", "the counter"] as const)(
    "at %s is shown by no page: it is pushed once more first",
    async (breaks) => {
      expectLogged("configure_failed", "error");
      const late = await LateConfiguration.make(1);
      late.breaks = breaks;
      await late.change({ overages: true });
      const usage = () => late.operator("GET", `/workspaces/${late.workspace.id}/usage`);
      expect((await usage()).status).toBeGreaterThanOrEqual(500);
      late.breaks = "nowhere";
      expect(await (await usage()).json()).toMatchObject({ overages: true });
      const pushes = late.pushed.length;
      await usage();
      expect(late.pushed).toHaveLength(pushes);
    },
  );
});

describe("the edge", () => {
  test("pushes overages once when a call finds a newer version than the counter's", async () => {
    expectLogged("configure_failed");
    const late = await LateConfiguration.make(1);
    await late.call();
    for (const overages of [true, false, true]) {
      late.breaks = "the counter";
      await late.change({ overages });
      late.breaks = "nowhere";
      pass(NEXT_LOOK_UP_MS);
      late.pushed.length = 0;
      await late.call();
      await late.call();
      expect(late.pushed).toEqual([(await late.stored()).configVersion]);
      expect(await late.usage()).toMatchObject({ overages });
    }
  });

  test("pushes nothing if the replica knows no newer version or the key is cached", async () => {
    const late = await LateConfiguration.make(1);
    await late.call();
    await late.putPlan({ signal_limit: 2 });
    late.pushed.length = 0;
    await late.call();
    pass(NEXT_LOOK_UP_MS);
    late.replicaVersion = (await late.usage()).configVersion;
    await late.call();
    expect(late.pushed).toEqual([]);
    late.replicaVersion = null;
    pass(NEXT_LOOK_UP_MS);
    await late.call();
    await expectNewest(late);
  });

  test("answers before the push ends, and runs one push at a time", async () => {
    const late = await LateConfiguration.make(5);
    await late.putPlan({ signal_limit: 9 });
    const { promise, resolve } = Promise.withResolvers<void>();
    late.hold = promise;
    const calls = [await late.callOnly(), await late.callOnly(), await late.callOnly()];
    expect(calls.map(({ answer }) => answer)).toEqual(["accepted", "accepted", "accepted"]);
    await vi.waitFor(() => expect(late.pushed).toHaveLength(1));
    expect(await late.usage()).toMatchObject({ signalLimit: 5 });
    resolve();
    await Promise.all(calls.map(({ behind }) => behind));
    expect(late.pushed).toHaveLength(1);
    await expectNewest(late);
  });

  test("retries a failing push every five seconds, also after a push that never ends", async () => {
    expectLogged("configure_failed");
    const late = await LateConfiguration.make(50);
    await late.putPlan({ signal_limit: 60 });
    late.breaks = "the counter";
    const pushes: number[] = [];
    for (let second = 0; second < 12; second++) {
      expect(await late.call()).toBe("accepted");
      pushes.push(late.pushed.length);
      pass(1_000);
    }
    expect(pushes).toEqual([1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3]);
    const { promise, resolve } = Promise.withResolvers<void>();
    late.hold = promise;
    pass(5_000);
    const { behind } = await late.callOnly();
    await vi.waitFor(() => expect(late.pushed).toHaveLength(4));
    late.hold = Promise.resolve();
    late.breaks = "nowhere";
    pass(11_000);
    await late.call();
    await expectNewest(late);
    // Otherwise it would fail, and log that, during a later test.
    resolve();
    await behind;
  });

  test("configures a counter that lost everything from the primary before it calls again", async () => {
    const late = await LateConfiguration.make(7);
    await runInDurableObject(late.workspace.counter, (_, { storage }) => storage.sql.exec("DELETE FROM ledger"));
    await evictDurableObject(late.workspace.counter);
    late.replicaVersion = 0;
    expect(await late.call()).toBe("accepted");
    await expectNewest(late);
  });
});

test("releases held signals by the newest plan, even before it reached the counter", async () => {
  const late = await LateConfiguration.make(1);
  expect([await late.call(), await late.call()]).toEqual(["accepted", "held"]);
  await late.workspace.settled();
  await late.putPlan({ signal_limit: 8 });
  const released = await late.operator("POST", `/workspaces/${late.workspace.id}/held/release`);
  expect(await released.json()).toMatchObject({ released: 1, still_held: 0 });
});

describe("new terms of a plan", () => {
  test("write ten rows for a plan of 10,000 workspaces, whose next look-ups find the new version", async () => {
    const late = await LateConfiguration.make(5);
    await env.DB.batch([
      env.DB.prepare(
        `WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 9999)
         INSERT INTO workspaces (id, slug, name, plan_id, anchor, created_at, config_version)
         SELECT 'ws_many_' || n, 'many-' || n, 'Many', ?, ?, ?, n FROM n`,
      ).bind(late.plan, ANCHOR, ANCHOR),
      env.DB.prepare(
        `INSERT INTO workspace_versions SELECT id, config_version, plan_id, overages FROM workspaces WHERE plan_id = ?
         ON CONFLICT DO NOTHING`,
      ).bind(late.plan),
    ]);
    const otherWorkspace = await newWorkspace({ key: null });
    const configOf = (id: string) => workspaceConfig(controlDatabase(env.DB), id, 0);
    const before = await configOf(otherWorkspace.id);
    late.pushed.length = 0;
    pass(1_000);
    const [startedMs, written, read] = [performance.now(), late.cost.written, late.cost.read];
    expect((await late.putPlan({ signal_limit: 8 })).status).toBe(200);
    expect(performance.now() - startedMs).toBeLessThan(1_000);
    // The plan, its version with an index, and the audit entry with its indexes.
    expect(late.cost.written - written).toBeLessThanOrEqual(10);
    expect(late.cost.read - read).toBeLessThan(50);
    expect(late.pushed).toEqual([]);
    for (const id of [late.workspace.id, "ws_many_1", "ws_many_9999"]) {
      // oxlint-disable-next-line no-await-in-loop -- a few
      const config = await configOf(id);
      expect(config).toMatchObject({ configVersion: Date.now(), versions: [{ signalLimit: 5 }, { signalLimit: 8 }] });
    }
    expect(await configOf(otherWorkspace.id)).toEqual(before);
  });

  test("raise no version if only name, price or offer change, nor does a new workspace name", async () => {
    const late = await LateConfiguration.make(5);
    const { configVersion } = await late.stored();
    pass(1_000);
    const price = { per_thousand: 1, currency: "EUR" };
    await late.putPlan({ signal_limit: 5, name: "Other", overage_price: price, offered_to: [] });
    await late.change({ name: "Other", plan: late.plan, overages: false });
    expect(await late.stored()).toMatchObject({ configVersion });
    await late.putPlan({ signal_limit: 5, name: "Other", retention_days: 90 });
    expect(await late.stored()).toMatchObject({ configVersion: Date.now() });
    // Twice in a millisecond: each version is newer than the one before.
    await late.putPlan({ signal_limit: 5, paid: false });
    expect(await late.stored()).toMatchObject({ configVersion: Date.now() + 1 });
    for (const overages of [true, false, true]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await late.change({ overages });
    }
    await late.putPlan({ signal_limit: 6 });
    expect(await late.stored()).toMatchObject({ configVersion: Date.now() + 5 });
    await late.change({ plan: await newPlan(3) });
    expect(await late.stored()).toMatchObject({ configVersion: Date.now() + 6 });
  });
});

describe("a restored D1", () => {
  test("does not make the edge push with each call after a cached look-up of a later version", async () => {
    expectLogged("configure_failed");
    const late = await LateConfiguration.make(50);
    const before = await late.stored();
    pass(1_000);
    late.breaks = "the counter";
    await late.change({ overages: true });
    expect(await late.call()).toBe("accepted");
    await late.restoreD1(before);
    late.breaks = "nowhere";
    late.pushed.length = 0;
    pass(6_000);
    for (let calls = 0; calls < 3; calls++) {
      expect(await late.call()).toBe("accepted");
      // Longer than the pause between two pushes.
      pass(11_000);
    }
    expect(late.pushed).toEqual([0]);
  });

  test("gets a version above the counter's and the time, only if the counter's is later", async () => {
    const { id } = await newWorkspace({ key: null });
    const db = controlDatabase(env.DB);
    const version = async () => (await workspaceConfig(db, id, 0))?.configVersion;
    expect(await raiseConfigVersion(db, id, NOW)).toBe(false);
    expect(await version()).toBe(NOW);
    expect(await raiseConfigVersion(db, id, NOW + 90)).toBe(true);
    expect(await version()).toBe(NOW + 91);
    pass(1_000);
    expect(await raiseConfigVersion(db, id, NOW + 92)).toBe(true);
    expect(await version()).toBe(NOW + 1_000);
  });
});

describe("a period closes with the configuration effective at its end", () => {
  const at = (month: number, day: number): number => Date.UTC(2031, month - 1, day);
  const JAN_15 = at(1, 15);

  /** Sends three signals on the tenth of each month up to this one, to a plan of `signalLimit`. */
  async function counterAfter(months: number, signalLimit = 2): Promise<TestCounter> {
    vi.setSystemTime(NOW);
    const counter = await newCounter({ signalLimit, anchorMs: Date.parse(ANCHOR), configVersion: NOW - 1 });
    for (let month = 1; month <= months; month++) {
      vi.setSystemTime(Math.max(NOW, at(month, 10)));
      // oxlint-disable-next-line no-await-in-loop -- month by month
      await counter.counted(3);
    }
    return counter;
  }

  async function usageOf(counter: TestCounter) {
    const usage = await counter.usage();
    return { ...usage, history: usage.history.toReversed() };
  }

  test.each([
    ["1 ms before its end", at(2, 1) - 1, { signalLimit: 50, streak: 0 }],
    ["at its end", at(2, 1), { signalLimit: 2, streak: 1 }],
    ["after its end", at(2, 5), { signalLimit: 2, streak: 1 }],
  ])("when a configuration of %s arrives before the period was closed", async (_, configVersion, closed) => {
    const counter = await counterAfter(1);
    vi.setSystemTime(at(2, 10));
    await counter.configure({ signalLimit: 50, configVersion });
    expect(await usageOf(counter)).toMatchObject({ signalLimit: 50, streak: closed.streak, history: [closed] });
  });

  const counts = { accepted: 2, held: 1 };
  test.each([
    [
      "judges closed periods again, with the same counts",
      { months: 4, limit: 2, config: { signalLimit: 2, overages: true, configVersion: at(2, 15) } },
      { streak: 3, extraRoomRemoved: true },
      { streak: 0, extraRoomRemoved: false },
      [
        { ...counts, overages: false, streak: 1 },
        { ...counts, overages: true, streak: 0 },
        { ...counts, overages: true, streak: 0 },
      ],
    ],
    [
      "leaves a period alone that ended at its time",
      { months: 3, limit: 2, config: { signalLimit: 50, configVersion: at(2, 1) } },
      { streak: 2, extraRoomRemoved: false },
      { streak: 0, extraRoomRemoved: false },
      [
        { signalLimit: 2, streak: 1 },
        { signalLimit: 50, streak: 0 },
      ],
    ],
    [
      "removes the extra room if the plan was smaller then",
      { months: 4, limit: 9, config: { signalLimit: 2, configVersion: JAN_15 } },
      { streak: 0, extraRoomRemoved: false },
      { streak: 3, extraRoomRemoved: true },
      [{ streak: 1 }, { streak: 2 }, { streak: 3 }],
    ],
    [
      "does not bring back extra room that three earlier periods removed",
      { months: 5, limit: 2, config: { signalLimit: 50, configVersion: at(4, 15) } },
      { streak: 0, extraRoomRemoved: true },
      { streak: 0, extraRoomRemoved: true },
      [{ streak: 1 }, { streak: 2 }, { streak: 3 }, { streak: 0 }],
    ],
  ])("and a late configuration %s", async (_, { months, limit, config }, before, after, history) => {
    const counter = await counterAfter(months, limit);
    expect(await usageOf(counter)).toMatchObject(before);
    await counter.configure(config);
    expect(await usageOf(counter)).toMatchObject({ ...after, history });
    await evictDurableObject(counter.stub);
    expect(await usageOf(counter)).toMatchObject({ ...after, history });
  });

  test("and an older or equal configuration changes nothing", async () => {
    const counter = await counterAfter(0);
    await counter.configure({ signalLimit: 20, configVersion: NOW + 5 });
    const before = await usageOf(counter);
    for (const configVersion of [NOW, NOW + 5]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await counter.configure({ signalLimit: 7, overages: true, configVersion });
    }
    expect(await usageOf(counter)).toEqual(before);
  });

  test("of its own, if the plan changed before the end and again after it, and no call came between", async () => {
    const late = await LateConfiguration.make(2, ANCHOR);
    for (let calls = 0; calls < 3; calls++) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect(await late.call()).toBe(calls < 2 ? "accepted" : "held");
    }
    vi.setSystemTime(at(2, 1) - 1_000);
    await late.putPlan({ signal_limit: 50 });
    vi.setSystemTime(at(2, 1) + 1_000);
    await late.putPlan({ signal_limit: 2 });
    // The first call is decided with the plan that the counter has, and brings both versions.
    expect(await late.call()).toBe("accepted");
    const { signalLimit, streak, history } = await late.usage();
    expect({ signalLimit, streak }).toEqual({ signalLimit: 2, streak: 0 });
    expect(history).toMatchObject([{ signalLimit: 50, streak: 0 }]);
  });

  describe("in every order of arrival", () => {
    interface Terms {
      signalLimit: number;
      paid: boolean;
    }
    interface State {
      plans: [Terms, Terms];
      plan: number;
      overages: boolean;
    }

    const ENDS = [at(2, 1), at(3, 1), at(4, 1)];
    const plan = fc.nat({ max: 1 });
    const changes = fc.uniqueArray(
      fc.record({
        end: fc.constantFrom(...ENDS),
        ms: fc.constantFrom(-2, -1, 0, 1, 2, -3_600_000, 3_600_000),
        change: fc.oneof(
          fc.record({ terms: fc.record({ signalLimit: fc.integer({ min: 1, max: 4 }), paid: fc.boolean() }), plan }),
          fc.record({
            plan: fc.option(plan, { nil: undefined }),
            overages: fc.option(fc.boolean(), { nil: undefined }),
          }),
        ),
      }),
      { selector: ({ end, ms }) => end + ms, maxLength: 8 },
    );
    /** For each version: its place in the order of arrival, and the month in which it arrives. */
    const arrivals = fc.array(fc.record({ place: fc.nat(), month: fc.integer({ min: 1, max: 5 }) }), {
      minLength: 9,
      maxLength: 9,
    });

    test("of the versions of its plans and of its workspace", async () => {
      await fc.assert(
        fc.asyncProperty(changes, arrivals, async (taken, arriving) => {
          vi.setSystemTime(NOW);
          const planIds = [await newPlan(2), await newPlan(3)] as const;
          const workspace = await newWorkspace({ plan: planIds[0], anchor: ANCHOR, key: null });
          const db = controlDatabase(env.DB);
          const first = (await workspace.counter.usage())?.configVersion ?? 0;
          const state: State = {
            plans: [
              { signalLimit: 2, paid: true },
              { signalLimit: 3, paid: true },
            ],
            plan: 0,
            overages: false,
          };
          /** What was in force from each moment on. */
          const moments = [{ atMs: first, ...state.plans[0], overages: false }];
          for (const { end, ms, change } of taken.toSorted((a, b) => a.end + a.ms - b.end - b.ms)) {
            const by = { actor: "operator", nowMs: end + ms };
            if ("terms" in change) {
              state.plans[change.plan] = change.terms;
              const rest = { name: "P", retentionDays: null, offeredTo: null, overagePrice: null };
              // oxlint-disable-next-line no-await-in-loop -- one after the other
              await putPlan(db, { id: planIds[change.plan] ?? "", ...rest, ...change.terms }, by);
            } else {
              state.plan = change.plan ?? state.plan;
              state.overages = change.overages ?? state.overages;
              const to = {
                plan: change.plan === undefined ? undefined : planIds[change.plan],
                overages: change.overages,
              };
              // oxlint-disable-next-line no-await-in-loop -- one after the other
              await updateWorkspace({ db, workspaceId: workspace.id, by }, to);
            }
            const { plans, plan: current, overages } = state;
            moments.push({ atMs: end + ms, ...(plans[current] ?? plans[0]), overages });
          }

          const { versions = [] } = (await workspaceConfig(db, workspace.id, first)) ?? {};
          const counter = new TestCounter(workspace.id);
          const coming = versions.map((version, index) => ({ version, ...arriving[index] }));
          coming.sort((a, b) => (a.place ?? 0) - (b.place ?? 0));
          for (let month = 1; month <= 5; month++) {
            vi.setSystemTime(Math.max(NOW, at(month, 10)));
            for (const arrived of coming.filter((each) => each.month === month)) {
              // oxlint-disable-next-line no-await-in-loop -- one after the other
              await counter.stub.configure([arrived.version]);
            }
            // oxlint-disable-next-line no-await-in-loop -- month by month
            if (month < 5) await counter.counted(3);
          }

          const inForce = (beforeMs: number) => moments.findLast(({ atMs }) => atMs < beforeMs) ?? moments[0];
          const { history, ...usage } = await counter.usage();
          let closed: Streak = { streak: 0, extraRoomRemoved: false };
          for (const period of history.toReversed()) {
            const terms = inForce(period.periodEndMs);
            if (terms === undefined) throw new Error("something is always in force");
            expect(period).toMatchObject({ signalLimit: terms.signalLimit, overages: terms.overages });
            closed = closePeriod(closed, { count: period.accepted + period.held, ...terms });
            expect(period.streak).toBe(closed.streak);
          }
          const { atMs: _, ...now } = moments.at(-1) ?? { atMs: 0 };
          expect(usage).toMatchObject({ ...closed, ...now });
        }),
        { numRuns: 60, endOnFailure: true },
      );
    }, 120_000);
  });
});
