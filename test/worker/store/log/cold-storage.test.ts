/** Spec §6.1: signals of unknown visitors in cold storage, and their linking once the visitor is known. */
import { abortAllDurableObjects, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { COLD_AFTER_MS } from "../../../../src/store/log/cold.ts";
import { CHORE_REST_MS } from "../../../../src/store/chores.ts";
import { ColdObjects } from "../../../../src/store/log/cold.ts";
import { stepRuleJob } from "../../../../src/store/rules/rule-jobs.ts";
import type { StoreState } from "../../../../src/store/state/store-state.ts";
import { signalStore } from "../../../../src/workspace/objects.ts";
import { amount } from "../../../support/amount.ts";
import { expectToAddUp } from "../../../support/read-store.ts";
import { askRetentionNever, bucketWith, coldState, ring, ringUntilQuiet, withBindings } from "../../../support/cold.ts";
import { DAY, MINUTE, consumeMessages, deliver, messageOf } from "../../../support/deliver.ts";
import type { Delivered } from "../../../support/deliver.ts";
import { until } from "../../../support/until.ts";
import { newWorkspace } from "../../../support/workspace.ts";
import type { TestWorkspace } from "../../../support/workspace.ts";

/** Signals of one visitor: more than are linked in one step. */
const MANY = amount(5_000, 10_000);
const PAGE = { cursor: null, limit: 200 };
/** Old enough for their payloads to move. */
const START = Date.now() - 3 * DAY;

let workspace: TestWorkspace;
beforeEach(async () => {
  workspace = await newWorkspace();
  await newRule("Visit", 2);
});
afterEach(() => expectToAddUp(workspace.id));

const store = () => signalStore(env, workspace.id);
const send = (...signals: Delivered[]) => deliver(workspace.id, signals);
const cold = () => coldState(workspace.id);

function newRule(event: string, points: number) {
  const rule = { name: `${event} ${points}`, event, match: "all", conditions: [], scoring_signal: event, points };
  return workspace.operator<{ id: string }>("POST", "/rules", rule);
}

const visitOf = (anonymousId: string, n: number) => {
  return { type: "track", event: "Visit", anonymousId, messageId: `m-${n}`, properties: { n, text: "line\none" } };
};

/** Visits of this many visitors in turn. */
function visits(count: number, visitors: number, first = 0): Delivered[] {
  return Array.from({ length: count }, (_, index) => {
    const n = first + index;
    return { id: `sig_${n}`, payload: visitOf(`a-${n % visitors}`, n), at: START + n, ordinal: n + 1 };
  });
}

function identify(visitor: number, ids: object = { anonymousId: `a-${visitor}` }): Delivered {
  const traits = { email: `v${visitor}@example.com` };
  return { id: `sig_identify_${visitor}`, payload: { type: "identify", ...ids, traits }, at: START + 60 * MINUTE };
}

/** From here on linking evaluates the rules again, which needs payloads. */
const changeRules = () => newRule("Never", 1);

async function scoreOf(visitor: number): Promise<number | undefined> {
  return (await store().people({ email: `v${visitor}@example.com` }, PAGE)).items[0]?.score;
}

/** A step of the rules' jobs, while the store's alarm is busy with another job. */
function stepRules(): Promise<unknown> {
  return runInDurableObject(workspace.store, (instance, { storage }) => {
    const { state } = instance as unknown as { state: StoreState };
    return stepRuleJob(state, new ColdObjects(env.COLD, workspace.id), storage);
  });
}

/** The results of all reads, with signals in the store or in R2. */
async function answers() {
  return {
    groups: (await store().events(PAGE)).items,
    totals: await store().totals(),
    people: (await store().people({}, PAGE)).items,
  };
}

describe("§6.1: signals of unknown visitors", () => {
  test("stay in the store while they are young, with an alarm for later", async () => {
    const at = Date.now();
    await send({ id: "sig_1", payload: visitOf("a-1", 1), at });
    await askRetentionNever(workspace.id);
    await ring(workspace.id, { setNext: true });
    expect(await cold()).toMatchObject({ keys: [], warm: [1] });
    const alarmMs = await runInDurableObject(workspace.store, (_, { storage }) => storage.getAlarm());
    expect(alarmMs).toBe(at + COLD_AFTER_MS);
  });

  test("move at once while the store is more than half full, except open lines", async () => {
    const at = Date.now();
    await send({ id: "sig_1", payload: visitOf("a-1", 1), at });
    await ring(workspace.id);
    await send({ id: "sig_2", payload: visitOf("a-1", 2), at });
    const bytes = await runInDurableObject(workspace.store, (_, { storage }) => storage.sql.databaseSize);
    await withBindings(workspace.id, { STORE_MAX_BYTES: String(2 * bytes) });
    await ring(workspace.id, { seal: false });
    expect(await cold()).toMatchObject({ keys: [], warm: [1] });
    await withBindings(workspace.id, { STORE_MAX_BYTES: String(2 * bytes - 1) });
    await ring(workspace.id, { seal: false });
    expect(await cold()).toMatchObject({ keys: { length: 1 }, cold: [1], warm: [] });
    expect(await store().signal("sig_1")).toMatchObject({ payload: visitOf("a-1", 1), inColdStorage: true });
    expect(await store().signal("sig_2")).toMatchObject({ payload: visitOf("a-1", 2), inColdStorage: false });
  });

  test("set the alarm as soon as the store is more than half full", async () => {
    await withBindings(workspace.id, { STORE_MAX_BYTES: "1000000" });
    const text = () => Buffer.from(crypto.getRandomValues(new Uint8Array(30_000))).toString("base64");
    const large = (n: number): Delivered => ({ id: `sig_${n}`, payload: { ...visitOf("a-1", n), text: text() } });
    await send(...Array.from({ length: 20 }, (_, n) => large(n)));
    await until(async () => expect(await cold()).toMatchObject({ keys: [expect.any(String)], warm: [] }));
    expect((await cold()).cold.length).toBeGreaterThan(5);
  });

  test("have one object per day, so that retention drops them together", async () => {
    for (const days of [0, 1, 2]) {
      await send(...visits(10, 2, days * 10).map((signal) => ({ ...signal, at: START - (5 - days) * DAY })));
      await ring(workspace.id);
    }
    await ringUntilQuiet(workspace.id);
    expect((await cold()).keys).toHaveLength(3);
  });

  test("are fetched by user id, and linked together with signals in the store", async () => {
    const visit = (n: number): Delivered => {
      return { id: `sig_${n}`, payload: { event: "Visit", userId: "u-1", n }, at: START + n };
    };
    await send(visit(1), visit(2));
    await ring(workspace.id);
    await send(visit(3), identify(5, { userId: "u-1" }));
    await send(visit(4));
    expect(await scoreOf(5)).toBe(8);
  });

  test(`are linked in bounded steps across crashes, ${MANY} of one visitor`, async () => {
    const count = MANY;
    for (let first = 0; first < count; first += 2_500) await send(...visits(2_500, 1, first));
    await ringUntilQuiet(workspace.id);
    expect((await cold()).warm).toEqual([]);
    // The alarm is not set, because it would continue at once.
    await runInDurableObject(workspace.store, (_, { storage }) => {
      storage.setAlarm = () => Promise.resolve();
    });
    await send(identify(0));
    const linked = async () => (await scoreOf(0)) ?? 0;
    // The alarm continues at once, and lets other work run in between.
    const first = await linked();
    expect(first).toBeGreaterThan(0);
    expect(first).toBeLessThan(2 * count);
    await evictDurableObject(workspace.store);
    await ringUntilQuiet(workspace.id);
    expect(await linked()).toBe(2 * count);
    const { groups, totals } = await answers();
    expect(groups).toMatchObject([{ count, anonymous: 0 }]);
    expect(totals).toMatchObject({ processed: count + 1 });
  });
});

describe("while signals are being fetched,", () => {
  /** The first time that the store reads an object. */
  function whileFetching(work: () => Promise<unknown>): Promise<void> {
    let left = 1;
    const during = async (call: string) => {
      if (call === "get" && left-- > 0) await work();
    };
    return withBindings(workspace.id, { COLD: bucketWith({ after: during }) });
  }

  test("a rule that starts to apply is not missed", async () => {
    await send(...visits(4, 1));
    await ring(workspace.id);
    await changeRules();
    await whileFetching(async () => {
      const { id } = await newRule("V*", 10);
      await workspace.operator("POST", `/rules/${id}/apply`);
      await stepRules();
      expect(await workspace.operator("GET", `/rules/${id}/apply`)).toMatchObject({ status: "done", added: 0 });
    });
    await send(identify(0));
    expect(await scoreOf(0)).toBe(4 * 12);
  });

  test("rules see the email of the person who gets the signals in the end", async () => {
    await workspace.operator("POST", "/rules", {
      name: "first",
      event: "Visit",
      match: "all",
      conditions: [{ path: "email", operator: "starts_with", value: "v0@" }],
      scoring_signal: "first",
      points: 100,
    });
    await send(...visits(4, 1));
    await ring(workspace.id);
    await whileFetching(async () => {
      // Received before the signal in progress: it is the visitor's first claim.
      const second = { ...identify(1, { anonymousId: "a-0" }), at: START + 59 * MINUTE };
      // Its own call of `link` would wait for the one in progress.
      const stub = new Proxy(workspace.store, {
        get: (target, call: string) => (call === "link" ? async () => {} : Reflect.get(target, call)),
      });
      const bindings = { ...env, SIGNAL_STORE: { getByName: () => stub } } as unknown as Env;
      await consumeMessages([messageOf(workspace.id, [second])], { bindings });
    });
    await send(identify(0));
    await evictDurableObject(workspace.store);
    await ring(workspace.id);
    expect(await scoreOf(0)).toBe(0);
    expect(await scoreOf(1)).toBe(4 * 2);
  });

  test("a rewritten segment is read again", async () => {
    await send(...visits(4, 2));
    await ring(workspace.id);
    await changeRules();
    await whileFetching(() => store().deletePerson("del_1", "stranger@example.com"));
    await send(identify(0));
    expect(await scoreOf(0)).toBe(4);
    await send(identify(1));
    expect(await scoreOf(1)).toBe(4);
  });
});

describe("an outage", () => {
  const broken = bucketWith({
    before: () => {
      throw new Error("R2 is down");
    },
  });

  test("of R2 leaves payloads in the store, and links them from there", async () => {
    await withBindings(workspace.id, { COLD: broken });
    await send(...visits(20, 2));
    await ring(workspace.id);
    await ring(workspace.id);
    expect(await cold()).toMatchObject({ keys: [], warm: { length: 1 } });
    await send(identify(0));
    expect(await scoreOf(0)).toBe(20);
    await evictDurableObject(workspace.store);
    await ringUntilQuiet(workspace.id);
    await ring(workspace.id);
    expect(await cold()).toMatchObject({ cold: { length: 2 }, warm: [] });
    await send(identify(1));
    expect(await scoreOf(1)).toBe(20);
  });

  test("of R2 delays the next call of R2, and nothing else", async () => {
    let calls = 0;
    const counted = bucketWith({
      before: () => {
        calls++;
        throw new Error("R2 is down");
      },
    });
    await withBindings(workspace.id, { COLD: counted });
    await send(...visits(5, 1));
    for (let rings = 0; rings < 3; rings++) await ring(workspace.id, { setNext: true });
    await send({ id: "sig_held", payload: visitOf("a-9", 9), verdict: "held", periodEnd: Date.now() + 40 });
    await until(async () => expect(await store().signal("sig_held")).toMatchObject({ status: "purged" }));
    expect(calls).toBe(1);
    const alarmMs = await runInDurableObject(workspace.store, (_, { storage }) => storage.getAlarm());
    expect(alarmMs).toBeGreaterThan(Date.now() + 30_000);
  });

  test("of R2 delays linking of cold signals, while the batch is recorded and others are linked", async () => {
    await send(...visits(20, 2));
    await ring(workspace.id);
    await changeRules();
    await withBindings(workspace.id, { COLD: broken });
    const result = await send(identify(0), { id: "sig_new", payload: visitOf("a-0", 900) });
    expect(result.retryMessages).toEqual([]);
    expect(await scoreOf(0)).toBe(2);
    await send({ id: "sig_warm", payload: visitOf("a-7", 901) }, identify(7));
    expect(await scoreOf(7)).toBe(2);
    expect(await cold()).toMatchObject({ jobs: 1, cold: { length: 1 } });
    let calls = 0;
    await withBindings(workspace.id, { COLD: bucketWith({ before: () => void calls++ }) });
    await send({ id: "sig_other", payload: visitOf("a-8", 902) }, identify(8));
    expect(await scoreOf(8)).toBe(2);
    // The store retries R2 later, not with every batch.
    expect(calls).toBe(0);
    await withBindings(workspace.id, { COLD: broken });
    expect(await workspace.operator("GET", "/signals/sig_4")).toMatchObject({ in_cold_storage: true, payload: null });
    await expect(workspace.operator("GET", "/signals/sig_4/proposed-rule")).rejects.toThrow("503");
    await evictDurableObject(workspace.store);
    await ring(workspace.id);
    expect(await scoreOf(0)).toBe(22);
    expect((await cold()).jobs).toBe(0);
  });

  test("of D1 delays linking until a later alarm", async () => {
    await send(...visits(4, 2));
    await changeRules();
    const silent = new Proxy(env.DB, {
      get: () => () => {
        throw new Error("D1 does not answer");
      },
    });
    await withBindings(workspace.id, { DB: silent });
    await send(identify(0));
    await runInDurableObject(workspace.store, async (instance, { storage }) => {
      // The job is due, as the alarm would find it.
      storage.sql.exec("UPDATE link_jobs SET due_at = 1");
      await storage.deleteAlarm();
      await instance.alarm();
      expect(await storage.getAlarm()).toBeGreaterThan(Date.now() + CHORE_REST_MS / 2);
    });
    expect(await cold()).toMatchObject({ jobs: 1 });
    await evictDurableObject(workspace.store);
    await ring(workspace.id);
    expect(await scoreOf(0)).toBe(4);
  });

  test("of R2 is assumed if R2 never answers", async () => {
    await send(...visits(4, 2));
    await ring(workspace.id);
    await changeRules();
    await withBindings(workspace.id, { COLD: broken });
    await send(identify(0));
    let asked = false;
    const silent = bucketWith({
      before: () => {
        asked = true;
        return new Promise<void>(() => {});
      },
    });
    await withBindings(workspace.id, { COLD: silent });
    await runInDurableObject(workspace.store, async (instance, { storage }) => {
      storage.sql.exec("UPDATE link_jobs SET due_at = 1");
      vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
      let linked = false;
      void instance.link().then(() => (linked = true));
      // The time limit of R2 must expire, not that of D1.
      await until(() => expect(asked).toBe(true));
      await until(() => {
        vi.runAllTimers();
        expect(linked).toBe(true);
      });
    }).finally(() => vi.useRealTimers());
    expect((await cold()).jobs).toBe(1);
    await withBindings(workspace.id);
    await ring(workspace.id);
    expect(await scoreOf(0)).toBe(4);
  });
});

describe("objects of cold storage", () => {
  test("are written again, and nothing stays behind, after a kill before R2 has confirmed", async () => {
    let taken = false;
    const stuck = bucketWith({
      after: () => {
        taken = true;
        return new Promise<void>(() => {});
      },
    });
    await send(...visits(10, 2));
    await withBindings(workspace.id, { COLD: stuck });
    const killed = ring(workspace.id).catch(() => "killed");
    await until(() => expect(taken).toBe(true));
    await abortAllDurableObjects();
    expect(await killed).toBe("killed");
    expect(await cold()).toMatchObject({ keys: { length: 1 }, warm: [1], objects: [{ state: "writing" }] });
    await ringUntilQuiet(workspace.id);
    const { keys, objects } = await cold();
    expect(objects).toMatchObject([{ state: "stored" }]);
    expect(keys).toEqual([`cold/${workspace.id}/${String(objects[0]?.key)}`]);
    await send(identify(0));
    expect(await scoreOf(0)).toBe(10);
  });

  test("are not used if R2 stores them after they were abandoned", async () => {
    await send(...visits(10, 2));
    let left = 1;
    const late = async (call: string) => {
      if (call !== "put" || left-- === 0) return;
      // Abandoned in the meantime, and removed.
      await runInDurableObject(workspace.store, (_, { storage: { sql } }) => sql.exec("DELETE FROM cold_objects"));
    };
    await withBindings(workspace.id, { COLD: bucketWith({ before: late }) });
    await ring(workspace.id);
    expect(await cold()).toMatchObject({ cold: [], warm: [1], objects: [] });
    await withBindings(workspace.id);
    await ring(workspace.id);
    expect(await cold()).toMatchObject({ cold: [1], warm: [] });
    await send(identify(0));
    expect(await scoreOf(0)).toBe(10);
  });
});
