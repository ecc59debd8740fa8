/** Budgets of keys: exact for concurrent senders, across restarts, rotations and periods; usage by key adds up. */
import { abortAllDurableObjects, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import type { UsageAnswer } from "../../../src/dev/operator-client.ts";
import type { NotificationType } from "../../../src/domain/notifications/notification.ts";
import { DAY_MS } from "../../../src/domain/duration.ts";
import { billingPeriodAt } from "../../../src/domain/quota/billing.ts";
import { updateKeyDays } from "../../../src/store/state/key-days.ts";
import { limitApiKey } from "../../../src/use-cases/manage-keys.ts";
import { stopClock } from "../../support/clock.ts";
import { countRows, lose, newCounter, newerVersion, type TestCounter } from "../../support/counter.ts";
import { deliver } from "../../support/deliver.ts";
import { expectLogged } from "../../support/logged.ts";
import { ofType, TestDestinations } from "../../support/raised.ts";
import { until } from "../../support/until.ts";
import { wanting } from "../../support/wanting.ts";
import { concurrently, newWorkspace, problemOf, type TestKey, type TestWorkspace } from "../../support/workspace.ts";

const SENDERS = 64;
const ANCHOR = Date.UTC(2026, 0, 1);

async function limit({ stub }: TestCounter, budgets: Record<string, number>, signalLimit = 1_000): Promise<void> {
  const version = { signalLimit, paid: true, overages: false, anchorMs: ANCHOR };
  await stub.configure([{ ...version, configVersion: await newerVersion(stub) }], budgets);
}

async function limitedCounter(budgets: Record<string, number>, signalLimit = 1_000): Promise<TestCounter> {
  const counter = await newCounter({ signalLimit });
  await limit(counter, budgets, signalLimit);
  await counter.sendTo(lose);
  return counter;
}

const used = async (counter: TestCounter) => (await counter.usage()).budgetUse;

interface KeyUsageAnswer {
  key_id: string;
  signals: number;
  days: { day: string; signals: number }[];
  signal_limit: number | null;
  limit_used: number | null;
}

const usageByKey = async (workspace: TestWorkspace) =>
  new Map((await workspace.list<KeyUsageAnswer>("/usage/keys")).map((key) => [key.key_id, key] as const));

const rotate = (workspace: TestWorkspace, key: TestKey, overlap = "24h") =>
  workspace.operator<TestKey>("POST", `/keys/${key.id}/rotate`, { overlap });

describe("over HTTP", () => {
  test(`${SENDERS} concurrent senders with a key and its successors get exactly the limit, and other keys all`, async () => {
    const workspace = await newWorkspace({ key: { signal_limit: 100 } });
    const successor = await rotate(workspace, workspace.key);
    const third = await rotate(workspace, successor);
    const free = await workspace.newKey();
    const keys = [workspace.key, successor, third, free];
    const answers = await concurrently(SENDERS, 280, async (nth) => {
      const key = keys[nth % keys.length] ?? free;
      const answer = await workspace.send({ event: "Visit", n: nth }, { key: key.key });
      await answer.body?.cancel();
      return { isFree: key === free, status: answer.status };
    });
    const statuses = (isFree: boolean) =>
      answers.filter((answer) => answer.isFree === isFree).map(({ status }) => status);
    expect(new Set(statuses(true))).toEqual(new Set([202]));
    expect(statuses(false).filter((status) => status === 202).length).toBe(100);
    expect(statuses(false).filter((status) => status === 429).length).toBe(110);

    await workspace.settled();
    const usage = await workspace.operator<UsageAnswer>("GET", "/usage");
    const byKey = await usageByKey(workspace);
    const sums = [...byKey.values()].map(({ signals, days }) => [
      signals,
      days.reduce((sum, day) => sum + day.signals, 0),
    ]);
    const sum = (index: number) => sums.reduce((all, counts) => all + (counts[index] ?? 0), 0);
    expect([sum(0), sum(1)]).toEqual([usage.accepted + usage.held, usage.accepted + usage.held]);
    expect(byKey.get(free.id)).toMatchObject({ signals: 70, signal_limit: null, limit_used: null });
    for (const { id } of keys.slice(0, 3)) expect(byKey.get(id)).toMatchObject({ signal_limit: 100, limit_used: 100 });
  });

  test("a rejected call names the key's limit and when to retry, takes no ordinal, and is listed", async () => {
    const workspace = await newWorkspace({ key: { signal_limit: 1 } });
    await workspace.send({ event: "Visit" });
    const answer = await workspace.send({ event: "Visit" });
    const { periodEndMs } = await workspace.counter.usage().then((usage) => usage ?? { periodEndMs: 0 });
    const seconds = Number(answer.headers.get("retry-after"));
    expect(Math.abs(seconds - (periodEndMs - Date.now()) / 1_000)).toBeLessThan(60);
    expect(await problemOf(answer)).toMatchObject({ status: 429, code: "key_limit_exceeded" });
    expect(await workspace.operator("GET", "/usage")).toMatchObject({ accepted: 1, held: 0, rejected: 1 });
    expect(await workspace.list("/rejections")).toMatchObject([{ code: "key_limit_exceeded", status: 429, calls: 1 }]);
  });

  test("a change holds with the next call, and keeps the count", async () => {
    const workspace = await newWorkspace();
    const change = (signal_limit: number | null) =>
      workspace.operator("PATCH", `/keys/${workspace.key.id}`, { signal_limit });
    const statuses = async (calls: number) => {
      const found: number[] = [];
      for (let call = 0; call < calls; call++) found.push((await workspace.send({ event: "Visit" })).status);
      return found;
    };
    expect(await statuses(2)).toEqual([202, 202]);
    expect(await change(2)).toMatchObject({ signal_limit: 2 });
    // It counts from now on.
    expect(await statuses(3)).toEqual([202, 202, 429]);
    await change(3);
    expect(await statuses(2)).toEqual([202, 429]);
    await change(1);
    expect(await statuses(1)).toEqual([429]);
    await change(null);
    expect(await statuses(2)).toEqual([202, 202]);
    expect(await workspace.list("/keys")).toMatchObject([{ signal_limit: null }]);
    expect(await workspace.audit("key.limit")).toEqual(
      [2, 3, 1, null].map((signal_limit) => ({
        action: "key.limit_changed",
        target: workspace.key.id,
        detail: { signal_limit },
      })),
    );
  });

  test("a limit of the counter's that a push missed arrives after the next answer", async () => {
    expectLogged("configure_failed");
    const workspace = await newWorkspace();
    await workspace.send({ event: "Visit" });
    const failing = {
      ...env,
      QUOTA_COUNTER: {
        getByName: () => ({ configVersion: () => 0, configure: () => Promise.reject(new Error("no answer")) }),
      },
    };
    await limitApiKey(workspace.context({ env: failing as unknown as Env }), workspace.key.id, 1);
    expect((await workspace.counter.usage())?.budgets).toEqual({});
    await workspace.operator("GET", "/usage");
    expect((await workspace.counter.usage())?.budgets).toEqual({ [workspace.key.id]: 1 });
  });

  test("a key that has ended loses its budget with the next configuration", async () => {
    const workspace = await newWorkspace({ key: { signal_limit: 5 } });
    const other = await workspace.newKey({ signal_limit: 7 });
    expect((await workspace.counter.usage())?.budgets).toEqual({ [workspace.key.id]: 5, [other.id]: 7 });
    await workspace.deactivate();
    await workspace.operator("PATCH", `/keys/${other.id}`, { signal_limit: 8 });
    expect((await workspace.counter.usage())?.budgets).toEqual({ [other.id]: 8 });
  });

  test.each([
    [{ signal_limit: 0 }, "signal_limit"],
    [{ signal_limit: 1.5 }, "signal_limit"],
    [{ signal_limit: "10" }, "signal_limit"],
    [{ signal_limit: 1e13 }, "signal_limit"],
    [{}, ""],
    [{ limit: 5 }, "limit"],
  ])("the limit %j is a 422 that names the field", async (body, path) => {
    const workspace = await newWorkspace();
    const answer = await workspace.ask("PATCH", `/keys/${workspace.key.id}`, body);
    expect(answer).toMatchObject({
      status: 422,
      body: { errors: expect.arrayContaining([expect.objectContaining({ path })]) },
    });
    expect(await workspace.list("/keys")).toMatchObject([{ signal_limit: null }]);
  });
});

describe("in the counter", () => {
  test("the bound that comes first gives a body its one reason", async () => {
    const counter = await limitedCounter({ key_1: 5 }, 3);
    expect(await counter.admit(10)).toMatchObject({
      accepted: 3,
      held: 2,
      rejected: 5,
      rejection: { code: "key_limit_exceeded" },
    });
    await limit(counter, { key_1: 50 }, 3);
    expect(await counter.admit(10)).toMatchObject({
      accepted: 0,
      held: 1,
      rejected: 9,
      rejection: { code: "extra_room_exceeded" },
    });
    expect(await used(counter)).toEqual({ key_1: 6 });
  });

  test.each([
    { title: "is evicted", stop: (counter: TestCounter) => evictDurableObject(counter.stub) },
    { title: "is killed", stop: () => abortAllDurableObjects() },
  ])("the counts stay when the object $title, with rows that are settled or not", async ({ stop }) => {
    const counter = await limitedCounter({ key_1: 5, key_2: 5 });
    await counter.admit(2);
    await counter.admit(1, { keyId: "key_9", firstKeyId: "key_2" });
    await counter.settle(1, 2);
    const expectKept = async (use: Record<string, number>) => {
      await stop(counter);
      await counter.sendTo(lose);
      expect(await used(counter)).toEqual(use);
    };
    await expectKept({ key_1: 2, key_2: 1 });
    await counter.admit(2);
    await expectKept({ key_1: 4, key_2: 1 });
    expect(await counter.counted(3)).toEqual([1, 0, 2]);
    // Rejected signals write no row, and change no count.
    expect(await counter.counted(3)).toEqual([0, 0, 3]);
    await expectKept({ key_1: 5, key_2: 1 });
  });

  test("a failed commit counts nothing", async () => {
    expectLogged("commit_failed");
    const counter = await limitedCounter({ key_1: 5 });
    const repair = await counter.breakStatement("INSERT INTO outbox");
    await expect(counter.admit(3)).rejects.toThrow("disk full");
    await repair();
    expect(await used(counter)).toEqual({});
    expect(await counter.counted(6)).toEqual([5, 0, 1]);
  });

  test("a new period begins at zero", async () => {
    const start = Date.UTC(2031, 2, 5, 12);
    stopClock(start);
    const counter = await limitedCounter({ key_1: 2 });
    expect(await counter.counted(3)).toEqual([2, 0, 1]);
    const { endMs } = billingPeriodAt(ANCHOR, start);
    stopClock(endMs - 1);
    expect(await counter.counted(1)).toEqual([0, 0, 1]);
    stopClock(endMs);
    expect(await counter.counted(3)).toEqual([2, 0, 1]);
  });

  test("budgets of an earlier version that arrives late are ignored", async () => {
    const counter = await limitedCounter({ key_1: 5 });
    const terms = { signalLimit: 1_000, paid: true, overages: false, anchorMs: ANCHOR };
    const newest = (await newerVersion(counter.stub)) + 10;
    await counter.stub.configure([{ ...terms, configVersion: newest }], { key_1: 7 });
    await counter.stub.configure([{ ...terms, configVersion: newest - 1 }], { key_1: 1 });
    await counter.stub.configure([{ ...terms, configVersion: newest }], { key_1: 2 });
    expect((await counter.usage()).budgets).toEqual({ key_1: 7 });
  });

  test("releases and replays use no budget", async () => {
    const counter = await limitedCounter({ key_1: 3 }, 2);
    expect(await counter.counted(3)).toEqual([2, 1, 0]);
    await limit(counter, { key_1: 3 }, 10);
    const { periodStartMs, periodEndMs } = await counter.usage();
    const batch = { job: "job_1", batch: 1, through: 1, sent: 0, signals: counter.heldSignals(1, periodStartMs) };
    await counter.stub.release(batch, { periodEndMs, overages: false, most: null });
    await counter.stub.replay({ ...batch, job: "job_2" });
    expect(await counter.usage()).toMatchObject({ accepted: 3, held: 0, budgetUse: { key_1: 3 } });
  });

  test("no row is written for a budget, and none without one", async () => {
    const [with1, without] = [await limitedCounter({ key_1: 50 }), await limitedCounter({})];
    const rows = async (counter: TestCounter) => {
      const { rows: written } = await countRows(counter, async () => {
        for (let n = 1; n <= 10; n++) {
          await counter.counted(1);
          await counter.settle(n);
        }
      });
      return written;
    };
    const written = await rows(without);
    expect(await rows(with1)).toBe(written);
    const stored = await runInDurableObject(without.stub, (_, { storage: { sql } }) =>
      sql.exec("SELECT budget_use FROM outbox").toArray(),
    );
    expect(stored).toEqual([{ budget_use: "{}" }]);
  });

  test("a level is raised once for the key that reached it, and again in the next period", async () => {
    const start = Date.UTC(2031, 2, 5, 12);
    stopClock(start);
    const counter = await limitedCounter({ key_1: 10 });
    const destinations = new TestDestinations(counter.id);
    const types: NotificationType[] = ["key.usage_level"];
    await counter.stub.wantNotifications(wanting({ types }));
    const raised = async () => {
      const waiting = () =>
        runInDurableObject(counter.stub, (_, { storage: { sql } }) =>
          sql.exec("SELECT 1 FROM raised_notifications").toArray(),
        );
      await until(async () => expect(await waiting()).toEqual([]));
      return ofType(destinations.taken, "key.usage_level").map(({ key_id, level, used: count }) => [
        key_id,
        level,
        count,
      ]);
    };
    await counter.admit(7);
    await counter.admit(1, { keyId: "key_2", firstKeyId: "key_1" });
    await counter.admit(1);
    expect(await raised()).toEqual([["key_2", "80", 8]]);
    await counter.admit(5);
    await counter.admit(5);
    expect((await raised()).slice(1)).toEqual([["key_1", "100", 10]]);
    stopClock(start + 31 * DAY_MS);
    await counter.admit(8);
    expect((await raised()).slice(2)).toEqual([["key_1", "80", 8]]);
    await limit(counter, { key_1: 8 });
    expect((await raised()).slice(3)).toEqual([["key_1", "100", 8]]);
  });
});

describe("usage by key", () => {
  test("counts each admitted signal once, also held, released and duplicate ones", async () => {
    const workspace = await newWorkspace({ signalLimit: 3 });
    const other = await workspace.newKey();
    for (let n = 0; n < 5; n++) await workspace.send({ id: "same", event: "Visit" });
    await workspace.send({ event: "Visit" }, { key: other.key });
    await workspace.settled();
    await workspace.operator("PATCH", "", { overages: true });
    await workspace.operator("POST", "/held/release");
    await until(async () => expect(await workspace.settled()).toMatchObject({ held: 0 }));
    const byKey = await usageByKey(workspace);
    expect([byKey.get(workspace.key.id)?.signals, byKey.get(other.id)?.signals]).toEqual([5, 1]);
    expect(byKey.get(other.id)?.days.at(-1)).toEqual({ day: new Date().toISOString().slice(0, 10), signals: 1 });
  });

  test("counts the period and each of the latest 30 days, and stays when the head is full", async () => {
    const workspace = await newWorkspace();
    const nowMs = Date.now();
    const { startMs } = billingPeriodAt(ANCHOR, nowMs);
    const receive = (id: string, at: number, periodStart: number) =>
      deliver(workspace.id, [{ id: `sig_${id}`, payload: { event: "Visit" }, at, periodStart }]);
    await receive("1", nowMs, startMs);
    await receive("2", nowMs - 29 * DAY_MS, startMs - 31 * DAY_MS);
    await receive("3", nowMs - 30 * DAY_MS, startMs - 31 * DAY_MS);
    const read = () => workspace.store.keyUsage(startMs);
    const before = await read();
    const [key] = Object.values(before);
    expect(key?.signals).toBe(1);
    expect([key?.days[0], key?.days.at(-1)]).toEqual([1, 1]);
    await runInDurableObject(workspace.store, (instance) => {
      const state = instance["state"];
      updateKeyDays(state);
      state.signals.flush();
      expect(state.head.keys).toEqual({});
    });
    expect(await read()).toEqual(before);
    await receive("4", nowMs, startMs);
    expect(Object.values(await read())[0]?.signals).toBe(2);
  });
});
