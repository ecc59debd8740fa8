/** Notifications of the Quota Counter, once each: usage levels, periods, bursts of rejections, delays; and their cost. */
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { notificationTypes, type NotificationType } from "../../../src/domain/notifications/notification.ts";
import { NO_VERDICTS } from "../../../src/domain/quota/quota.ts";
import { SAFETY_ALARM_MS } from "../../../src/limits.ts";
import { REJECTION_BURST_CALLS, REJECTION_BURST_QUIET_MS } from "../../../src/quota/rejected-calls.ts";
import { PROCESSING_LATE_MS } from "../../../src/quota/quota-counter.ts";
import { stopClock } from "../../support/clock.ts";
import { countRows, lose, newCounter, type TestCounter } from "../../support/counter.ts";
import { expectLogged } from "../../support/logged.ts";
import { TestDestinations, ofType } from "../../support/raised.ts";
import { until } from "../../support/until.ts";
import { wanting } from "../../support/wanting.ts";

/** The alarm follows the real clock, and rings only when a test rings it. */
const START = Date.UTC(2031, 2, 5, 12);
const MINUTE = 60_000;

const at = (ms: number): void => stopClock(START + ms);

async function subscribedCounter(
  config: Parameters<typeof newCounter>[0] = {},
  types: NotificationType[] = [...notificationTypes],
): Promise<{ counter: TestCounter; destinations: TestDestinations }> {
  at(0);
  const counter = await newCounter({ signalLimit: 10, ...config });
  const destinations = new TestDestinations(counter.id);
  await counter.sendTo(lose);
  await counter.stub.wantNotifications(wanting({ types }));
  return { counter, destinations };
}

const waiting = (counter: TestCounter) =>
  runInDurableObject(
    counter.stub,
    (_, { storage: { sql } }) => sql.exec("SELECT 1 FROM raised_notifications").toArray().length,
  );

async function forwarded(counter: TestCounter): Promise<void> {
  await until(async () => expect(await waiting(counter)).toBe(0));
}

const levels = ({ taken }: TestDestinations) => ofType(taken, "usage.level").map(({ level }) => level);

async function ring(counter: TestCounter, ms: number): Promise<void> {
  at(ms);
  await counter.sendTo(lose);
  await runDurableObjectAlarm(counter.stub);
}

describe("a usage level", () => {
  test("is raised with the commit that reaches it, once a period: 80, 100 and 200 %, and the first rejection", async () => {
    const { counter, destinations } = await subscribedCounter();
    await counter.admit(7);
    await counter.admit(1);
    await counter.admit(1);
    await forwarded(counter);
    const span = { period_start: "2031-03-01T00:00:00.000Z", period_end: "2031-04-01T00:00:00.000Z" };
    expect(ofType(destinations.taken, "usage.level")).toEqual([
      { level: "80", used: 8, signal_limit: 10, overages: false, ...span },
    ]);
    // Crosses two levels at once.
    await counter.admit(11);
    await counter.admit(1);
    await counter.admit(1);
    await forwarded(counter);
    expect(levels(destinations)).toEqual(["80", "100", "200", "first_rejection"]);
    // Fewer signals are rejected than in the period before.
    at(31 * 24 * 60 * MINUTE);
    await counter.admit(21);
    await forwarded(counter);
    expect(levels(destinations).slice(4)).toEqual(["80", "100", "200", "first_rejection"]);
  });

  test("is raised again after the limit was raised, and by the change itself if the limit was lowered", async () => {
    const { counter, destinations } = await subscribedCounter();
    await counter.admit(21);
    await counter.configure({ signalLimit: 100 });
    await forwarded(counter);
    expect(levels(destinations)).toEqual(["80", "100", "200", "first_rejection"]);
    await counter.admit(60);
    await forwarded(counter);
    expect(levels(destinations).slice(4)).toEqual(["80"]);
    await counter.configure({ signalLimit: 40 });
    await forwarded(counter);
    expect(levels(destinations).slice(5)).toEqual(["100", "200"]);
    await counter.admit(1);
    await counter.admit(1);
    await forwarded(counter);
    expect(levels(destinations).slice(7)).toEqual(["first_rejection"]);
  });

  test("is raised with overages enabled, but no rejection is", async () => {
    const { counter, destinations } = await subscribedCounter({ overages: true });
    await counter.admit(100);
    await forwarded(counter);
    expect(ofType(destinations.taken, "usage.level")).toMatchObject([
      { level: "80", used: 100, overages: true },
      { level: "100" },
      { level: "200" },
    ]);
  });

  test("ignores a level reached before the subscription, and reports later levels", async () => {
    const { counter, destinations } = await subscribedCounter({}, ["period.closed"]);
    await counter.admit(21);
    await counter.stub.wantNotifications(wanting({ types: ["usage.level"] }));
    await counter.stub.wantNotifications(wanting({ types: ["usage.level", "period.closed"] }));
    await counter.admit(1);
    await counter.configure({ signalLimit: 25 });
    await counter.admit(5);
    await forwarded(counter);
    expect(levels(destinations)).toEqual(["100"]);
  });

  test("is not raised for a failed commit, and once despite a restart in between", async () => {
    expectLogged("commit_failed", "raise_failed");
    const { counter, destinations } = await subscribedCounter();
    const repair = await counter.breakStatement("INSERT OR REPLACE INTO ledger");
    await expect(counter.admit(8)).rejects.toThrow("disk full");
    expect(await waiting(counter)).toBe(0);
    await repair();
    destinations.faults = ["before"];
    await counter.admit(8);
    await until(() => expect(destinations.calls).toBe(1));
    await runInDurableObject(counter.stub, (_, ctx) => ctx.abort("killed")).catch(() => {});
    await counter.sendTo(lose);
    await counter.admit(1);
    await counter.admit(1);
    await forwarded(counter);
    expect(levels(destinations)).toEqual(["80", "100"]);
    expect(await counter.stub.usage()).toMatchObject({ accepted: 10 });
  });
});

test("reports the end of each period with its counts and consequences", async () => {
  const { counter, destinations } = await subscribedCounter();
  expect(await counter.alarmMs(), "the end is noticed without a call").toBe(Date.UTC(2031, 3, 1));
  await counter.admit(15);
  at(57 * 24 * 60 * MINUTE);
  await counter.stub.usage();
  await forwarded(counter);
  const counts = { signal_limit: 10, overages: false, overage: 0, ...NO_VERDICTS, extra_room_removed: false };
  expect(ofType(destinations.taken, "period.closed")).toEqual([
    {
      ...counts,
      period_start: "2031-03-01T00:00:00.000Z",
      period_end: "2031-04-01T00:00:00.000Z",
      accepted: 10,
      held: 5,
      streak: 1,
    },
    {
      ...counts,
      period_start: "2031-04-01T00:00:00.000Z",
      period_end: "2031-05-01T00:00:00.000Z",
      accepted: 0,
      held: 0,
      streak: 0,
    },
  ]);
});

test("reports periods around a late configuration with the one effective at their ends", async () => {
  const { counter, destinations } = await subscribedCounter({}, ["period.closed"]);
  await counter.admit(15);
  at(57 * 24 * 60 * MINUTE);
  await counter.configure({ signalLimit: 70, configVersion: Date.UTC(2031, 3, 10) });
  await forwarded(counter);
  expect(ofType(destinations.taken, "period.closed")).toMatchObject([
    { signal_limit: 10, streak: 1 },
    { signal_limit: 70, streak: 0 },
  ]);
});

const reject = (counter: TestCounter, requestId: string = crypto.randomUUID()) =>
  counter.stub.rejected({ keyId: "key_1", code: "body_not_json", detail: "No JSON.", requestId, signals: 1 });

test("the alarm forwards notifications if the object is killed before", async () => {
  const { counter, destinations } = await subscribedCounter();
  await counter.admit(5);
  await counter.settle(1);
  await ring(counter, MINUTE);
  destinations.gate = new Promise(() => {});
  at(2 * MINUTE);
  await counter.configure({ signalLimit: 6 });
  expect(await counter.alarmMs()).toBe(Date.now() + SAFETY_ALARM_MS);
  await runInDurableObject(counter.stub, (_, ctx) => ctx.abort("killed")).catch(() => {});
  destinations.gate = Promise.resolve();
  await ring(counter, 2 * MINUTE + SAFETY_ALARM_MS);
  await forwarded(counter);
  expect(levels(destinations)).toEqual(["80"]);
});

describe("a burst of rejections", () => {
  test("is raised at 20 rejected calls and a tenth of all within five minutes, then not for six hours", async () => {
    const { counter, destinations } = await subscribedCounter({ signalLimit: 100_000 });
    for (let calls = 0; calls < 10 * REJECTION_BURST_CALLS - REJECTION_BURST_CALLS; calls++) await counter.admit(1);
    for (let calls = 0; calls < REJECTION_BURST_CALLS; calls++) await reject(counter);
    expect(await waiting(counter)).toBe(0);
    expect(ofType(destinations.taken, "rejections.burst")).toEqual([]);
    at(MINUTE);
    await reject(counter);
    await forwarded(counter);
    expect(ofType(destinations.taken, "rejections.burst")).toEqual([
      {
        key_id: "key_1",
        from: new Date(START).toISOString(),
        to: new Date(START + MINUTE).toISOString(),
        calls: 10 * REJECTION_BURST_CALLS + 1,
        rejected: REJECTION_BURST_CALLS + 1,
        codes: { body_not_json: REJECTION_BURST_CALLS + 1 },
      },
    ]);
    for (let calls = 0; calls < REJECTION_BURST_CALLS; calls++) await reject(counter);
    await forwarded(counter);
    expect(ofType(destinations.taken, "rejections.burst")).toHaveLength(1);
    at(MINUTE + REJECTION_BURST_QUIET_MS);
    for (let calls = 0; calls < REJECTION_BURST_CALLS; calls++) await reject(counter);
    await forwarded(counter);
    expect(ofType(destinations.taken, "rejections.burst")).toHaveLength(2);
    await counter.stub.deactivate("key_off");
    for (let calls = 0; calls < REJECTION_BURST_CALLS; calls++) {
      await counter.admit(1, { keyId: "key_off", requestId: crypto.randomUUID() });
    }
    await forwarded(counter);
    const all = { calls: REJECTION_BURST_CALLS, rejected: REJECTION_BURST_CALLS };
    const codes = { unauthorized: REJECTION_BURST_CALLS };
    expect(ofType(destinations.taken, "rejections.burst").at(-1)).toMatchObject({ key_id: "key_off", ...all, codes });
  });

  test("does not span more than five minutes, and counts a call once for all its reasons", async () => {
    const { counter, destinations } = await subscribedCounter();
    for (let minute = 0; minute < REJECTION_BURST_CALLS; minute++) {
      at(minute * MINUTE);
      await reject(counter);
      await reject(counter);
    }
    const invalid = (["event_missing", "email_invalid"] as const).map((code) => ({
      code,
      detail: "",
      signals: 1,
    }));
    at(60 * MINUTE);
    for (let calls = 0; calls < REJECTION_BURST_CALLS / 2; calls++) {
      await counter.admit(0, { invalid, requestId: crypto.randomUUID() });
    }
    for (const minute of [100, 107]) {
      at(minute * MINUTE);
      for (let calls = 0; calls < REJECTION_BURST_CALLS - 1; calls++) await reject(counter);
    }
    await forwarded(counter);
    expect(ofType(destinations.taken, "rejections.burst")).toEqual([]);
  });
});

test("reports a delay after ten minutes, again only after recovery, and to a destination that subscribes again", async () => {
  const { counter, destinations } = await subscribedCounter({ signalLimit: 1_000 });
  await counter.admit(2);
  at(MINUTE);
  await counter.admit(1);
  await ring(counter, PROCESSING_LATE_MS - 1);
  expect(await counter.alarmMs()).toBe(START + PROCESSING_LATE_MS);
  await forwarded(counter);
  expect(destinations.taken).toEqual([]);
  await ring(counter, PROCESSING_LATE_MS);
  await ring(counter, PROCESSING_LATE_MS + MINUTE);
  await forwarded(counter);
  const oldest = { oldest_at: new Date(START).toISOString(), signals: 3 };
  expect(ofType(destinations.taken, "processing.late")).toEqual([oldest]);
  await counter.settle(1, 2);
  at(2 * PROCESSING_LATE_MS);
  await counter.admit(1);
  await ring(counter, 2 * PROCESSING_LATE_MS + MINUTE);
  await ring(counter, 3 * PROCESSING_LATE_MS);
  await forwarded(counter);
  const again = { oldest_at: new Date(START + 2 * PROCESSING_LATE_MS).toISOString(), signals: 1 };
  expect(ofType(destinations.taken, "processing.late")).toEqual([oldest, again]);
  for (const types of [["period.closed"], ["period.closed", "processing.late"]] as const) {
    await counter.stub.wantNotifications(wanting({ types: [...types] }));
  }
  // Also after a restart.
  const stored = await runInDurableObject(counter.stub, (_, { storage: { sql } }) =>
    sql.exec("SELECT late FROM ledger").one(),
  );
  expect(stored).toEqual({ late: 0 });
  await ring(counter, 3 * PROCESSING_LATE_MS + MINUTE);
  await forwarded(counter);
  expect(ofType(destinations.taken, "processing.late")).toEqual([oldest, again, again]);
});

describe("rows and alarms", () => {
  /** For a signal that arrives alone and is settled, on a counter that has had others. */
  async function costOf(types: NotificationType[], signals: number): Promise<{ rows: number; alarms: number }> {
    const { counter } = await subscribedCounter({ signalLimit: 100 }, types);
    await counter.admit(1);
    await counter.settle(1);
    return countRows(counter, async () => {
      await counter.admit(signals);
      await counter.settle(2);
      await forwarded(counter);
    });
  }

  test("stay the same while no notification is raised, with and without a subscriber", async () => {
    const plain = await costOf([], 1);
    expect(plain.rows).toBe(2);
    expect(await costOf([...notificationTypes], 1)).toEqual(plain);
  });
});
