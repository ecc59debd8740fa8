/** Cold storage: moving, linking (spec §6.1), outages, crashes, and deletions at the same time. */
import { abortAllDurableObjects, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { beginDeletion, findDeletion } from "../../../../src/store/deletion/person-deletions.ts";
import { deleteExpired, setRetention } from "../../../../src/store/deletion/retention.ts";
import { COLD_AFTER_MS, ColdObjects } from "../../../../src/store/log/cold.ts";
import { stepRuleJob } from "../../../../src/store/rules/rule-jobs.ts";
import type { StoreState } from "../../../../src/store/state/store-state.ts";
import { signalStore } from "../../../../src/use-cases/objects.ts";
import { amount } from "../../../support/amount.ts";
import { textOfBucket } from "../../../support/everything.ts";
import { expectLogged } from "../../../support/logged.ts";
import { expectToAddUp } from "../../../support/read-store.ts";
import { restart } from "../../../support/restart.ts";
import { rowsRead } from "../../../support/sql-cost.ts";
import { afterDeletion } from "../../../../src/store/log/line.ts";
import { openState } from "../../../support/log.ts";
import type { VerifiedStore } from "../../../support/known-work.ts";
import { inStore, TestStore } from "../../../support/store.ts";
import { askRetentionNever, bucketWith, coldState, ring, ringUntilQuiet, withBindings } from "../../../support/cold.ts";
import { DAY, MINUTE, consumeMessages, deliver, messageOf, type Delivered } from "../../../support/deliver.ts";
import { until } from "../../../support/until.ts";
import { newWorkspace, type TestWorkspace } from "../../../support/workspace.ts";

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

const stub = () => signalStore(env, workspace.id);
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

function identify(visitor: number, anonymousId = `a-${visitor}`): Delivered {
  const payload = { type: "identify", anonymousId, traits: { email: `v${visitor}@example.com` } };
  return { id: `sig_identify_${visitor}`, payload, at: START + 60 * MINUTE };
}

/** From here on linking evaluates the rules again, which needs payloads. */
const changeRules = () => newRule("Never", 1);

async function scoreOf(visitor: number): Promise<number | undefined> {
  return (await stub().people({ email: `v${visitor}@example.com` }, PAGE)).items[0]?.score;
}

/** A step of a rule job, while the store's alarm is busy with another chore. */
function stepRules(): Promise<unknown> {
  return runInDurableObject(workspace.store, (instance, { storage }) => {
    const { state } = instance as unknown as { state: StoreState };
    return stepRuleJob(state, storage);
  });
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

  test("have their own time also if a deletion takes younger ones, which were recorded earlier", async () => {
    const at = Date.now();
    await send({ id: "sig_1", payload: { event: "E", email: "ann@example.com" }, at });
    await ring(workspace.id);
    await send({ id: "sig_2", payload: { event: "E", email: "bob@example.com" }, at: at - 60 * MINUTE });
    await ring(workspace.id);
    await stub().deletePerson("del_1", "ann@example.com");
    const unknown = await runInDurableObject(workspace.store, (store) =>
      (store as unknown as VerifiedStore).unknownWork(),
    );
    expect([(await cold()).warm, unknown]).toEqual([[2], []]);
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
    expect(await stub().signal("sig_1")).toMatchObject({
      payload: JSON.stringify(visitOf("a-1", 1)),
      inColdStorage: true,
    });
    expect(await stub().signal("sig_2")).toMatchObject({
      payload: JSON.stringify(visitOf("a-1", 2)),
      inColdStorage: false,
    });
  });

  test("have objects of one day and of 2 MB, so that retention drops an object whole", () =>
    inStore(async (store) => {
      const noon = Math.floor(START / DAY) * DAY - DAY / 2;
      const noise = () => Buffer.from(crypto.getRandomValues(new Uint8Array(60_000))).toString("base64");
      store.record(noon, signalOf("ann@example.com"));
      store.seal();
      store.record(noon + MINUTE, signalOf("bob@example.com"));
      store.seal();
      for (let n = 0; n < 50; n++)
        store.record(noon + DAY, { payload: { event: "E", email: "a@example.com", n, text: noise() } });
      store.seal();
      await store.workOnCold(noon + 5 * DAY);
      const sizes = store.sql.exec(
        "SELECT count(*), sum(cold_bytes) FROM signals_segments GROUP BY cold ORDER BY first_seq",
      );
      const [first, second, third, ...others] = [...sizes.raw<[segments: number, bytes: number]>()];
      expect([first?.[0], others]).toEqual([2, []]);
      expect(second?.[1]).toBeLessThan(2_200_000);
      expect(third?.[1]).toBeGreaterThan(100_000);
    }));

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
    expect((await stub().events(PAGE)).items).toMatchObject([{ count, anonymous: 0 }]);
    expect(await stub().totals()).toMatchObject({ processed: count + 1 });
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
      const second = { ...identify(1, "a-0"), at: START + 59 * MINUTE };
      // Its own call of `link` would wait for the one in progress.
      const proxy = new Proxy(workspace.store, {
        get: (target, call: string) => (call === "link" ? async () => {} : Reflect.get(target, call)),
      });
      const bindings = { ...env, SIGNAL_STORE: { getByName: () => proxy } } as unknown as Env;
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
    await whileFetching(() => stub().deletePerson("del_1", "stranger@example.com"));
    await send(identify(0));
    expect(await scoreOf(0)).toBe(4);
    await send(identify(1));
    expect(await scoreOf(1)).toBe(4);
  });
});

describe("an outage", () => {
  let calls = 0;
  const broken = bucketWith({
    before: () => {
      calls++;
      throw new Error("R2 is down");
    },
  });
  beforeEach(() => void (calls = 0));

  test("of R2 delays the next call of R2, and nothing else", async () => {
    expectLogged("chore_failed");
    await withBindings(workspace.id, { COLD: broken });
    await send(...visits(5, 1));
    for (let rings = 0; rings < 3; rings++) await ring(workspace.id, { setNext: true });
    await send({ id: "sig_held", payload: visitOf("a-9", 9), verdict: "held", periodEnd: Date.now() + 40 });
    await until(async () => expect(await stub().signal("sig_held")).toMatchObject({ status: "purged" }));
    expect(calls).toBe(1);
    expect(await cold()).toMatchObject({ keys: [], warm: [1] });
    const alarmMs = await runInDurableObject(workspace.store, (_, { storage }) => storage.getAlarm());
    expect(alarmMs).toBeGreaterThan(Date.now() + 30_000);
  });

  test("of R2 delays linking of cold signals, while batches are recorded and do not ask R2 again", async () => {
    expectLogged("cold_read_failed", "error");
    await send(...visits(20, 2));
    await ring(workspace.id);
    await changeRules();
    await withBindings(workspace.id, { COLD: broken });
    const result = await send(identify(0), { id: "sig_new", payload: visitOf("a-0", 900) });
    expect([result.retryMessages, await scoreOf(0)]).toEqual([[], 2]);
    const before = calls;
    await send({ id: "sig_warm", payload: visitOf("a-7", 901) }, identify(7));
    expect([await scoreOf(7), calls]).toEqual([2, before]);
    await expect(workspace.operator("GET", "/signals/sig_4/proposed-rule")).rejects.toThrow("503");
  });
});

test("a failed removal of objects delays no other work", () =>
  inStore(async ({ workspaceId, storage }) => {
    const down = bucketWith({
      before: (name) => (name === "delete" ? Promise.reject(new Error("R2 is down")) : undefined),
    });
    const store = new TestStore(workspaceId, storage, down);
    const insert = "INSERT INTO cold_objects VALUES ('cold_1', 'removing', ?, 1, 1), ('cold_2', 'writing', ?, 1, 1)";
    store.sql.exec(insert, START, START + COLD_AFTER_MS - 1);
    store.record(START, signalOf("ann@example.com"));
    store.seal();
    await expect(store.workOnCold(START + COLD_AFTER_MS)).rejects.toThrow("R2 is down");
    expect([...store.state.signals.read([1])].map(({ payloads }) => payloads)).toEqual(["in_r2"]);
    // A write that may still arrive is not removed.
    expect(store.sql.exec("SELECT state FROM cold_objects WHERE key = 'cold_2'").one()).toEqual({ state: "writing" });
  }));

test("each call of R2 ends at a time limit", async () => {
  expectLogged("cold_read_failed");
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const objects = new ColdObjects(bucketWith({ before: () => new Promise<void>(() => {}) }), "ws_silent");
  const late = () => "late";
  const calls = [
    objects.read("cold_1", 0, 1),
    objects.write("cold_1", new Uint8Array(1)).catch(late),
    objects.remove(["cold_1"]).catch(late),
    objects.list().catch(late),
  ];
  vi.runAllTimers();
  expect(await Promise.all(calls)).toEqual([null, "late", "late", "late"]);
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

test("a read finds payloads that move to another object meanwhile", () =>
  inStore(async (store) => {
    expectLogged("cold_read_failed");
    store.record(START, signalOf("ann@example.com"), signalOf("bob@example.com"));
    store.seal();
    await store.workOnCold(START + COLD_AFTER_MS);
    store.beginDeletion("bob@example.com", START + COLD_AFTER_MS);
    let reads = 0;
    const move = (call: string) =>
      call === "get" && ++reads === 1 ? store.workOnCold(START + COLD_AFTER_MS) : undefined;
    const { signals } = openState(store.storage, store.workspaceId, bucketWith({ before: move }));
    const wanted = [...signals.read([1])].map((portion) => ({ portion, seqs: portion.seqs }));
    const payloads = await signals.readPayloads(wanted);
    expect([reads, payloads.get(1)]).toEqual([2, JSON.stringify(signalOf("ann@example.com").payload)]);
  }));

test.each([
  ["is being written", "writing", -1],
  ["was stored after the comparison began", "stored", 0],
])("a comparison with R2 does not miss an object that %s", (_, state, ms) =>
  inStore(async (store) => {
    const { sql } = store;
    sql.exec("INSERT INTO cold_objects VALUES ('cold_1', ?, ?, 1, 1)", state, START + ms);
    store.state.due.forget();
    await store.state.signals.markLostPayloads(START);
    expect(sql.exec("SELECT state FROM cold_objects").toArray()).toEqual([{ state }]);
  }),
);

test("a comparison with R2 does not miss an object whose write ends meanwhile", async () => {
  let putMs = 0;
  let write = () => {};
  const mayWrite = new Promise<void>((resolve) => (write = resolve));
  const isStored = (store: TestStore) =>
    store.sql.exec("SELECT 1 FROM cold_objects WHERE state = 'stored'").toArray().length > 0;
  await inStore(async ({ workspaceId, storage }) => {
    const bucket = bucketWith({
      before: async (call) => {
        if (call !== "put") return;
        putMs = Date.now();
        await mayWrite;
      },
      after: async (call) => {
        if (call !== "list") return;
        write();
        await until(() => expect(isStored(store)).toBe(true));
      },
    });
    const store = new TestStore(workspaceId, storage, bucket);
    store.record(START, signalOf("ann@example.com"));
    store.seal();
    const { signals } = store.state;
    const moving = signals.work(START + COLD_AFTER_MS);
    await until(() => expect(putMs).toBeGreaterThan(0));
    expect(await signals.markLostPayloads(putMs + MINUTE)).toBe(0);
    await moving;
    expect([...signals.read([1])].map(({ payloads }) => payloads)).toEqual(["in_r2"]);
    store.state.due.forget();
  });
});

test("a write that fails on the way to R2 loses no line, and leaves each payload where the tables have it", async () => {
  let crashes = 0;
  for (let writes = 0, isCrash = true; isCrash; writes++) {
    // oxlint-disable-next-line no-await-in-loop -- the next one allows one write more
    isCrash = await inStore(async (store) => {
      const [ann = ""] = store.record(START, signalOf("ann@example.com"));
      const { signals } = store.state;
      const nowMs = START + COLD_AFTER_MS;
      const hasCrashed = await store.crashAfter(writes, () => signals.work(nowMs));
      const place = () => [...signals.read([1])].map((portion) => [portion.payloads, signals.isCurrent(portion)]);
      const before = place();
      const [bob = ""] = store.record(nowMs, signalOf("bob@example.com"));
      store.restart();
      expect([ann, bob].map((id) => store.state.signals.find(id)?.seq)).toEqual([1, 2]);
      expect(before).toEqual([...store.state.signals.read([1])].map(({ payloads }) => [payloads, true]));
      store.state.due.forget();
      return hasCrashed;
    });
    crashes += Number(isCrash);
  }
  expect(crashes).toBeGreaterThan(5);
});

const signalOf = (email: string) => ({ payload: { event: "E", email, text: `said by ${email.split("@")[0]}` } });

describe("a deletion in cold storage", () => {
  test("leaves nothing of a person whose segment retention drops before R2 has removed their payload", () =>
    inStore(async (store) => {
      const morning = Math.floor(START / DAY) * DAY;
      store.record(morning, signalOf("ann@example.com"));
      store.seal();
      store.record(morning + 60 * MINUTE, signalOf("bob@example.com"));
      store.seal();
      await store.workOnCold(morning + 2 * DAY);
      const nowMs = morning + 31 * DAY + MINUTE;
      store.beginDeletion("ann@example.com", nowMs);
      setRetention(store.state, { retentionDays: 31 }, nowMs);
      deleteExpired(store.state, nowMs);
      expect(store.state.signals.firstSeq).toBe(2);
      store.finishDeletions(nowMs);
      expect(findDeletion(store.sql, "ann@example.com")?.finishedAtMs).toBeNull();
      await store.workOnCold(nowMs);
      store.finishDeletions(nowMs);
      expect(findDeletion(store.sql, "ann@example.com")?.finishedAtMs).toBe(nowMs);
      const left = await textOfBucket(store.workspaceId);
      expect(left).toContain("said by bob");
      expect(left).not.toContain("said by ann");
    }));

  test("leaves nothing of a person whose segment retention has dropped from an object that stays", () =>
    inStore(async (store) => {
      const morning = Math.floor(START / DAY) * DAY;
      for (const [index, name] of ["ann", "bob", "cyd"].entries()) {
        store.record(morning + index * 60 * MINUTE, signalOf(`${name}@example.com`));
        store.seal();
      }
      await store.workOnCold(morning + 2 * DAY);
      const nowMs = morning + 31 * DAY + MINUTE;
      setRetention(store.state, { retentionDays: 31 }, nowMs);
      deleteExpired(store.state, nowMs);
      deleteExpired(store.state, nowMs + 60 * MINUTE);
      await store.workOnCold(nowMs + 60 * MINUTE);
      expect(await textOfBucket(store.workspaceId)).toContain("said by ann");
      expect(store.deletePerson("ann@example.com", nowMs + 61 * MINUTE)?.finishedAtMs).toBeNull();
      await store.workOnCold(nowMs + 62 * MINUTE);
      store.finishDeletions(nowMs + 62 * MINUTE);
      expect(findDeletion(store.sql, "ann@example.com")?.finishedAtMs).toBe(nowMs + 62 * MINUTE);
      const left = await textOfBucket(store.workspaceId);
      expect(left).toContain("said by cyd");
      expect(left).not.toMatch(/said by (ann|bob)/u);
      // An object without gaps stays as it is.
      const keys = store.sql.exec("SELECT key FROM cold_objects").toArray();
      expect(store.deletePerson("dan@example.com", nowMs + 63 * MINUTE)?.finishedAtMs).toBe(nowMs + 63 * MINUTE);
      expect(store.sql.exec("SELECT key FROM cold_objects").toArray()).toEqual(keys);
    }));

  test("leaves nothing of a person who is deleted while a segment of the object is being read", async () => {
    let reads = 0;
    let between = () => {};
    const bucket = bucketWith({ before: (name) => void (name === "get" && ++reads === 2 && between()) });
    await inStore(async ({ workspaceId, storage }) => {
      const store = new TestStore(workspaceId, storage, bucket);
      for (const email of ["ann@example.com", "bob@example.com", "cleo@example.com"]) {
        store.record(START, signalOf(email), signalOf("zoe@example.com"));
        store.seal();
      }
      await store.state.signals.work(START + COLD_AFTER_MS);
      beginDeletion(store.state, "del_1", "cleo@example.com", START + COLD_AFTER_MS);
      between = () => {
        between = () => {};
        beginDeletion(store.state, "del_2", "ann@example.com", START + COLD_AFTER_MS);
      };
      await store.workOnCold(START + COLD_AFTER_MS);
      const left = await textOfBucket(store.workspaceId);
      expect(left).toContain("said by bob");
      expect(left).not.toContain("said by cleo");
      expect(left).not.toContain("said by ann");
    });
  });

  test("of one object reads no rows of the others", () =>
    inStore(async (store) => {
      const { sql } = store;
      for (let n = 0; n < 400; n++) {
        store.record(START, signalOf(`zoe${n}@example.com`));
        store.seal();
        sql.exec("INSERT INTO cold_objects VALUES (?, 'stored', ?, ?, ?)", `cold_${n}`, START, n + 1, n + 1);
        sql.exec("UPDATE signals_segments SET cold = ? WHERE first_seq = ?", `cold_${n}`, n + 1);
      }
      store.restart();
      const { signals } = store.state;
      const rewriteAll = (nowMs: number): number => {
        let objects = 0;
        for (const portion of signals.read(Array.from({ length: 400 }, (_, n) => n + 1))) {
          const changes = portion.seqs.map((seq) => [seq, afterDeletion(portion.facts(seq), nowMs)] as const);
          objects += signals.rewrite(portion, new Map(changes));
        }
        return objects;
      };
      let objects = 0;
      expect(rowsRead(sql, () => void (objects = rewriteAll(START + 1)))).toBeLessThan(10_000);
      expect(objects).toBe(400);
      // Nothing is left that had a payload.
      expect(rewriteAll(START + 2)).toBe(0);
    }));

  test("of an unreadable object delays only itself", async () => {
    expectLogged("chore_failed", "cold_read_failed");
    let lost = "";
    const bucket = bucketWith({
      before: (name, key) => {
        if (name === "get" && String(key).endsWith(lost)) throw new Error("it is gone");
      },
    });
    const sendOf = (n: number, email: string) => send({ id: `sig_${n}`, ...signalOf(email), at: START + n });
    await sendOf(1, "ann@example.com");
    await ring(workspace.id);
    lost = (await cold()).objects[0]?.key ?? "none";
    await sendOf(2, "bob@example.com");
    await ring(workspace.id);
    await sendOf(3, "cleo@example.com");
    // The platform may restart the object for an alarm at any moment, and must see this bucket too.
    const real = env.COLD;
    Object.assign(env, { COLD: bucket });
    onTestFinished(() => void Object.assign(env, { COLD: real }));
    await workspace.store.deletePerson("del_1", "ann@example.com");
    await workspace.store.deletePerson("del_2", "bob@example.com");
    // A platform alarm in progress when the object was evicted counts as abandoned a little later.
    await until(async () => {
      // Ends the rest of the failed chore.
      await restart(workspace.store);
      await ring(workspace.id);
      const state = await cold();
      expect([state.warm, state.cold]).toEqual([[], [1, 2, 3]]);
      expect(state.objects.map((object) => object.state)).toEqual(["stored", "stored", "stored"]);
      expect(await textOfBucket(workspace.id, real)).not.toContain("said by bob");
    });
    expect(await textOfBucket(workspace.id, real)).toContain("said by ann");
    expect((await workspace.store.deletion("ann@example.com"))?.finishedAtMs).toBeNull();
  });
});
