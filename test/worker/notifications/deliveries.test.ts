/** Delivery of notifications: signatures, retries, limits, and which destinations get them. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { Destinations } from "../../../src/notifications/destinations.ts";
import { RETRY_DELAYS_MS, RETRY_JITTER } from "../../../src/domain/notifications/attempts.ts";
import { DELIVERY_LEASE_MS, PERSON_SCORED_MAX_SIGNALS, RETRY_MIN_SECONDS } from "../../../src/limits.ts";
import { WAITING_MAX_BYTES } from "../../../src/notifications/deliveries.ts";
import type { DueDelivery } from "../../../src/notifications/destination-calls.ts";
import { DELIVERIES_UNDER_WAY, TAKEN_MS } from "../../../src/notifications/dispatch.ts";
import { QuotaCounter } from "../../../src/quota/quota-counter.ts";
import { newId } from "../../../src/platform/ids.ts";
import {
  Receiver,
  type ReceivedNotification,
  listen,
  DAY,
  HOUR,
  MINUTE,
  type DestinationHarness,
  crossed,
  loseMessages,
  scored,
  stopClock,
  newHarnessInEachTest,
} from "../../support/destination-harness.ts";
import { expectLogged } from "../../support/logged.ts";
import { until } from "../../support/until.ts";

const NO_DELIVERY: DueDelivery = { workspaceId: "", destinationId: "", id: "", attempt: 0 };

const fails = () => new Response("no", { status: 500 });

let harness: DestinationHarness;
let receiver: Receiver;

newHarnessInEachTest((made) => {
  ({ harness, receiver } = made);
});

describe("a notification", () => {
  test("is sent once to each destination that wants its type, with a valid signature", async () => {
    const [second, otherReceiver] = [new Receiver(), new Receiver()];
    listen(receiver, second, otherReceiver);
    const { id: destination, secret = "" } = await harness.create(receiver);
    await harness.create(second);
    await harness.create(otherReceiver, { notifications: ["usage.level"] });
    const notification = crossed();
    await harness.raise(notification);
    await harness.raise(notification, notification);
    await until(() => expect([receiver.ids(), second.ids()]).toEqual([[notification.id], [notification.id]]));
    const { id, type, time, data } = notification;
    const body = { id, type, time: new Date(time).toISOString(), workspace: harness.workspace.id, data };
    expect(receiver.verify(secret)).toEqual(body);
    expect(() => receiver.verify(secret, second.received[0])).toThrow("No matching signature");
    expect(receiver.received[0]?.redirect).toBe("manual");
    expect(otherReceiver.received).toEqual([]);
    expect(await harness.deliveries(destination)).toHaveLength(1);
  });

  test("is sent once even if it is raised again within two weeks, for which its id is remembered", async () => {
    stopClock();
    const { id } = await harness.create(receiver);
    const notification = crossed();
    await harness.raise(notification);
    await harness.attempted(id, 1);
    await harness.pass(13 * DAY);
    await harness.raise(notification);
    expect(await harness.deliveries(id)).toHaveLength(1);
    await harness.pass(2 * DAY);
    const seen = await runInDurableObject(harness.object, (_, { storage: { sql } }) =>
      sql.exec("SELECT id FROM notifications_seen").toArray(),
    );
    expect(seen).toEqual([]);
  });

  test("is not stored if no destination wants its type", async () => {
    await harness.create(receiver, { notifications: ["usage.level"] });
    const notification = crossed();
    await harness.raise(notification);
    const { id } = await harness.create(receiver);
    await harness.raise(crossed("joe@example.com"));
    await until(() => expect(receiver.received).toHaveLength(1));
    expect(receiver.ids()).not.toContain(notification.id);
    expect(await harness.deliveries(id)).toHaveLength(1);
  });
});

describe("a failed attempt", () => {
  test("is retried on the schedule with the same id and body, and given up after three days", async () => {
    stopClock();
    receiver.answer = fails;
    const { id } = await harness.create(receiver);
    await harness.raise(crossed());
    for (const [index, delayMs] of RETRY_DELAYS_MS.entries()) {
      const { due_at, state } = await harness.attempted(id, index + 1);
      expect(state).toBe("waiting");
      const waitMs = Date.parse(due_at ?? "") - Date.now();
      expect(waitMs).toBeGreaterThanOrEqual(delayMs);
      expect(waitMs).toBeLessThanOrEqual(delayMs * (1 + RETRY_JITTER));
      await harness.pass(waitMs - 1);
      await harness.pass(1);
    }
    const last = await harness.attempted(id, RETRY_DELAYS_MS.length + 1);
    expect(last).toMatchObject({ state: "failed", end_reason: "attempts_failed", due_at: null });
    expect(receiver.received).toHaveLength(RETRY_DELAYS_MS.length + 1);
    expect(new Set(receiver.received.map(({ id: eventId, text }) => eventId + text)).size).toBe(1);
    expect(await harness.destination(id)).toMatchObject({ state: "active", failing_since: null, waiting: 0 });
    expect(await harness.workspace.operator("GET", "/health")).toMatchObject({ failing_destinations: [] });
  });

  /** Milliseconds until the second attempt, if the receiver answers the first with this Retry-After. */
  async function waitAfter(retryAfter: () => string): Promise<number> {
    stopClock();
    receiver.answer = () => new Response("later", { status: 503, headers: { "retry-after": retryAfter() } });
    const { id } = await harness.create(receiver);
    await harness.raise(crossed());
    const { due_at } = await harness.attempted(id, 1);
    return Date.parse(due_at ?? "") - Date.now();
  }

  test.each([
    ["in seconds", () => "3600"],
    ["as a date", () => new Date(Date.now() + HOUR).toUTCString()],
  ])("waits as long as the receiver's Retry-After, %s, if that is longer", async (_, retryAfter) => {
    const waitMs = await waitAfter(retryAfter);
    // A date has no milliseconds.
    expect(waitMs).toBeGreaterThan(HOUR - 1_000);
    expect(waitMs).toBeLessThanOrEqual(HOUR);
  });

  test.each([
    ["is no time", () => "soon"],
    ["has passed", () => new Date(Date.now() - HOUR).toUTCString()],
  ])("is retried on the schedule if the receiver's Retry-After %s", async (_, retryAfter) => {
    const waitMs = await waitAfter(retryAfter);
    expect(waitMs).toBeGreaterThanOrEqual(RETRY_DELAYS_MS[0] ?? 0);
    expect(waitMs).toBeLessThanOrEqual((RETRY_DELAYS_MS[0] ?? 0) * (1 + RETRY_JITTER));
  });

  test.each([
    [302, "It answered 302, a redirect, which is not followed."],
    [400, "It answered 400."],
  ])("with the status %i says: %s", async (status, error) => {
    receiver.answer = () => new Response("no", { status });
    const { id } = await harness.create(receiver);
    await harness.raise(crossed());
    expect((await harness.attempted(id, 1)).attempts).toMatchObject([{ status, error }]);
  });

  test("stores no network error text, which may contain the URL", async () => {
    receiver.answer = () => {
      throw new Error(`could not reach ${receiver.url}`);
    };
    const { id } = await harness.create(receiver);
    await harness.raise(crossed());
    const { attempts } = await harness.attempted(id, 1);
    expect(attempts).toMatchObject([{ status: null, error: "No connection, or it broke off.", answer: null }]);
  });

  test("makes all waiting deliveries due when the destination answers after hours", async () => {
    stopClock();
    receiver.answer = fails;
    const { id } = await harness.create(receiver);
    await harness.raise(crossed("jane@example.com"));
    for (const [index, ms] of [6_000, 6 * MINUTE, 36 * MINUTE, 3 * HOUR].entries()) {
      await harness.attempted(id, index + 1);
      await harness.pass(ms);
    }
    await harness.attempted(id, 5);
    expect((await harness.destination(id)).failing_since).not.toBeNull();
    receiver.answer = () => new Response("back");
    const later = ["joe@example.com", "jim@example.com"].map((email) => crossed(email));
    for (const notification of later) await harness.raise(notification);
    await harness.pass(2 * HOUR * (1 + RETRY_JITTER));
    await harness.shows(id, { waiting: 0, failing_since: null });
    expect(receiver.ids().slice(5).toSorted()).toEqual(
      [receiver.ids()[0], ...later.map((delivery) => delivery.id)].toSorted(),
    );
  });
});

describe("a failing destination", () => {
  test("is switched off after five days: deliveries are given up, other destinations and the activity log are informed", async () => {
    stopClock();
    const otherReceiver = new Receiver();
    listen(receiver, otherReceiver);
    receiver.answer = fails;
    const { id } = await harness.create(receiver);
    await harness.create(otherReceiver, { name: "Other", notifications: ["usage.level"] });
    for (let elapsed = 0; elapsed <= 5 * DAY; elapsed += DAY) {
      const before = receiver.received.length;
      await harness.raise(crossed());
      await until(() => expect(receiver.received.length).toBeGreaterThan(before));
      await harness.attempted(id, 1);
      if (elapsed < 5 * DAY) {
        expect(await harness.destination(id)).toMatchObject({ state: "active" });
        vi.setSystemTime(Date.now() + DAY);
      }
    }
    await harness.shows(id, {
      state: "disabled",
      disabled_reason: "failing",
      waiting: 0,
    });
    await until(() =>
      expect(otherReceiver.received[0]?.body.data).toMatchObject({ destination_id: id, reason: "failing" }),
    );
    const select = "SELECT actor, action FROM audit_log WHERE workspace_id = ? AND action = 'destination.switched_off'";
    const entries = await env.DB.prepare(select).bind(harness.workspace.id).all();
    expect(entries.results).toEqual([{ actor: "service", action: "destination.switched_off" }]);
    await harness.workspace.operator("POST", `/destinations/${id}/resume`);
    expect(await harness.destination(id)).toMatchObject({
      state: "active",
      disabled_reason: null,
      failing_since: null,
    });
    // Its next failure begins a new run of failures.
    await harness.raise(crossed());
    const since = new Date(Date.now()).toISOString();
    await harness.shows(id, { state: "active", failing_since: since });
  });

  test("is switched off by its first 410 and not tried again", async () => {
    stopClock();
    receiver.answer = () => new Response("no such hook", { status: 410 });
    const { id } = await harness.create(receiver);
    await harness.raise(crossed());
    const since = new Date(Date.now()).toISOString();
    await harness.shows(id, {
      state: "disabled",
      disabled_reason: "gone",
      failing_since: since,
      waiting: 0,
    });
    expect(await harness.deliveries(id)).toMatchObject([{ state: "failed", end_reason: "switched_off" }]);
    await harness.raise(crossed());
    await harness.pass(DAY);
    expect(receiver.received).toHaveLength(1);
  });

  test("is in the activity log once D1 answers, if it did not when it was switched off", async () => {
    expectLogged("sources_not_informed");
    stopClock();
    let at = "";
    receiver.answer = () => new Response("gone", { status: 410 });
    const { id } = await harness.create(receiver);
    const query = "SELECT at FROM audit_log WHERE target = ? AND action = 'destination.switched_off'";
    const entries = async () => (await env.DB.prepare(query).bind(id).all()).results;
    await env.DB.exec("ALTER TABLE audit_log RENAME TO away");
    try {
      await harness.raise(crossed());
      await harness.shows(id, { state: "disabled" });
      at = new Date().toISOString();
      await harness.pass(60_000);
    } finally {
      await env.DB.exec("ALTER TABLE away RENAME TO audit_log");
    }
    expect(await entries()).toEqual([]);
    await harness.pass(60_000);
    await until(async () => expect(await entries()).toEqual([{ at }]));
  });
});

test("attempts that fail at the same time count as one failure, and the longest pause stays", async () => {
  stopClock();
  await harness.create(receiver);
  const { queue, sent } = loseMessages();
  await harness.raise(crossed("jane@example.com"), crossed("joe@example.com"));
  const dues = sent();
  for (const due of dues) await harness.object.take(due);
  for (const [index, due] of dues.entries()) {
    const failure = { atMs: Date.now() - 1_000, tookMs: 1, status: 503, error: "no", answer: null };
    await harness.object.report(due, { ...failure, retryAfterMs: index === 0 ? HOUR : null });
  }
  queue.mockClear();
  await harness.pass(HOUR - 1);
  expect(queue).not.toHaveBeenCalled();
  await harness.pass(1);
  expect(sent()).toHaveLength(2);
});

test("does not delay due deliveries while the control plane or the counter does not answer", async () => {
  expectLogged("destinations_alarm_failed");
  stopClock();
  const { id } = await harness.create(receiver, { notifications: ["person.score_crossed", "key.silent"] });
  await harness.pass(1);
  receiver.answer = fails;
  await harness.raise(crossed());
  await harness.attempted(id, 1);
  const down = vi.spyOn(QuotaCounter.prototype, "lastUsed").mockImplementation(() => {
    throw new Error("the counter is down");
  });
  receiver.answer = () => new Response("ok");
  await harness.pass(2 * HOUR);
  expect(down).toHaveBeenCalledTimes(1);
  expect(await harness.attempted(id, 2)).toMatchObject({ state: "delivered" });
  // The queue is retried after a minute, not continuously.
  await harness.pass(30_000);
  expect(down).toHaveBeenCalledTimes(1);
  await harness.pass(40_000);
  expect(down).toHaveBeenCalledTimes(2);
});

describe("a loss in transit", () => {
  test.each([
    ["after its lease if the queue loses the message", false, DELIVERY_LEASE_MS],
    ["within seconds if the queue rejects the message", true, RETRY_MIN_SECONDS * 1_000],
  ])("resends a delivery %s", async (_, isRejected, againMs) => {
    expectLogged("deliveries_not_sent");
    stopClock();
    const { id } = await harness.create(receiver);
    const { queue } = loseMessages();
    if (isRejected) queue.mockRejectedValue(new Error("overloaded"));
    await harness.raise(crossed());
    await until(() => expect(queue).toHaveBeenCalledTimes(1));
    queue.mockRestore();
    await harness.pass(againMs - 1);
    expect(receiver.received).toEqual([]);
    await harness.pass(1);
    await harness.attempted(id, 1);
    expect(receiver.received).toHaveLength(1);
  });

  test("resends under the same id and counts one attempt if the report of an answered delivery is lost", async () => {
    expectLogged("delivery_lost");
    stopClock();
    const { id } = await harness.create(receiver);
    // oxlint-disable-next-line typescript/unbound-method -- called with `this` below
    const { report } = Destinations.prototype;
    const died = vi.fn<() => void>();
    vi.spyOn(Destinations.prototype, "report").mockImplementation(function (this: Destinations, due, result) {
      // A report of an earlier test may come late.
      if (due.destinationId !== id || died.mock.calls.length > 0) return report.call(this, due, result);
      died();
      return Promise.reject(new Error("the consumer has died"));
    });
    await harness.raise(crossed());
    await until(() => expect(died).toHaveBeenCalled());
    await harness.pass(DELIVERY_LEASE_MS);
    const { attempts, state } = await harness.attempted(id, 1);
    expect([attempts.length, state]).toEqual([1, "delivered"]);
    expect(receiver.ids()).toEqual([receiver.ids()[0], receiver.ids()[0]]);
  });

  test("counts one failure if two consumers report the same attempt", async () => {
    stopClock();
    const { id } = await harness.create(receiver);
    const { sent } = loseMessages();
    await harness.raise(crossed());
    const [due = NO_DELIVERY] = sent();
    for (let consumers = 0; consumers < 2; consumers++) {
      expect(await harness.object.take(due)).not.toBeNull();
      await harness.pass(TAKEN_MS);
    }
    const failure = { atMs: Date.now(), tookMs: 1, status: 500, error: "no", answer: null, retryAfterMs: null };
    await harness.object.report(due, failure);
    const reported = await harness.deliveries(id);
    await harness.object.report(due, failure);
    expect(await harness.deliveries(id)).toEqual(reported);
    // A late success counts: the receiver has the delivery.
    await harness.object.report(due, { ...failure, status: 200, error: null });
    expect(await harness.attempted(id, 2)).toMatchObject({ state: "delivered" });
  });

  test("sends once if the queue delivers a message twice", async () => {
    const { id } = await harness.create(receiver);
    const take = vi.spyOn(Destinations.prototype, "take");
    const sendBatch = env.DELIVERIES.sendBatch.bind(env.DELIVERIES);
    vi.spyOn(env.DELIVERIES, "sendBatch").mockImplementation((messages, options) => {
      const all = [...messages];
      return sendBatch([...all, ...all], options);
    });
    await harness.raise(crossed());
    await harness.attempted(id, 1);
    const taken = () => take.mock.calls.filter(([due]) => due.destinationId === id);
    await until(() => expect(taken()).toHaveLength(2));
    expect(receiver.received).toHaveLength(1);
  });
});

describe("scoring signals", () => {
  test("leave at once when idle; later ones leave together in order, one second apart", async () => {
    stopClock();
    const { id } = await harness.create(receiver, { notifications: ["person.scored", "person.score_crossed"] });
    const notifications = [scored("a@example.com"), scored("b@example.com", "c@example.com"), scored("d@example.com")];
    for (const [index, notification] of notifications.entries()) {
      await harness.raise(notification);
      if (index === 0) await harness.attempted(id, 1);
    }
    // A notification of another type does not wait for them.
    const crossing = crossed();
    await harness.raise(crossing);
    await until(() => expect(receiver.received).toHaveLength(2));
    await harness.pass(999);
    expect(receiver.received).toHaveLength(2);
    await harness.pass(1);
    await until(() => expect(receiver.received).toHaveLength(3));
    expect(receiver.ids()).toEqual([notifications[0]?.id, crossing.id, notifications[1]?.id]);
    const signals = receiver.received[2]?.body.data["scoring_signals"] as { email: string }[];
    expect(signals.map(({ email }) => email)).toEqual(["b@example.com", "c@example.com", "d@example.com"]);
  });

  test("wait together for a failing destination, which is tried on the schedule, while another destination gets its own", async () => {
    stopClock();
    const swift = new Receiver();
    listen(receiver, swift);
    receiver.answer = fails;
    const notifications = ["person.scored"];
    const [dead, alive] = [
      await harness.create(receiver, { notifications }),
      await harness.create(swift, { notifications }),
    ];
    for (let round = 0; round < 25; round++) {
      await harness.raise(scored(`p${round}@example.com`));
      await harness.shows(alive.id, { waiting: 0 });
      expect(swift.received).toHaveLength(round + 1);
      await harness.pass(4 * MINUTE);
    }
    // At once, then after 5 s, 5 and 30 minutes.
    expect(receiver.received.length).toBeLessThanOrEqual(6);
    expect((await harness.deliveries(dead.id)).length).toBeLessThanOrEqual(6);
    receiver.answer = () => new Response("back");
    await harness.pass(3 * HOUR);
    await until(async () => {
      await harness.pass(1_000);
      expect(await harness.destination(dead.id)).toMatchObject({ waiting: 0, dropped: 0 });
    });
    const signals = receiver.received.flatMap(({ body }) => body.data["scoring_signals"] as { email: string }[]);
    expect(new Set(signals.map(({ email }) => email)).size).toBe(25);
    expect(receiver.received.length).toBeLessThanOrEqual(12);
  });
});

describe("many scoring signals", () => {
  /** Notifications of 100 scoring signals each, as a batch of signals raises them. */
  const batch = (n: number) => scored(...Array.from({ length: 100 }, (_, index) => `p${n}-${index}@example.com`));
  const signalsOf = ({ body }: ReceivedNotification) => (body.data["scoring_signals"] as object[]).length;

  test("reach a slow receiver in few large deliveries, each signal once, at 10,000 a minute", async () => {
    stopClock();
    receiver.answer = async () => {
      for (const answersMs = Date.now() + 6_000; Date.now() < answersMs;) await scheduler.wait(3);
      return new Response("ok");
    };
    const { id } = await harness.create(receiver, { notifications: ["person.scored"] });
    for (let n = 0; n < 100; n++) {
      await harness.raise(batch(n));
      await harness.pass(600);
      await scheduler.wait(6);
    }
    await until(async () => {
      await harness.pass(1_000);
      expect(await harness.destination(id)).toMatchObject({ waiting: 0, dropped: 0, failing_since: null });
    });
    expect(receiver.received.reduce((sum, message) => sum + signalsOf(message), 0)).toBe(10_000);
    expect(new Set(receiver.ids()).size).toBe(receiver.received.length);
    expect(receiver.received.length).toBeLessThanOrEqual(25);
    expect(Math.max(...receiver.received.map(({ text }) => text.length))).toBeLessThan(300_000);
  });

  test.each([
    ["longest", { event: "\u{1F600}".repeat(127), scoring_signal: "ﷺ".repeat(100) }, 5],
    ["shortest", { event: "e", scoring_signal: "s" }, 2],
  ])("with the %s texts stay within the limits of a delivery", async (_length, texts, deliveries) => {
    stopClock();
    receiver.answer = fails;
    const { id } = await harness.create(receiver, { notifications: ["person.scored"] });
    const raised = batch(0);
    for (const signal of raised.data.scoring_signals) Object.assign(signal, texts);
    for (let n = 0; n < 25; n++) await harness.raise({ ...raised, id: newId("ntf") });
    await harness.attempted(id, 1);
    const rows = await runInDurableObject(harness.object, (_, { storage: { sql } }) =>
      sql
        .exec<{ bytes: number; batches: number }>(
          "SELECT bytes, json_array_length(notifications) AS batches FROM deliveries",
        )
        .toArray(),
    );
    expect(rows.length).toBeGreaterThan(deliveries);
    for (const { bytes, batches } of rows) {
      expect(bytes).toBeLessThan(260 * 1_024);
      expect(batches * 100).toBeLessThanOrEqual(PERSON_SCORED_MAX_SIGNALS);
    }
  });

  test("wait up to 64 MB per destination; the oldest are given up and counted, new ones are kept", async () => {
    stopClock();
    receiver.answer = fails;
    const { id } = await harness.create(receiver, { notifications: ["person.scored", "usage.level"] });
    const large = batch(0);
    for (const signal of large.data.scoring_signals) signal.event = "x".repeat(5_000);
    const kept = Math.floor(WAITING_MAX_BYTES / 530_000);
    for (let n = 0; n < kept + 20; n += 10) {
      await harness.raise(...Array.from({ length: 10 }, () => ({ ...large, id: newId("ntf") })));
    }
    const { waiting, dropped } = await harness.destination(id);
    expect(dropped).toBeGreaterThanOrEqual(10);
    expect(waiting).toBeGreaterThan(kept - 20);
    const { bytes, notifications } = await runInDurableObject(harness.object, (_, { storage: { sql } }) => ({
      ...sql.exec<{ bytes: number }>("SELECT sum(bytes) AS bytes FROM deliveries WHERE due_ms IS NOT NULL").one(),
      ...sql.exec<{ notifications: number }>("SELECT sum(length(data)) AS notifications FROM notifications").one(),
    }));
    expect(bytes).toBeLessThanOrEqual(WAITING_MAX_BYTES);
    expect(notifications).toBeLessThan(WAITING_MAX_BYTES * 2);
  });

  test("larger than a row are counted as dropped and block nothing", async () => {
    stopClock();
    const { id } = await harness.create(receiver, { notifications: ["person.scored"] });
    const huge = batch(0);
    for (const signal of huge.data.scoring_signals) signal.event = "x".repeat(50_000);
    const after = scored("jane@example.com");
    await harness.raise(huge, after);
    await until(() => expect(receiver.ids()).toEqual([after.id]));
    await harness.workspace.operator("POST", `/destinations/${id}/pause`);
    expect(await harness.destination(id)).toMatchObject({ dropped: 1, state: "paused" });
  });
});

test("a notification that a receiver never accepts blocks no other notification", async () => {
  stopClock();
  const [bad, ...good] = Array.from({ length: 12 }, (_, n) => crossed(`p${n}@example.com`));
  receiver.answer = () => new Response("", { status: receiver.received.at(-1)?.id === bad?.id ? 500 : 200 });
  const { id } = await harness.create(receiver);
  if (bad !== undefined) await harness.raise(bad);
  for (const notification of good) {
    await harness.raise(notification);
    await harness.pass(10 * MINUTE);
  }
  await harness.shows(id, { waiting: 1 });
  expect(new Set(receiver.ids()).size).toBe(12);
});

describe("a receiver that hangs", () => {
  test("uses only its share of connections, so other destinations still get their notifications", async () => {
    const swift = new Receiver();
    listen(receiver, swift);
    receiver.answer = () => new Promise<Response>(() => undefined);
    await harness.create(receiver);
    await harness.create(swift, { notifications: ["dead_letters.added"] });
    for (let n = 0; n < 30; n++) await harness.raise(crossed(`p${n}@example.com`));
    const data = { signals: 1, reasons: { rules_too_slow: 1 } };
    await harness.raise({ ...crossed(), type: "dead_letters.added", data });
    await until(() => expect(swift.received).toHaveLength(1));
    expect(receiver.received.length).toBeLessThanOrEqual(DELIVERIES_UNDER_WAY);
  });
});
