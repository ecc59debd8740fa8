/** Notifications of the Quota Counter, once each: usage levels, periods, bursts of refusals, delays; and their cost. */
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { eventTypes, type EventType } from "../../../src/domain/events/workspace-event.ts";
import { NO_VERDICTS } from "../../../src/domain/quota/quota.ts";
import { SAFETY_ALARM_MS } from "../../../src/limits.ts";
import { REFUSAL_BURST_CALLS, REFUSAL_BURST_QUIET_MS } from "../../../src/quota/refusals.ts";
import { PROCESSING_LATE_MS } from "../../../src/quota/quota-counter.ts";
import { stopClock } from "../../support/clock.ts";
import { countRows, lose, newCounter, type TestCounter } from "../../support/counter.ts";
import { TestDestinations, ofType } from "../../support/raised.ts";
import { until } from "../../support/until.ts";
import { wanting } from "../../support/wanting.ts";

/** The alarm follows the real clock, and rings only when a test rings it. */
const START = Date.UTC(2031, 2, 5, 12);
const MINUTE = 60_000;

const at = (ms: number): void => stopClock(START + ms);

async function subscribedCounter(
  config: Parameters<typeof newCounter>[0] = {},
  types: EventType[] = [...eventTypes],
): Promise<{ counter: TestCounter; destinations: TestDestinations }> {
  at(0);
  const counter = await newCounter({ signalLimit: 10, ...config });
  const destinations = new TestDestinations(counter.id);
  await counter.sendTo(lose);
  await counter.stub.wantEvents(wanting({ types }));
  return { counter, destinations };
}

const waiting = (counter: TestCounter) =>
  runInDurableObject(
    counter.stub,
    (_, { storage: { sql } }) => sql.exec("SELECT 1 FROM raised_notifications").toArray().length,
  );

async function handedOn(counter: TestCounter): Promise<void> {
  await until(async () => expect(await waiting(counter)).toBe(0));
}

const levels = ({ taken }: TestDestinations) => ofType(taken, "usage.level").map(({ level }) => level);

async function ring(counter: TestCounter, ms: number): Promise<void> {
  at(ms);
  await counter.sendTo(lose);
  await runDurableObjectAlarm(counter.stub);
}

describe("a usage level", () => {
  test("is notified with the commit that reaches it, once a period: 80, 100 and 200 %, and the first refusal", async () => {
    const { counter, destinations } = await subscribedCounter();
    await counter.admit(7);
    await counter.admit(1);
    await counter.admit(1);
    await handedOn(counter);
    const span = { period_start: "2031-03-01T00:00:00.000Z", period_end: "2031-04-01T00:00:00.000Z" };
    expect(ofType(destinations.taken, "usage.level")).toEqual([
      { level: "80", used: 8, signal_limit: 10, overages: false, ...span },
    ]);
    // Crosses two levels at once.
    await counter.admit(11);
    await counter.admit(1);
    await counter.admit(1);
    await handedOn(counter);
    expect(levels(destinations)).toEqual(["80", "100", "200", "first_refusal"]);
    // Fewer signals are refused than in the period before.
    at(31 * 24 * 60 * MINUTE);
    await counter.admit(21);
    await handedOn(counter);
    expect(levels(destinations).slice(4)).toEqual(["80", "100", "200", "first_refusal"]);
  });

  test("is notified again after the limit was raised, and by the change itself if the limit was lowered", async () => {
    const { counter, destinations } = await subscribedCounter();
    await counter.admit(21);
    await counter.configure({ signalLimit: 100 });
    await handedOn(counter);
    expect(levels(destinations)).toEqual(["80", "100", "200", "first_refusal"]);
    await counter.admit(60);
    await handedOn(counter);
    expect(levels(destinations).slice(4)).toEqual(["80"]);
    await counter.configure({ signalLimit: 40 });
    await handedOn(counter);
    expect(levels(destinations).slice(5)).toEqual(["100", "200"]);
    await counter.admit(1);
    await counter.admit(1);
    await handedOn(counter);
    expect(levels(destinations).slice(7)).toEqual(["first_refusal"]);
  });

  test("is notified with overages enabled, but no refusal is", async () => {
    const { counter, destinations } = await subscribedCounter({ overages: true });
    await counter.admit(100);
    await handedOn(counter);
    expect(ofType(destinations.taken, "usage.level")).toMatchObject([
      { level: "80", used: 100, overages: true },
      { level: "100" },
      { level: "200" },
    ]);
  });

  test("ignores a level reached before the subscription, and reports later levels", async () => {
    const { counter, destinations } = await subscribedCounter({}, ["period.closed"]);
    await counter.admit(21);
    await counter.stub.wantEvents(wanting({ types: ["usage.level"] }));
    await counter.stub.wantEvents(wanting({ types: ["usage.level", "period.closed"] }));
    await counter.admit(1);
    await counter.configure({ signalLimit: 25 });
    await counter.admit(5);
    await handedOn(counter);
    expect(levels(destinations)).toEqual(["100"]);
  });

  test("is not notified for a failed commit, and once despite a restart in between", async () => {
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
    await handedOn(counter);
    expect(levels(destinations)).toEqual(["80", "100"]);
    expect(await counter.stub.usage()).toMatchObject({ accepted: 10 });
  });
});

test("notifies the end of each period with its counts and consequences", async () => {
  const { counter, destinations } = await subscribedCounter();
  await counter.admit(15);
  at(57 * 24 * 60 * MINUTE);
  await counter.stub.usage();
  await handedOn(counter);
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

test("notifies periods around a late configuration with the one effective at their ends", async () => {
  const { counter, destinations } = await subscribedCounter({}, ["period.closed"]);
  await counter.admit(15);
  at(57 * 24 * 60 * MINUTE);
  await counter.configure({ signalLimit: 70, configVersion: Date.UTC(2031, 3, 10) });
  await handedOn(counter);
  expect(ofType(destinations.taken, "period.closed")).toMatchObject([
    { signal_limit: 10, streak: 1 },
    { signal_limit: 70, streak: 0 },
  ]);
});

const refuse = (counter: TestCounter, requestId: string = crypto.randomUUID()) =>
  counter.stub.refused({ keyId: "key_1", code: "body_not_json", detail: "No JSON.", requestId, signals: 1 });

test("hands notifications over by the alarm if the object is killed before", async () => {
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
  await handedOn(counter);
  expect(levels(destinations)).toEqual(["80"]);
});

describe("a burst of refusals", () => {
  test("is notified at 20 refused calls and a tenth of all within five minutes, then not for six hours", async () => {
    const { counter, destinations } = await subscribedCounter({ signalLimit: 100_000 });
    for (let calls = 0; calls < 10 * REFUSAL_BURST_CALLS - REFUSAL_BURST_CALLS; calls++) await counter.admit(1);
    for (let calls = 0; calls < REFUSAL_BURST_CALLS; calls++) await refuse(counter);
    expect(await waiting(counter)).toBe(0);
    expect(ofType(destinations.taken, "refusals.burst")).toEqual([]);
    at(MINUTE);
    await refuse(counter);
    await handedOn(counter);
    expect(ofType(destinations.taken, "refusals.burst")).toEqual([
      {
        key_id: "key_1",
        from: new Date(START).toISOString(),
        to: new Date(START + MINUTE).toISOString(),
        calls: 10 * REFUSAL_BURST_CALLS + 1,
        refused: REFUSAL_BURST_CALLS + 1,
        codes: { body_not_json: REFUSAL_BURST_CALLS + 1 },
      },
    ]);
    for (let calls = 0; calls < REFUSAL_BURST_CALLS; calls++) await refuse(counter);
    await handedOn(counter);
    expect(ofType(destinations.taken, "refusals.burst")).toHaveLength(1);
    at(MINUTE + REFUSAL_BURST_QUIET_MS);
    for (let calls = 0; calls < REFUSAL_BURST_CALLS; calls++) await refuse(counter);
    await handedOn(counter);
    expect(ofType(destinations.taken, "refusals.burst")).toHaveLength(2);
  });

  test("does not span more than five minutes, and counts a call once for all its reasons", async () => {
    const { counter, destinations } = await subscribedCounter();
    for (let minute = 0; minute < REFUSAL_BURST_CALLS; minute++) {
      at(minute * MINUTE);
      await refuse(counter);
      await refuse(counter);
    }
    const invalid = (["event_missing", "email_invalid"] as const).map((code) => ({
      code,
      detail: "",
      signals: 1,
    }));
    at(60 * MINUTE);
    for (let calls = 0; calls < REFUSAL_BURST_CALLS / 2; calls++) {
      await counter.admit(0, { invalid, requestId: crypto.randomUUID() });
    }
    for (const minute of [100, 107]) {
      at(minute * MINUTE);
      for (let calls = 0; calls < REFUSAL_BURST_CALLS - 1; calls++) await refuse(counter);
    }
    await handedOn(counter);
    expect(ofType(destinations.taken, "refusals.burst")).toEqual([]);
  });
});

test("notifies a delay after ten minutes, again only after recovery, and to a destination that subscribes again", async () => {
  const { counter, destinations } = await subscribedCounter({ signalLimit: 1_000 });
  await counter.admit(2);
  at(MINUTE);
  await counter.admit(1);
  await ring(counter, PROCESSING_LATE_MS - 1);
  expect(await counter.alarmMs()).toBe(START + PROCESSING_LATE_MS);
  await handedOn(counter);
  expect(destinations.taken).toEqual([]);
  await ring(counter, PROCESSING_LATE_MS);
  await ring(counter, PROCESSING_LATE_MS + MINUTE);
  await handedOn(counter);
  const oldest = { oldest_at: new Date(START).toISOString(), signals: 3 };
  expect(ofType(destinations.taken, "processing.late")).toEqual([oldest]);
  await counter.settle(1, 2);
  at(2 * PROCESSING_LATE_MS);
  await counter.admit(1);
  await ring(counter, 2 * PROCESSING_LATE_MS + MINUTE);
  await ring(counter, 3 * PROCESSING_LATE_MS);
  await handedOn(counter);
  const again = { oldest_at: new Date(START + 2 * PROCESSING_LATE_MS).toISOString(), signals: 1 };
  expect(ofType(destinations.taken, "processing.late")).toEqual([oldest, again]);
  for (const types of [["period.closed" as const], [...eventTypes]]) {
    await counter.stub.wantEvents(wanting({ types }));
  }
  await ring(counter, 3 * PROCESSING_LATE_MS + MINUTE);
  await handedOn(counter);
  expect(ofType(destinations.taken, "processing.late")).toEqual([oldest, again, again]);
});

describe("rows and alarms", () => {
  /** For a signal that arrives alone and is settled, on a counter that has had others. */
  async function costOf(types: EventType[], signals: number): Promise<{ rows: number; alarms: number }> {
    const { counter } = await subscribedCounter({ signalLimit: 100 }, types);
    await counter.admit(1);
    await counter.settle(1);
    return countRows(counter, async () => {
      await counter.admit(signals);
      await counter.settle(2);
      await handedOn(counter);
    });
  }

  test("stay the same while no notification is raised, with and without a subscriber", async () => {
    const plain = await costOf([], 1);
    expect(plain.rows).toBe(2);
    expect(await costOf([...eventTypes], 1)).toEqual(plain);
  });
});
