/** The alarm of the Signal Store after a step that ended the object: it left no error, and would end the object again. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { CHORE_REST_MS, ChoreRunner } from "../../../src/store/chores.ts";
import { NextDue } from "../../../src/store/state/due.ts";
import { deliver } from "../../support/deliver.ts";
import { expectLogged } from "../../support/logged.ts";
import { newWorkspace, type TestWorkspace } from "../../support/workspace.ts";

let workspace: TestWorkspace;
beforeEach(async () => {
  workspace = await newWorkspace();
  await deliver(workspace.id, [
    { id: "sig_1", payload: { event: "Form", email: "ann@example.com" } },
    {
      id: "sig_2",
      payload: { event: "Form", email: "bob@example.com" },
      verdict: "held",
      periodEnd: Date.now() + CHORE_REST_MS / 2,
    },
  ]);
  expectLogged("alarm_ended", "chore_failed");
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const alarmMs = () => runInDurableObject(workspace.store, (_, { storage }) => storage.getAlarm());
/** As the platform calls the alarm again after it has lost the object. */
const retryAlarm = () =>
  runInDurableObject(workspace.store, (store) =>
    (store as unknown as { alarm(info: Partial<AlarmInvocationInfo>): Promise<void> }).alarm({ isRetry: true }),
  );
const passMinute = () => vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + CHORE_REST_MS });
/** Two chores have work: the purge of the held signal, and a rule job. */
const giveWork = async () => {
  passMinute();
  await workspace.store.applyRule({ ruleId: "rule_1", rule: null, rulesVersion: 0 });
};
const done = async () => ({
  purge: (await workspace.store.totals(undefined)).purged === 1,
  apply_rules: (await workspace.store.ruleJob("rule_1"))?.status === "done",
});
const failing = async () => (await workspace.store.health()).failingChores.map(({ chore }) => chore);

test("all chores rest a minute after their alarm did not end, then each alarm takes the step of one", async () => {
  await giveWork();
  await retryAlarm();
  expect(await done()).toEqual({ purge: false, apply_rules: false });
  expect(await alarmMs()).toBeGreaterThan(Date.now() + CHORE_REST_MS / 2);
  // The rest survives the object.
  await evictDurableObject(workspace.store);
  await runDurableObjectAlarm(workspace.store);
  expect(await done()).toEqual({ purge: false, apply_rules: false });

  passMinute();
  await runDurableObjectAlarm(workspace.store);
  expect(await done()).toEqual({ purge: true, apply_rules: false });
  await runDurableObjectAlarm(workspace.store);
  expect(await done()).toEqual({ purge: true, apply_rules: true });
  await runDurableObjectAlarm(workspace.store);
  expect(await failing()).toEqual([]);
  const left = await runInDurableObject(workspace.store, (_, { storage }) => storage.kv.get("chores_alone"));
  expect(left).toBeUndefined();
});

test("all chores are taken together again after the last step that is due, without another alarm", async () => {
  await giveWork();
  await retryAlarm();
  passMinute();
  const isAlone = () =>
    runInDurableObject(workspace.store, (_, { storage }) => storage.kv.get("chores_alone") !== undefined);
  await runDurableObjectAlarm(workspace.store);
  expect([await done(), await isAlone()]).toEqual([{ purge: true, apply_rules: false }, true]);
  for (let isDue = true; isDue; isDue = ((await alarmMs()) ?? 0) < Date.now() + CHORE_REST_MS)
    await runDurableObjectAlarm(workspace.store);
  expect([await done(), await isAlone()]).toEqual([{ purge: true, apply_rules: true }, false]);
});

test("a rest ends when the clock is set back behind its beginning", async () => {
  await giveWork();
  await retryAlarm();
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() - 1 });
  await runDurableObjectAlarm(workspace.store);
  expect(await done()).toEqual({ purge: true, apply_rules: false });
});

test("the chore that ends the object alone fails in health and comes last, until it succeeds", async () => {
  await giveWork();
  await retryAlarm();
  passMinute();
  // The step of the purge begins, and ends the object.
  await runInDurableObject(workspace.store, (_, { storage }) => {
    storage.kv.put("chores_alone", { restUntilMs: 0, chore: "purge" });
  });
  await evictDurableObject(workspace.store);
  await retryAlarm();
  expect(await failing()).toEqual(["purge"]);
  expect((await workspace.store.health()).failingChores[0]?.error).toContain("A step ended the object");

  passMinute();
  await runDurableObjectAlarm(workspace.store);
  expect(await done()).toEqual({ purge: false, apply_rules: true });
  await runDurableObjectAlarm(workspace.store);
  expect(await done()).toEqual({ purge: true, apply_rules: true });
  expect(await failing()).toEqual([]);
});

test("a step that was asked for during another one is not taken once the store is paused", async () => {
  await runInDurableObject(workspace.store, async (_, { storage }) => {
    let [steps, isPaused] = [0, false];
    let end = (): void => undefined;
    const ended = new Promise<void>((resolve) => (end = resolve));
    const step = (): Promise<void> => {
      steps++;
      return ended;
    };
    const due = new NextDue();
    const chores = new ChoreRunner(workspace.id, storage, { next: () => due, mayRun: () => !isPaused }, [
      { name: "link", due: () => null, step },
    ]);
    const first = chores.runNow("link");
    await scheduler.wait(0);
    const calls = [first, chores.runNow("link")];
    isPaused = true;
    end();
    await Promise.all(calls);
    expect(steps).toBe(1);
  });
});
