/** Notifications of expiring and silent keys, once each. */
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, test, vi } from "vitest";
import { QuotaCounter } from "../../../src/quota/quota-counter.ts";
import {
  type Receiver,
  DAY,
  HOUR,
  MINUTE,
  type DestinationHarness,
  stopClock,
  newHarnessInEachTest,
} from "../../support/destination-harness.ts";
import { newId } from "../../../src/platform/ids.ts";
import { expectLogged } from "../../support/logged.ts";
import { until } from "../../support/until.ts";

let harness: DestinationHarness;
let receiver: Receiver;

beforeEach(stopClock);
newHarnessInEachTest((made) => {
  ({ harness, receiver } = made);
});

/** Lets days pass in steps. The alarm is due after each step. */
async function pass(days: number): Promise<void> {
  for (let hours = 0; hours < days * 24; hours += 6) {
    // oxlint-disable-next-line no-await-in-loop -- time passes in order
    await harness.pass(6 * HOUR);
    // oxlint-disable-next-line no-await-in-loop -- time passes in order
    await until(async () => expect(await waiting()).toBe(0));
  }
}

async function waiting(): Promise<number> {
  const { items } = await harness.workspace.operator<{ items: { waiting: number }[] }>("GET", "/destinations");
  return items.reduce((sum, destination) => sum + destination.waiting, 0);
}

function notices(): unknown[] {
  return receiver.received.map(({ body: { type, data } }) => [type, data["key_name"], data["days"]]);
}

test("a key's expiry is announced 30, 7 and 1 days ahead, once each, unless the key is deactivated", async () => {
  const endsAt = new Date(Date.now() + 33 * DAY).toISOString();
  await harness.workspace.newKey({ name: "Ends", expires_at: endsAt });
  const dead = await harness.workspace.newKey({ name: "Dead", expires_at: endsAt });
  await harness.workspace.newKey({ name: "Short", expires_at: new Date(Date.now() + 5 * DAY).toISOString() });
  await harness.workspace.operator("POST", `/keys/${dead.id}/deactivate`);
  await harness.create(receiver, { notifications: ["key.expiring"] });
  await pass(34);
  expect(notices()).toEqual([
    ["key.expiring", "Ends", 30],
    ["key.expiring", "Short", 1],
    ["key.expiring", "Ends", 7],
    ["key.expiring", "Ends", 1],
  ]);
  expect(receiver.received[0]?.body.data).toMatchObject({ expires_at: endsAt, successor_id: null, last_used_at: null });
});

test("a rotated key's expiry is announced on the last day only, if the key is still used", async () => {
  const [used, unused] = [
    await harness.workspace.newKey({ name: "Used" }),
    await harness.workspace.newKey({ name: "Unused" }),
  ];
  await harness.create(receiver, { notifications: ["key.expiring"] });
  for (const { id } of [used, unused])
    await harness.workspace.operator("POST", `/keys/${id}/rotate`, { overlap: "7d" });
  await pass(1);
  await harness.workspace.send({ email: "jane@example.com", event: "Visit" }, { key: used.key });
  await pass(7);
  expect(notices()).toEqual([["key.expiring", "Used", 1]]);
  expect(receiver.received[0]?.body.data["successor_id"]).toMatch(/^key_/);
});

test("a silent key is announced after its chosen number of days, once until the key is used again", async () => {
  const key = await harness.workspace.newKey({ name: "Nightly" });
  await harness.workspace.newKey({ name: "Nobody asked" });
  await harness.create(receiver, { notifications: ["key.silent"] });
  await harness.workspace.operator("PATCH", `/keys/${key.id}`, { silent_after_days: 2 });
  await harness.workspace.send({ email: "jane@example.com", event: "Visit" }, { key: key.key });
  await pass(1.75);
  expect(notices()).toEqual([]);
  await pass(4);
  expect(notices()).toEqual([["key.silent", "Nightly", 2]]);
  await harness.workspace.send({ email: "jane@example.com", event: "Visit" }, { key: key.key });
  await pass(3);
  expect(notices()).toEqual([
    ["key.silent", "Nightly", 2],
    ["key.silent", "Nightly", 2],
  ]);
});

test("the silence of a key begins with its workspace, if an import made the workspace after the key", async () => {
  const { id } = await harness.workspace.newKey({ name: "Moved" });
  await harness.workspace.operator("PATCH", `/keys/${id}`, { silent_after_days: 3 });
  const earlier = new Date(Date.now() - 30 * DAY).toISOString();
  await env.DB.prepare("UPDATE api_keys SET created_at = ? WHERE id = ?").bind(earlier, id).run();
  await harness.create(receiver, { notifications: ["key.silent"] });
  await pass(1);
  expect(notices()).toEqual([]);
  await pass(3);
  expect(notices()).toEqual([["key.silent", "Moved", 3]]);
});

test("a notice that no destination wanted at its time is sent to one that wants it later", async () => {
  await harness.workspace.newKey({ name: "Ends", expires_at: new Date(Date.now() + 8 * DAY).toISOString() });
  const { id } = await harness.create(receiver, { notifications: ["key.silent"] });
  await pass(2);
  await harness.workspace.operator("PATCH", `/destinations/${id}`, { notifications: ["key.expiring"] });
  await pass(0.5);
  expect(notices()).toEqual([["key.expiring", "Ends", 7]]);
});

test("a notice waits for an email address until it has confirmed", async () => {
  await harness.workspace.newKey({ name: "Ends", expires_at: new Date(Date.now() + 8 * DAY).toISOString() });
  const destination = { id: newId("dst"), name: "Ops", type: "email", target: "ops@example.com" } as const;
  const pagesUrl = "https://signals.example/w/demo";
  await harness.object.create({ ...destination, headers: [], notifications: ["key.expiring"], pagesUrl });
  await harness.create(receiver, { notifications: ["usage.level"] });
  await pass(2);
  await runInDurableObject(harness.object, (_, { storage: { sql } }) => {
    const confirmed = "UPDATE destinations SET type = 'webhook', target = ?, confirmation = NULL WHERE id = ?";
    sql.exec(confirmed, receiver.url, destination.id);
  });
  await pass(0.5);
  expect(notices()).toEqual([["key.expiring", "Ends", 7]]);
});

test("keys are checked after the clock was set back", async () => {
  await harness.workspace.newKey({ name: "Ends", expires_at: new Date(Date.now() + 3 * DAY).toISOString() });
  await harness.create(receiver, { notifications: ["usage.level"] });
  const nowMs = Date.now();
  await harness.pass(10 * DAY);
  vi.setSystemTime(nowMs);
  await harness.create(receiver, { notifications: ["key.expiring"] });
  await harness.pass(MINUTE);
  await harness.pass(2 * DAY);
  await until(() => expect(notices()).toContainEqual(["key.expiring", "Ends", 1]));
});

const alarmMs = () => runInDurableObject(harness.object, (_, { storage }) => storage.getAlarm());

/** Rings the alarm while it is due. @returns the number of rings. */
async function rings(): Promise<number> {
  let count = 0;
  /* oxlint-disable no-await-in-loop -- one ring after the other */
  for (; ((await alarmMs()) ?? Number.POSITIVE_INFINITY) <= Date.now(); count++) {
    await runDurableObjectAlarm(harness.object);
  }
  /* oxlint-enable no-await-in-loop */
  return count;
}

test("keys are checked once an hour, and once a minute while they cannot be read", async () => {
  expectLogged("destinations_alarm_failed");
  const read = vi.spyOn(QuotaCounter.prototype, "lastUsed");
  await harness.create(receiver, { notifications: ["key.silent"] });
  // The first check is due at once.
  vi.setSystemTime(Date.now() + 1);
  await rings();
  expect(read).toHaveBeenCalled();
  // The alarm may also be set a minute later, in case the sources were not informed by then.
  vi.setSystemTime(Date.now() + 2 * MINUTE);
  await rings();
  for (const [afterMs, times] of [
    [57 * MINUTE, 0],
    [MINUTE, 1],
    [HOUR, 1],
  ] as const) {
    read.mockClear();
    vi.setSystemTime(Date.now() + afterMs);
    expect([await rings(), read.mock.calls.length]).toEqual([times, times]);
  }
  read.mockRejectedValue(new Error("gone"));
  for (const afterMs of [HOUR, MINUTE, MINUTE]) {
    read.mockClear();
    vi.setSystemTime(Date.now() + afterMs);
    expect([await rings(), read.mock.calls.length]).toEqual([1, 1]);
  }
});

test("keys are not checked while no destination wants key notifications", async () => {
  await harness.workspace.newKey({ expires_at: new Date(Date.now() + DAY).toISOString() });
  await harness.create(receiver, { notifications: ["usage.level"] });
  const read = vi.spyOn(QuotaCounter.prototype, "lastUsed");
  await pass(1);
  expect(read).not.toHaveBeenCalled();
  expect(receiver.received).toEqual([]);
});
