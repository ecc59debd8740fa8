/** Spec §6.1: signals of unknown visitors in cold storage, and what becomes of them when the visitor is known. */
import { abortAllDurableObjects, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test, vi } from "vitest";
import {
  COLD_OBJECT_MAX_CHARACTERS,
  COLD_OBJECT_MAX_SIGNALS,
  LINK_PAGE_SIGNALS,
  LINK_STEP_OBJECTS,
  LINK_TURN_STEPS,
} from "../../src/limits.ts";
import { signalStore } from "../../src/workspace/objects.ts";
import { forgetCold, objectsToRemove, removed, scrub, scrubPending } from "../../src/store/cold-storage.ts";
import { ColdObjects } from "../../src/store/cold-objects.ts";
import { stepRuleJob } from "../../src/store/rule-jobs.ts";
import { bucketWith, coldState, gzip, linesOf, packNow, ring, ringUntilQuiet, withBindings } from "./cold.ts";
import { DAY, MINUTE, consumeMessages, deliver, messageOf } from "./deliver.ts";
import type { Delivered } from "./deliver.ts";
import { newWorkspace } from "./workspace.ts";
import type { TestWorkspace } from "./workspace.ts";

const PAGE = { cursor: null, limit: 200 };
const START = Date.now() - DAY;

let workspace: TestWorkspace;
beforeEach(async () => {
  workspace = await newWorkspace();
  await newRule("Visit", 2);
});

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

/** Visits of this many visitors in turn, one after the other. */
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

async function scoreOf(visitor: number): Promise<number | undefined> {
  return (await store().people({ email: `v${visitor}@example.com` }, PAGE)).items[0]?.score;
}

/** What is said of all signals, wherever they are. */
async function answers() {
  return {
    groups: (await store().events(PAGE)).items,
    totals: await store().totals(),
    people: (await store().people({}, PAGE)).items,
  };
}

describe("§6.1: signals of unknown visitors", () => {
  test("are packed, many visitors in one compressed object; groups, totals and traces stay what they were", async () => {
    await send(...visits(60, 20));
    await send({ id: "sig_user", payload: { event: "Visit", userId: "u-1" } });
    await send({ id: "sig_nobody", payload: { event: "Visit" } });
    const before = await answers();
    const trace = await store().signal("sig_7");
    expect(trace).toMatchObject({ status: "anonymous", payload: visitOf("a-7", 7), inColdStorage: false });
    await ring(workspace.id);
    const { keys, cold: packed, warm, objects } = await cold();
    expect(packed).toHaveLength(61);
    expect(warm).toEqual([]);
    expect(objects).toEqual([{ id: expect.any(String), state: "stored", scrub: 0 }]);
    expect(keys).toEqual([`cold/${workspace.id}/${String(objects[0]?.id)}`]);
    const lines = await linesOf(keys[0] ?? "");
    expect(lines).toHaveLength(61);
    expect(JSON.parse(lines[7] ?? "")).toEqual(["sig_7", JSON.stringify(visitOf("a-7", 7))]);
    expect(await answers()).toEqual(before);
    expect(await store().signal("sig_7")).toEqual({
      ...trace,
      inColdStorage: true,
      recordedAtMs: expect.any(Number),
    });
    expect(await workspace.operator("GET", "/signals/sig_7")).toMatchObject({
      in_cold_storage: true,
      payload: visitOf("a-7", 7),
    });
    expect(await workspace.operator("GET", "/signals/sig_7/proposed-rule")).toMatchObject({ event: "Visit" });
  });

  test("wait in the store for a little while; then all there are go along, full objects first", async () => {
    const count = 2 * COLD_OBJECT_MAX_SIGNALS + 10;
    await send(...visits(count, 30));
    const alarmMs = await runInDurableObject(workspace.store, (_, { storage }) => storage.getAlarm());
    expect(alarmMs).toBeGreaterThan(Date.now());
    await runInDurableObject(workspace.store, (instance) => instance.alarm());
    expect((await cold()).keys).toEqual([]);
    await ring(workspace.id);
    const { keys, warm } = await cold();
    expect(warm).toEqual([]);
    const sizes = await Promise.all(keys.map(async (key) => (await linesOf(key)).length));
    expect(sizes).toEqual([COLD_OBJECT_MAX_SIGNALS, COLD_OBJECT_MAX_SIGNALS, 10]);
  });

  test("that are large fill an object sooner", async () => {
    const text = "x".repeat(60_000);
    await send(
      ...Array.from({ length: 40 }, (_, n) => ({
        id: `sig_${n}`,
        ordinal: n + 1,
        payload: { event: "Visit", userId: "u-1", n, text },
      })),
    );
    await ring(workspace.id);
    const { keys } = await cold();
    const sizes = await Promise.all(keys.map(async (key) => (await linesOf(key)).join("").length));
    expect(sizes).toHaveLength(3);
    expect(Math.max(...sizes)).toBeLessThan(COLD_OBJECT_MAX_CHARACTERS + 2 * 65_536);
  });

  test("in very many objects are fetched from a few at a time", async () => {
    const count = 2 * LINK_STEP_OBJECTS + 1;
    for (let n = 0; n < count; n++) {
      await send(...visits(1, 1, n));
      await ring(workspace.id);
    }
    /** Objects that were read while so many signals were still to be linked. */
    const read = new Map<number, number>();
    const counting = async (call: string) => {
      if (call !== "get") return;
      const left = (await cold()).cold.length;
      read.set(left, (read.get(left) ?? 0) + 1);
    };
    await withBindings(workspace.id, { COLD: bucketWith({ before: counting }) });
    await send(identify(0));
    expect(await scoreOf(0)).toBe(2 * count);
    expect([...read]).toEqual([
      [count, LINK_STEP_OBJECTS],
      [count - LINK_STEP_OBJECTS, LINK_STEP_OBJECTS],
      [1, 1],
    ]);
  });

  test("are fetched when the visitor is known, and run through the rules as they are then; then their object goes", async () => {
    await send(...visits(40, 2));
    await ring(workspace.id);
    await newRule("V*", 10);
    await send(identify(0));
    expect(await scoreOf(0)).toBe(20 * 12);
    expect(await store().signal("sig_4")).toMatchObject({
      status: "processed",
      person: { email: "v0@example.com", by: "anonymous_id", linkedAtMs: expect.any(Number) },
      payload: visitOf("a-0", 4),
      inColdStorage: false,
      points: 12,
    });
    expect((await store().events(PAGE)).items).toMatchObject([{ count: 40, anonymous: 20 }]);
    await ring(workspace.id);
    expect(await cold()).toMatchObject({ keys: [expect.any(String)], jobs: 0 });
    await send(identify(1));
    await ring(workspace.id);
    expect(await scoreOf(1)).toBe(20 * 12);
    expect(await cold()).toEqual({ keys: [], objects: [], cold: [], warm: [], jobs: 0 });
  });

  test("of a user id likewise, and what is packed and what is not are linked together", async () => {
    const visit = (n: number): Delivered => {
      return { id: `sig_${n}`, payload: { event: "Visit", userId: "u-1", n }, at: START + n };
    };
    await send(visit(1), visit(2));
    await ring(workspace.id);
    await send(visit(3), identify(5, { userId: "u-1" }));
    await send(visit(4));
    expect(await scoreOf(5)).toBe(8);
  });

  test("10,000 of one visitor, over many objects, are linked in bounded steps, over crashes in between", async () => {
    const count = 10_000;
    for (let first = 0; first < count; first += 2_500) await send(...visits(2_500, 1, first));
    await ringUntilQuiet(workspace.id);
    expect((await cold()).keys).toHaveLength(count / COLD_OBJECT_MAX_SIGNALS);
    await send(identify(0));
    const turn = LINK_TURN_STEPS * LINK_PAGE_SIGNALS;
    expect(await scoreOf(0)).toBe(2 * turn);
    await evictDurableObject(workspace.store);
    for (let linked = turn; linked < count; linked += turn) await ring(workspace.id);
    expect(await scoreOf(0)).toBe(2 * count);
    await ringUntilQuiet(workspace.id);
    expect(await cold()).toEqual({ keys: [], objects: [], cold: [], warm: [], jobs: 0 });
    const { groups, totals } = await answers();
    expect(groups).toMatchObject([{ count, anonymous: 0 }]);
    expect(totals).toMatchObject({ processed: count + 1 });
  }, 30_000);

  test("an earlier twin of one that is packed takes its place, in cold storage too", async () => {
    const visit = (id: string, at: number): Delivered => ({ id, at: START + at, payload: visitOf("a-1", 1) });
    await send(visit("sig_2", 2));
    await ring(workspace.id);
    await send(visit("sig_1", 1));
    expect(await store().signal("sig_2")).toMatchObject({ status: "duplicate", duplicateOf: "sig_1", payload: null });
    expect(await store().signal("sig_1")).toMatchObject({ status: "anonymous", payload: visitOf("a-1", 1) });
    expect((await cold()).cold).toEqual(["sig_1"]);
    await send(identify(1));
    expect(await scoreOf(1)).toBe(2);
  });
});

describe("what happens while signals are being fetched", () => {
  /** The first time that the store reads an object. */
  function whileFetching(work: () => Promise<unknown>): Promise<void> {
    let left = 1;
    const during = async (call: string) => {
      if (call === "get" && left-- > 0) await work();
    };
    return withBindings(workspace.id, { COLD: bucketWith({ after: during }) });
  }

  test("a rule that is applied then is not missed", async () => {
    await send(...visits(4, 1));
    await ring(workspace.id);
    await whileFetching(async () => {
      const { id } = await newRule("V*", 10);
      await workspace.operator("POST", `/rules/${id}/apply`);
      const step = () =>
        runInDurableObject(workspace.store, (_, { storage }) =>
          storage.transactionSync(() => stepRuleJob(storage.sql, Date.now())),
        );
      await step();
      await step();
      expect(await workspace.operator("GET", `/rules/${id}/apply`)).toMatchObject({ status: "done", added: 0 });
    });
    await send(identify(0));
    expect(await scoreOf(0)).toBe(4 * 12);
  });

  test("a visitor who turns out to be somebody else: rules see the email of the person who gets the signals", async () => {
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
      const other = { ...identify(1, { anonymousId: "a-0" }), at: START + 61 * MINUTE };
      // Its own call of `link` would wait for the one that is under way.
      const stub = new Proxy(workspace.store, {
        get: (target, call: string) => (call === "link" ? async () => {} : Reflect.get(target, call)),
      });
      const bindings = { ...env, SIGNAL_STORE: { getByName: () => stub } } as unknown as Env;
      await consumeMessages([messageOf(workspace.id, [other])], { bindings });
    });
    await send(identify(0));
    await evictDurableObject(workspace.store);
    await ring(workspace.id);
    expect(await scoreOf(0)).toBe(0);
    expect(await scoreOf(1)).toBe(4 * 2);
  });

  test("signals that are moved there only now are linked all the same, and their object goes", async () => {
    await send(...visits(4, 1));
    await ring(workspace.id);
    await send(...visits(4, 1, 4));
    await whileFetching(() => packNow(workspace.id));
    await send(identify(0));
    expect(await scoreOf(0)).toBe(16);
    await withBindings(workspace.id);
    await ringUntilQuiet(workspace.id);
    expect(await cold()).toMatchObject({ keys: [], objects: [] });
  });
});

describe("an outage of R2 delays, and loses nothing", () => {
  const broken = bucketWith({
    before: () => {
      throw new Error("R2 is down");
    },
  });

  test("signals that cannot be packed stay in the store, and are linked from there", async () => {
    await withBindings(workspace.id, { COLD: broken });
    await send(...visits(20, 2));
    await ring(workspace.id);
    await ring(workspace.id);
    expect(await cold()).toMatchObject({ keys: [], warm: { length: 20 } });
    await send(identify(0));
    expect(await scoreOf(0)).toBe(20);
    await evictDurableObject(workspace.store);
    await ringUntilQuiet(workspace.id);
    expect(await cold()).toMatchObject({ cold: { length: 10 }, objects: [{ state: "stored" }] });
    await send(identify(1));
    expect(await scoreOf(1)).toBe(20);
  });

  test("R2 is let alone for a while after a failure, and everything else goes on", async () => {
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
    await vi.waitFor(async () => expect(await store().signal("sig_held")).toMatchObject({ status: "purged" }));
    expect(calls).toBe(1);
    const alarmMs = await runInDurableObject(workspace.store, (_, { storage }) => storage.getAlarm());
    expect(alarmMs).toBeGreaterThan(Date.now() + 30_000);
  });

  test("signals that cannot be fetched wait for it; the batch that needs them is recorded, and others are linked", async () => {
    await send(...visits(20, 2));
    await ring(workspace.id);
    await withBindings(workspace.id, { COLD: broken });
    const result = await send(identify(0), { id: "sig_new", payload: visitOf("a-0", 900) });
    expect(result.retryMessages).toEqual([]);
    expect(await scoreOf(0)).toBe(2);
    await send({ id: "sig_warm", payload: visitOf("a-7", 901) }, identify(7));
    expect(await scoreOf(7)).toBe(2);
    expect(await cold()).toMatchObject({ jobs: 1, cold: { length: 20 } });
    let calls = 0;
    await withBindings(workspace.id, { COLD: bucketWith({ before: () => void calls++ }) });
    await send({ id: "sig_other", payload: visitOf("a-8", 902) }, identify(8));
    expect(await scoreOf(8)).toBe(2);
    // Not with every batch: later, when R2 may be back.
    expect(calls).toBe(0);
    await withBindings(workspace.id, { COLD: broken });
    expect(await workspace.operator("GET", "/signals/sig_4")).toMatchObject({ in_cold_storage: true, payload: null });
    await expect(workspace.operator("GET", "/signals/sig_4/proposed-rule")).rejects.toThrow("503");
    await evictDurableObject(workspace.store);
    await ring(workspace.id);
    expect(await scoreOf(0)).toBe(22);
    expect((await cold()).jobs).toBe(0);
  });

  test("an R2 that never answers counts as one that fails", async () => {
    await send(...visits(4, 2));
    await ring(workspace.id);
    await withBindings(workspace.id, { COLD: broken });
    await send(identify(0));
    await withBindings(workspace.id, { COLD: bucketWith({ before: () => new Promise<void>(() => {}) }) });
    await runInDurableObject(workspace.store, async (instance, { storage }) => {
      storage.sql.exec("UPDATE link_jobs SET due_at = 1");
      vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
      let linked = false;
      void instance.link().then(() => (linked = true));
      await vi.waitFor(() => {
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

/** Deletes the signal that came first, and has its copy in cold storage removed. */
async function eraseFirst(): Promise<void> {
  await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
    const rows = sql.exec<{ cold_object: string | null }>(
      "DELETE FROM signals WHERE seq = (SELECT min(seq) FROM signals) RETURNING cold_object",
    );
    scrub(
      sql,
      [...rows].map((row) => row.cold_object),
    );
  });
}

describe("objects", () => {
  test("killed when R2 has taken an object and before the store knows: all is packed again, nothing stays behind", async () => {
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
    await vi.waitFor(() => expect(taken).toBe(true));
    await abortAllDurableObjects();
    expect(await killed).toBe("killed");
    expect(await cold()).toMatchObject({ keys: { length: 1 }, warm: { length: 10 }, objects: [{ state: "writing" }] });
    const pending = (ask: boolean) =>
      runInDurableObject(workspace.store, (_, { storage }) => {
        if (ask) scrub(storage.sql, []);
        return scrubPending(storage.sql);
      });
    // It may hold a copy of anything.
    expect(await pending(true)).toBe(1);
    await ringUntilQuiet(workspace.id);
    expect(await pending(false)).toBe(0);
    const { keys, objects } = await cold();
    expect(objects).toMatchObject([{ state: "stored" }]);
    expect(keys).toEqual([`cold/${workspace.id}/${String(objects[0]?.id)}`]);
    await send(identify(0));
    expect(await scoreOf(0)).toBe(10);
  });

  test("that R2 takes so late that they have been given up: no signal waits in one that is removed", async () => {
    await send(...visits(10, 2));
    let left = 1;
    const late = bucketWith({
      after: async (call) => {
        if (call !== "put" || left-- === 0) return;
        await runInDurableObject(workspace.store, async (_, { storage }) => {
          storage.sql.exec("UPDATE cold_objects SET at = 0");
          const givenUp = objectsToRemove(storage.sql, Date.now(), 10);
          await new ColdObjects(env.COLD, workspace.id).remove(givenUp);
          removed(storage.sql, givenUp);
        });
      },
    });
    await withBindings(workspace.id, { COLD: late });
    await ring(workspace.id);
    await withBindings(workspace.id);
    await ringUntilQuiet(workspace.id);
    const { keys, objects, cold: packed } = await cold();
    expect(packed).toHaveLength(10);
    expect(keys).toEqual([`cold/${workspace.id}/${String(objects[0]?.id)}`]);
    await send(identify(0), identify(1));
    expect([await scoreOf(0), await scoreOf(1)]).toEqual([10, 10]);
  });

  test("that hold lines of signals linked while they were written are rewritten without them", async () => {
    await send(...visits(10, 2));
    const during = bucketWith({
      after: async (call) => {
        if (call === "put") await send(identify(0));
      },
    });
    await withBindings(workspace.id, { COLD: during });
    await ring(workspace.id);
    expect(await scoreOf(0)).toBe(10);
    expect(await cold()).toMatchObject({ objects: [{ state: "stored", scrub: 1 }], cold: { length: 5 } });
    await withBindings(workspace.id);
    await ringUntilQuiet(workspace.id);
    const [key = ""] = (await cold()).keys;
    expect((await linesOf(key)).map((line) => line !== "")).toEqual(Array.from({ length: 10 }, (_, n) => n % 2 === 1));
    await send(identify(1));
    expect(await scoreOf(1)).toBe(10);
  });

  test("scrub: no copy of what is deleted stays, in spite of failures; its neighbours can still be linked", async () => {
    await send(...visits(30, 3));
    await ring(workspace.id);
    await send(identify(0));
    const forget = (personEmail: string) =>
      runInDurableObject(workspace.store, (_, { storage }) =>
        storage.transactionSync(() => {
          const rows = storage.sql.exec<{ cold_object: string | null }>(
            `DELETE FROM signals WHERE person_id = (SELECT id FROM people WHERE email = ?) RETURNING cold_object`,
            personEmail,
          );
          scrub(
            storage.sql,
            [...rows].map((row) => row.cold_object),
          );
          return scrubPending(storage.sql);
        }),
      );
    const pending = () => runInDurableObject(workspace.store, (_, { storage }) => scrubPending(storage.sql));
    const text = async () => (await Promise.all((await cold()).keys.map(linesOf))).flat().join("\n");
    expect(await text()).toContain("a-0");
    expect(await forget("v0@example.com")).toBe(1);
    for (const call of ["get", "put"]) {
      const failing = bucketWith({
        after: (called) => {
          if (called === call) throw new Error("R2 is down");
        },
      });
      await withBindings(workspace.id, { COLD: failing });
      await ring(workspace.id);
      expect(await pending()).toBe(1);
      await evictDurableObject(workspace.store);
    }
    await ring(workspace.id);
    expect(await pending()).toBe(0);
    expect(await text()).not.toContain("a-0");
    expect(await text()).toContain("a-1");
    await send(identify(1));
    expect(await scoreOf(1)).toBe(20);
    // The last that waits is linked, and all of them are deleted: the object goes.
    await send(identify(2));
    expect(await forget("v2@example.com")).toBe(1);
    await ring(workspace.id);
    expect(await pending()).toBe(0);
    expect((await cold()).keys).toEqual([]);
  });

  test("a rewriting that R2 takes late does not bring back what a later one removed", async () => {
    await send(...visits(9, 3));
    await ring(workspace.id);
    let late: (() => Promise<unknown>) | null = null;
    const slow = new Proxy(env.COLD, {
      get: (bucket, property) =>
        property === "put"
          ? (...given: Parameters<R2Bucket["put"]>) => {
              late = () => bucket.put(...given);
              return Promise.reject(new Error("no answer"));
            }
          : (Reflect.get(bucket, property) as (...given: unknown[]) => unknown).bind(bucket),
    });
    await eraseFirst();
    await withBindings(workspace.id, { COLD: slow });
    await ring(workspace.id);
    await evictDurableObject(workspace.store);
    await eraseFirst();
    await ring(workspace.id);
    const [key = ""] = (await cold()).keys;
    const lines = await linesOf(key);
    expect(lines.slice(0, 3)).toEqual(["", "", expect.stringContaining("sig_2")]);
    await (late as unknown as () => Promise<unknown>)();
    expect(await linesOf(key)).toEqual(lines);
  });

  test("what is deleted while an object is being rewritten is removed with the next time", async () => {
    await send(...visits(9, 3));
    await ring(workspace.id);
    const pending = () => runInDurableObject(workspace.store, (_, { storage }) => scrubPending(storage.sql));
    await eraseFirst();
    const during = bucketWith({ before: (call) => (call === "put" ? eraseFirst() : undefined) });
    await withBindings(workspace.id, { COLD: during });
    await ring(workspace.id);
    const [key = ""] = (await cold()).keys;
    expect((await linesOf(key))[1]).toContain("sig_1");
    expect(await pending()).toBe(1);
    // An earlier attempt that R2 takes only now, between the reading and the writing of this one.
    const between = bucketWith({
      before: async (call) => {
        if (call !== "put") return;
        const text = (await linesOf(key)).map((line, n) => (n === 0 ? "" : line)).join("\n");
        await env.COLD.put(key, await gzip(`${text} `));
      },
    });
    await withBindings(workspace.id, { COLD: between });
    await ring(workspace.id);
    expect(await pending()).toBe(1);
    await evictDurableObject(workspace.store);
    await ring(workspace.id);
    expect(await pending()).toBe(0);
    const lines = await linesOf(key);
    expect(lines.map((line) => line !== "")).toEqual(Array.from({ length: 9 }, (_, n) => n >= 2));
  });

  test("forgetCold: goes with the last signal that waits in it", async () => {
    await send(...visits(10, 2));
    await ring(workspace.id);
    const forget = (count: number) =>
      runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
        const rows = sql.exec<{ cold_object: string | null }>(
          "DELETE FROM signals WHERE seq IN (SELECT seq FROM signals LIMIT ?) RETURNING cold_object",
          count,
        );
        forgetCold(
          sql,
          [...rows].map((row) => row.cold_object),
        );
      });
    await forget(9);
    await ring(workspace.id);
    expect((await cold()).keys).toHaveLength(1);
    await forget(1);
    await ring(workspace.id);
    expect(await cold()).toMatchObject({ keys: [], objects: [] });
  });
});
