/** Design §7, §8: a full Signal Store delays signals, and a full outbox rejects calls. */
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { OUTBOX_MAX_BYTES, RETRY_MIN_SECONDS } from "../../../src/limits.ts";
import { STORE_PROBE_MS } from "../../../src/quota/drain.ts";
import { readMessage } from "../../../src/wire/message.ts";
import type { RecordOptions, RecordResult, RowToRecord } from "../../../src/store/protocol/stored-signals.ts";
import { WATCH_MS } from "../../../src/platform/alarm.ts";
import { admitCall, lose, newCounter, type Queued, type SendBatch, type TestCounter } from "../../support/counter.ts";
import { consumeMessages } from "../../support/deliver.ts";
import { expectLogged } from "../../support/logged.ts";
import { until } from "../../support/until.ts";
import { newWorkspace, type BatchAnswer, type Problem, type TestWorkspace } from "../../support/workspace.ts";

/** In the future, so that the platform runs no alarm. */
const START = Date.now() + 24 * 3_600_000;
const UNAVAILABLE = 503;

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** A counter, a queue that the test delivers, and a store that may be full. */
class Road {
  readonly counter: TestCounter;
  /** Messages that were sent and not delivered yet. */
  readonly queue: Queued[] = [];
  full = false;
  /** Results of the next `sendBatch` calls. Later calls succeed. */
  readonly outcomes: (() => Promise<unknown>)[] = [];

  constructor(counter: TestCounter) {
    this.counter = counter;
  }

  readonly sendBatch: SendBatch = (messages) => {
    this.queue.push(...messages);
    return this.outcomes.shift()?.() ?? Promise.resolve();
  };

  /** Positions of the rows of each message that waits in the queue. */
  get rows(): number[][] {
    return this.queue.map(({ body }) => readMessage(body).rows.map(({ row }) => this.counter.positionOf(row.row)));
  }

  sent(rows: number[][]): Promise<void> {
    return until(() => expect(this.rows).toEqual(rows));
  }

  /** Delivers the queue to the consumer, which must acknowledge every message. */
  async deliver(queue = "signals"): Promise<void> {
    const messages = this.queue.splice(0);
    const result = await consumeMessages(
      messages.map(({ body }) => body),
      { queue, bindings: this.#bindings() },
    );
    expect(result.retryMessages).toEqual([]);
    expect(result.explicitAcks).toHaveLength(messages.length);
  }

  loseAll(): void {
    this.queue.length = 0;
  }

  /** The real bindings, except `record` of the store. */
  #bindings(): Env {
    const record = async (rows: RowToRecord[], options?: RecordOptions): Promise<RecordResult> => {
      if (this.full) return { outcome: "full" };
      return env.SIGNAL_STORE.getByName(this.counter.id).record(rows, options);
    };
    const getByName = (name: string) =>
      new Proxy(env.SIGNAL_STORE.getByName(name), {
        get: (target, call) => (call === "record" ? record : Reflect.get(target, call)),
      });
    return { ...env, SIGNAL_STORE: { getByName } } as unknown as Env;
  }

  totals() {
    return env.SIGNAL_STORE.getByName(this.counter.id).totals();
  }

  async unsettled(): Promise<number> {
    return (await this.counter.stub.books()).unsettled;
  }

  alarmMs(): Promise<number | null> {
    return runInDurableObject(this.counter.stub, (_, { storage }) => storage.getAlarm());
  }

  /** Runs the alarm at this time after START. The clock stands still otherwise. */
  async ring(atMs: number): Promise<void> {
    vi.setSystemTime(START + atMs);
    expect(await runDurableObjectAlarm(this.counter.stub)).toBe(true);
  }
}

/** Only `ring` moves the clock. */
async function newRoad(): Promise<Road> {
  vi.useFakeTimers({ toFake: ["Date"], now: START });
  const road = new Road(await newCounter());
  await road.counter.sendTo(road.sendBatch);
  return road;
}

/** Commits of one large signal each, which fill a message each. */
async function commitLarge(counter: TestCounter, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    const payload = JSON.stringify({ email: "a@example.com", event: `e${n}`, text: "x".repeat(50_000) });
    await counter.stub.admit(admitCall(1, { payload }));
  }
}

/** A full store that has rejected three rows. */
async function stopped(): Promise<Road> {
  const road = await newRoad();
  await commitLarge(road.counter, 3);
  await road.sent([[1], [2], [3]]);
  road.full = true;
  await road.deliver();
  return road;
}

describe("a full store", () => {
  test("gets only the oldest rows, once a minute, until it has room", async () => {
    expectLogged("store_full");
    const road = await stopped();
    const { counter } = road;
    expect(await counter.stub.backlog()).toEqual({
      storeFull: true,
      admitted: 3,
      unsettledSignals: 3,
      outboxBytes: expect.any(Number),
      outboxMaxBytes: OUTBOX_MAX_BYTES,
      oldestAtMs: START,
      unreadableSignals: 0,
      hasDestinations: false,
      alarms: { all: expect.any(Number), idle: expect.any(Number) },
    });
    // Rows that are settled already do not say that the store has room.
    await counter.stub.settle([1]);
    await counter.counted(2);
    await road.ring(STORE_PROBE_MS - 1);
    expect(road.rows).toEqual([]);
    expect(await road.alarmMs()).toBe(START + STORE_PROBE_MS);
    for (const minute of [1, 2, 3]) {
      await road.ring(minute * STORE_PROBE_MS);
      expect(road.rows).toEqual([[1]]);
      expect(await road.alarmMs()).toBe(START + (minute + 1) * STORE_PROBE_MS);
      await road.deliver();
      expect(await road.unsettled()).toBe(5);
    }
    road.full = false;
    await road.ring(4 * STORE_PROBE_MS);
    expect(road.rows).toEqual([[1]]);
    await road.deliver();
    expect(await counter.stub.backlog()).toMatchObject({ storeFull: false, unsettledSignals: 4 });
    await road.sent([[2], [3, 4]]);
    await counter.counted(1);
    await road.sent([[2], [3, 4], [5]]);
    await road.deliver();
    expect(await counter.stub.backlog()).toMatchObject({ storeFull: false, unsettledSignals: 0, oldestAtMs: null });
    expect(await road.totals()).toMatchObject({ processed: 6, duplicates: 0, deadLettered: 0 });
  });

  test("is logged, and keeps its signals out of the dead letters", async () => {
    const logged = expectLogged("store_full");
    const road = await newRoad();
    await road.counter.counted(2);
    await road.sent([[1]]);
    road.full = true;
    // Nothing else is due for a quarter of an hour.
    await road.ring(0);
    await road.deliver("signals-dlq");
    expect(await road.alarmMs()).toBe(START + STORE_PROBE_MS);
    expect(logged()).toContainEqual({ event: "store_full", workspace: road.counter.id });
    expect(await road.counter.stub.backlog()).toMatchObject({ storeFull: true, unsettledSignals: 2 });
    expect(await road.totals()).toMatchObject({ processed: 0, deadLettered: 0 });
  });

  test("stops a running drain", async () => {
    expectLogged("drain_failed");
    const road = await newRoad();
    const { counter } = road;
    const down = () => Promise.reject(new Error("queue is down"));
    road.outcomes.push(down);
    await commitLarge(counter, 10);
    await until(async () => expect(await road.alarmMs()).toBe(START + RETRY_MIN_SECONDS * 1_000));
    road.loseAll();
    const sent = Promise.withResolvers<void>();
    road.outcomes.push(() => sent.promise);
    const alarm = runDurableObjectAlarm(counter.stub);
    await road.sent([[1], [2], [3], [4]]);
    await counter.stub.storeFull();
    sent.resolve();
    await alarm;
    expect(road.rows).toEqual([[1], [2], [3], [4]]);
    // The watch alarm notices that calls have stopped.
    await road.ring(WATCH_MS);
    expect(await road.alarmMs()).toBe(START + STORE_PROBE_MS);
    await road.ring(STORE_PROBE_MS);
    expect(road.rows).toEqual([[1], [2], [3], [4], [1]]);
  });

  test("gets the rows of a message again if there is room while the message is being sent", async () => {
    expectLogged("store_full");
    const road = await stopped();
    const { counter } = road;
    const sent = Promise.withResolvers<void>();
    road.outcomes.push(() => sent.promise);
    vi.setSystemTime(START + STORE_PROBE_MS);
    const alarm = runDurableObjectAlarm(counter.stub);
    await road.sent([[1]]);
    road.full = false;
    await road.deliver();
    sent.resolve();
    await alarm;
    await road.sent([[2], [3]]);
    // The rows of a running drain are sent again too, not only those of a probe.
    const slow = Promise.withResolvers<void>();
    road.outcomes.push(() => slow.promise);
    await counter.counted(1);
    await road.sent([[2], [3], [4]]);
    await counter.stub.storeFull();
    await counter.settle(3);
    slow.resolve();
    await road.sent([[2], [3], [4], [2, 4]]);
    expect(await counter.stub.backlog()).toMatchObject({ storeFull: false, unsettledSignals: 2 });
  });

  test("gets the next rows if the oldest rows get no answer, then the oldest rows again", async () => {
    expectLogged("store_full");
    const road = await stopped();
    // The watch alarm notices that calls have stopped.
    await road.ring(WATCH_MS);
    for (const [minute, rows] of [[1], [2], [3], [], [1]].entries()) {
      await road.ring((minute + 1) * STORE_PROBE_MS);
      expect(road.rows).toEqual(rows.length === 0 ? [] : [rows]);
      expect(await road.alarmMs()).toBe(START + (minute + 2) * STORE_PROBE_MS);
      road.loseAll();
    }
    await road.ring(6 * STORE_PROBE_MS);
    expect(road.rows).toEqual([[2]]);
    await road.deliver();
    await road.ring(7 * STORE_PROBE_MS);
    expect(road.rows).toEqual([[1]]);
  });

  test("delays nothing when no signal waits", async () => {
    const road = await newRoad();
    await road.counter.stub.storeFull();
    await road.ring(STORE_PROBE_MS);
    expect(await road.counter.stub.backlog()).toMatchObject({ storeFull: false });
    await road.counter.counted(1);
    await road.sent([[1]]);
  });
});

describe("a full outbox", () => {
  /** Limits the outbox to its current size and `more` bytes. */
  async function limitOutbox({ counter }: TestWorkspace, more: number): Promise<void> {
    await runInDurableObject(counter, (instance, { storage }) => {
      const limit = { OUTBOX_MAX_BYTES: String(storage.sql.databaseSize + more) };
      Object.assign(instance, { env: { ...env, SIGNALS: { sendBatch: lose }, ...limit } });
    });
  }
  const signal = (text = "") => ({ email: "a@example.com", event: "Signed Up", text });
  const bulk = { path: "/api/signal-staging/bulk/{key}" };

  test("answers 503 with Retry-After, or 401 to a deactivated key, counts nothing, and shows the rejection", async () => {
    const workspace = await newWorkspace();
    await limitOutbox(workspace, 0);
    const invalid = { email: "no address" };
    const answers = [await workspace.send(signal()), await workspace.send([signal(), invalid, signal()], bulk)];
    for (const answer of answers) {
      expect(answer.status).toBe(UNAVAILABLE);
      expect(answer.headers.get("retry-after")).toBe(String(STORE_PROBE_MS / 1_000));
      expect(answer.headers.get("ratelimit")).toContain("billing-period");
      const { code, results } = await answer.json<Problem>();
      expect([code, results]).toEqual(["unavailable", undefined]);
    }
    expect(await workspace.books()).toMatchObject({ accepted: 0, in_flight: 0, balanced: true });
    expect(await workspace.counter.usage()).toMatchObject({ accepted: 0, held: 0, rejected: 0 });
    const { items } = await workspace.operator<{ items: unknown[] }>("GET", "/rejections");
    expect(items).toMatchObject([{ code: "unavailable", status: UNAVAILABLE, calls: 2, signals: 4 }]);
    await workspace.counter.deactivate(workspace.key.id);
    expect((await workspace.send(signal())).status).toBe(401);
  });

  test("accepts all of a body that fills the outbox", async () => {
    const workspace = await newWorkspace();
    await limitOutbox(workspace, 100_000);
    const text = "x".repeat(50_000);
    const signals = Array.from({ length: 60 }, () => signal(text));
    const answer = await workspace.send(signals, bulk);
    expect(answer.status).toBe(202);
    expect(await answer.json<BatchAnswer>()).toMatchObject({ status: "accepted", accepted: signals.length });
    expect((await workspace.send(signal())).status).toBe(UNAVAILABLE);
    expect(await workspace.counter.books()).toEqual({ admitted: signals.length, unsettled: signals.length });
  });
});
