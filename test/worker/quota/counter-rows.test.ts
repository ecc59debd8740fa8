/** Design §7: cost of a signal in rows written and alarms set, each billed as a row. The counts outlive the rows. */
import { abortAllDurableObjects, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, test, vi } from "vitest";
import { SAFETY_ALARM_MS } from "../../../src/limits.ts";
import { amount } from "../../support/amount.ts";
import { stopClock } from "../../support/clock.ts";
import { admitCall, countRows, lose, newCounter, type TestCounter } from "../../support/counter.ts";

/** The alarm follows the real clock, and rings only when a test rings it. */
const START = Date.UTC(2031, 2, 5, 12);

const at = (ms: number): void => stopClock(START + ms);

async function passTo(counter: TestCounter, ms: number): Promise<void> {
  const dueMs = await counter.alarmMs();
  at(ms);
  if (dueMs !== null && dueMs <= Date.now()) await runDurableObjectAlarm(counter.stub);
}

async function newCounterAtStart(signalLimit = 10_000): Promise<TestCounter> {
  at(0);
  const counter = await newCounter({ signalLimit });
  await counter.sendTo(lose);
  return counter;
}

/** Rows and alarms per signal, with signals at this interval that are settled some signals later. */
async function costOfSignals(signals: number, everyMs: number, settledAfter: number): Promise<number> {
  const counter = await newCounterAtStart();
  const { rows, alarms } = await countRows(counter, async () => {
    for (let n = 1; n <= signals; n++) {
      await passTo(counter, n * everyMs);
      await counter.counted(1);
      const settled = Array.from({ length: settledAfter }, (_, index) => n - index);
      if (n % settledAfter === 0) await counter.settle(...settled);
    }
  });
  expect(await counter.stub.books()).toMatchObject({ admitted: signals, unsettled: signals % settledAfter });
  return (rows + alarms) / signals;
}

describe("a signal costs", () => {
  test("one row on arrival and one when settled, at one a second", async () => {
    expect(await costOfSignals(amount(45, 180), 1_000, 1)).toBeLessThanOrEqual(2.15);
    expect(await costOfSignals(amount(45, 180), 1_000, 2)).toBeLessThanOrEqual(2.15);
  });

  test("as many rows at twenty a second, settled forty at a time", async () => {
    expect(await costOfSignals(amount(80, 400), 50, 40)).toBeLessThanOrEqual(2.05);
  });

  test("a fortieth of a row in batches of 100, settled one by one", async () => {
    const counter = await newCounterAtStart();
    const { rows, alarms } = await countRows(counter, async () => {
      for (let n = 1; n <= 20; n++) {
        await counter.counted(100);
        await counter.settle(n);
      }
    });
    expect((rows + alarms) / 2_000).toBeLessThanOrEqual(0.025);
  });

  test("an alarm in a quiet minute, and nothing while no signal arrives", async () => {
    const counter = await newCounterAtStart();
    const cost = async (ms: number, work: () => Promise<unknown>) => {
      const { alarms } = await countRows(counter, async () => {
        await passTo(counter, ms);
        await work();
      });
      return alarms;
    };
    const signal = (row: number) => async () => {
      await counter.counted(1);
      await counter.settle(row);
    };
    const nothing = () => Promise.resolve();
    expect(await cost(1_000, signal(1))).toBe(1);
    expect(await cost(2_000, signal(2))).toBe(0);
    // The alarm rings, and is set for likely signals; then for the period's end.
    expect(await cost(1_000 + SAFETY_ALARM_MS, signal(3))).toBe(1);
    expect(await cost(2_000 + 2 * SAFETY_ALARM_MS, nothing)).toBe(1);
    for (const hour of [1, 2, 3]) expect(await cost(hour * 3_600_000, nothing)).toBe(0);
  });
});

async function stateOf(counter: TestCounter) {
  return { usage: await counter.stub.usage(), books: await counter.stub.books() };
}

const restarts = [
  { title: "is evicted", stop: (counter: TestCounter) => evictDurableObject(counter.stub) },
  { title: "is killed", stop: () => abortAllDurableObjects() },
];

describe.each(restarts)("when the object $title, its counts stay the same", ({ stop }) => {
  async function expectKept(counter: TestCounter): Promise<void> {
    const before = await stateOf(counter);
    await stop(counter);
    await counter.sendTo(lose);
    expect(await stateOf(counter)).toEqual(before);
  }

  test("with every row settled", async () => {
    const counter = await newCounterAtStart(3);
    await counter.counted(2);
    await counter.counted(5);
    await counter.settle(2, 1);
    await expectKept(counter);
    expect(await counter.stub.usage()).toMatchObject({ accepted: 3, held: 3, rejected: 1 });
    expect(await counter.counted(1)).toEqual([0, 0, 1]);
  });

  test("with the last row settled before the others, and reused", async () => {
    const counter = await newCounterAtStart();
    for (let n = 0; n < 3; n++) await counter.counted(1);
    await counter.settle(3);
    await expectKept(counter);
    await counter.counted(4);
    await counter.settle(1, 2);
    await expectKept(counter);
    expect(await counter.positions()).toEqual([4]);
    expect(await counter.stub.books()).toEqual({ admitted: 7, unsettled: 4 });
  });

  test("after another plan, the end of a period and a release", async () => {
    const counter = await newCounterAtStart(2);
    await counter.counted(3);
    await counter.settle(1);
    await counter.configure({ signalLimit: 5 });
    await expectKept(counter);
    expect(await counter.stub.usage()).toMatchObject({ signalLimit: 5, accepted: 2, held: 1 });
    const { periodStartMs, periodEndMs } = await counter.usage();
    const batch = { job: "aud_1", batch: 1, through: 1, sent: 0, signals: counter.heldSignals(1, periodStartMs) };
    const released = await counter.stub.release(batch, { periodEndMs, overages: false, most: null });
    expect(released).toEqual({ sent: 1, through: 1, next: "end" });
    await expectKept(counter);
    await counter.settle(2);
    await counter.counted(1);
    await expectKept(counter);
    vi.setSystemTime(START + 40 * 24 * 3_600_000);
    await counter.stub.usage();
    await expectKept(counter);
    expect(await counter.stub.usage()).toMatchObject({ accepted: 0, held: 0, history: [{ accepted: 4, held: 0 }] });
    await counter.counted(2);
    await expectKept(counter);
  });

  test("while a settled row holds nothing of its signals", async () => {
    const counter = await newCounterAtStart();
    await counter.admit(1, admitCall(1, { payload: '{"email":"jane@example.com"}' }));
    await counter.settle(1);
    await stop(counter);
    const stored = await runInDurableObject(counter.stub, (_, { storage }) =>
      storage.sql.exec("SELECT row, bytes, body FROM outbox").toArray(),
    );
    expect(stored).toEqual([{ row: counter.rowsAt(1)[0], bytes: 0, body: new ArrayBuffer(0) }]);
    expect(await counter.stub.backlog()).toMatchObject({ unsettledSignals: 0, oldestAtMs: null });
  });
});
