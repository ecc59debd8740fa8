/** When the alarm of the Signal Store is set: by code that makes work for its chores, without asking them. */
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { hashOfName } from "../../../src/domain/signal/identity.ts";
import { STORE_MAX_BYTES } from "../../../src/limits.ts";
import { visitorKey } from "../../../src/store/people/timelines.ts";
import { coldState, ring, withBindings } from "../../support/cold.ts";
import { DAY, deliver, MINUTE } from "../../support/deliver.ts";
import { intercept } from "../../support/intercept.ts";
import type { VerifiedStore } from "../../support/known-work.ts";
import { expectLogged } from "../../support/logged.ts";
import { recordStatements } from "../../support/statements.ts";
import { newWorkspace, type TestWorkspace } from "../../support/workspace.ts";
import { testStored } from "../../support/log.ts";
import { wanting } from "../../support/wanting.ts";

let workspace: TestWorkspace;
beforeEach(async () => {
  workspace = await newWorkspace();
});
afterEach(() => {
  vi.restoreAllMocks();
});

const form = (n: number) => ({ id: `sig_${n}`, payload: { event: "Form", email: `person-${n}@example.com` } });
const alarmMs = () => runInDurableObject(workspace.store, (_, { storage }) => storage.getAlarm());
const inObject = (act: (store: VerifiedStore, sql: SqlStorage) => void) =>
  runInDurableObject(workspace.store, (store, { storage }) => act(store as unknown as VerifiedStore, storage.sql));

/** Tables that only chores read in a workspace with one kind of signals. */
const OF_CHORES = /(replacements|cold_objects|returns|next_lapse_at IS NOT NULL|min\(due_at\)|held_segments)/;

testStored("a record asks no chore whether it is due", async () => {
  await deliver(workspace.id, [form(1)]);
  await inObject((store) => void vi.spyOn(store, "noteUnknownWork").mockReturnValue());
  const statements = await recordStatements(workspace.store);
  const asked = () => statements.plans().filter(({ query }) => OF_CHORES.test(query));
  try {
    await deliver(workspace.id, [form(2)]);
    expect(statements.plans()).not.toEqual([]);
    expect(asked()).toEqual([]);
    // An alarm asks all of them.
    await runDurableObjectAlarm(workspace.store);
    expect(new Set(asked().flatMap(({ query }) => OF_CHORES.exec(query)?.[1] ?? [])).size).toBe(5);
  } finally {
    statements.stop();
  }
});

test("health finds work that nobody has announced, logs it and sets the alarm", async () => {
  const logged = expectLogged("work_unknown");
  await deliver(workspace.id, [form(1)]);
  await runDurableObjectAlarm(workspace.store);
  await inObject((_, sql) => sql.exec("INSERT INTO replacements (person_id, rule_id, behind_seq) VALUES (1, 'r', 0)"));
  expect(await alarmMs()).toBeGreaterThan(Date.now());
  await workspace.store.health();
  expect(await alarmMs()).toBeLessThanOrEqual(Date.now() + 1);
  expect(logged()).toEqual([{ event: "work_unknown", workspace: workspace.id, chores: "replace" }]);
  await workspace.store.health();
  expect(logged()).toHaveLength(1);
});

test("a record wakes a rule job that waited while the store was full", async () => {
  await deliver(workspace.id, [form(1)]);
  await withBindings(workspace.id, { STORE_MAX_BYTES: "1" });
  await workspace.store.applyRule({ ruleId: "rule_1", rule: null, rulesVersion: 0 });
  await runDurableObjectAlarm(workspace.store);
  await withBindings(workspace.id, { STORE_MAX_BYTES: String(STORE_MAX_BYTES) });
  await deliver(workspace.id, [form(2)]);
  expect(await alarmMs()).toBeLessThanOrEqual(Date.now() + 1);
});

test("the alarm is set before the first step of a replay, which a crash may end", async () => {
  const { promise: answered, resolve: answer } = Promise.withResolvers<{
    sent: number;
    through: number;
    next: "end";
  }>();
  const replay = vi.fn(() => answered);
  const counters = { getByName: () => ({ replay }) } as unknown as Env["QUOTA_COUNTER"];
  await withBindings(workspace.id, { QUOTA_COUNTER: counters });
  expect(await alarmMs()).toBeNull();
  const sending = workspace.store.resend("aud_1", { kind: "replay", ids: null });
  await expect.poll(() => replay.mock.calls.length).toBe(1);
  expect(await alarmMs()).toBeLessThanOrEqual(Date.now() + MINUTE);
  answer({ sent: 0, through: 0, next: "end" });
  expect(await sending).toMatchObject({ sent: 0, isUnderWay: false });
});

test("a record during an alarm sets no alarm for its work, and postpones nothing that is due soon after it", async () => {
  expectLogged("chore_failed");
  const [periodStart, periodEnd] = [Date.now() - MINUTE, Date.now() + MINUTE / 2];
  await deliver(workspace.id, [{ ...form(1), verdict: "held", periodStart, periodEnd }]);
  const { promise: failed, reject: fail } = Promise.withResolvers<never>();
  let asked = false;
  // Retention asks D1 for the plan.
  const DB = intercept(env.DB, () => {
    asked = true;
    return failed;
  });
  await withBindings(workspace.id, { DB });
  // The platform rings at once.
  await workspace.store.configure({ retentionDays: 7 });
  await expect.poll(() => asked).toBe(true);
  // The running alarm comes to this work too, so it needs no other.
  await inObject(
    (_, sql) => void sql.exec("INSERT INTO replacements (person_id, rule_id, behind_seq) VALUES (1, 'r', 0)"),
  );
  await deliver(workspace.id, [form(2)]);
  expect(await alarmMs()).toBeGreaterThan(Date.now());
  fail(new Error("D1 is down"));
  await expect.poll(alarmMs).toBe(periodEnd);
});

test("a step that a call runs ends the rest of its chore", async () => {
  expectLogged("link_failed");
  await deliver(workspace.id, [form(1)]);
  const DB = intercept(env.DB, () => Promise.reject(new Error("D1 is down")));
  await withBindings(workspace.id, { DB });
  const [firstMs, nextMs] = [Date.now(), Date.now() + MINUTE / 2];
  await inObject((_, sql) => {
    const insert = "INSERT INTO link_jobs (key, due_at) VALUES (?, ?)";
    sql.exec(insert, visitorKey({ kind: "user_id", value: "u-1" }), firstMs);
    sql.exec(insert, visitorKey({ kind: "user_id", value: "u-2" }), nextMs);
  });
  await runInDurableObject(workspace.store, (store) => store.alarm());
  expect(await alarmMs()).toBeGreaterThan(nextMs);
  await withBindings(workspace.id);
  await workspace.store.link();
  expect(await alarmMs()).toBe(nextMs);
});

testStored("payloads that are lost in R2 leave work for cold storage", async () => {
  await deliver(workspace.id, [{ ...form(1), at: Date.now() - 2 * DAY }]);
  await ring(workspace.id);
  const { keys } = await coldState(workspace.id);
  expect(keys).toHaveLength(1);
  await env.COLD.delete(keys);
  await workspace.store.markLostPayloads();
  await expect.poll(async () => (await coldState(workspace.id)).objects).toEqual([]);
});

test("notifications are forwarded also after the end of an import was repeated", async () => {
  const waiting = () =>
    runInDurableObject(workspace.store, (_, { storage }) => [
      ...storage.sql.exec("SELECT row FROM raised_notifications").raw(),
    ]);
  await deliver(workspace.id, [form(1)]);
  await workspace.store.beginImport();
  const deletion = {
    id: "del_1",
    requestedAtMs: Date.now(),
    emailHash: hashOfName({ kind: "email", value: "person-1@example.com" }),
  };
  await workspace.store.finishImport([deletion], null);
  await expect.poll(waiting).toEqual([]);
  await workspace.store.finishImport([deletion], null);
  await workspace.store.wantNotifications(wanting({ types: ["person.scored", "dead_letters.added"] }));
  await deliver(workspace.id, [{ id: "sig_2", payload: "no object" }]);
  await expect.poll(waiting).toEqual([]);
});
