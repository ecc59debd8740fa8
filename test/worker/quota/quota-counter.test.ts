/** Design §6, §7: the Quota Counter as the edge calls it, through failures, late alarms and restarts. */
import { abortAllDurableObjects, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { MESSAGE_MAX_BYTES } from "../../../src/limits.ts";
import { LARGE_CALL_BYTES } from "../../../src/quota/incoming-calls.ts";
import { stopClock } from "../../support/clock.ts";
import { TestCounter, admitCall, lose, newCounter } from "../../support/counter.ts";
import { expectLogged } from "../../support/logged.ts";
import { until } from "../../support/until.ts";
import { textOf } from "../../support/wire.ts";

// The middle of a period, so that none ends during a test.
beforeEach(() => stopClock(month(1, 15)));

/** In the future: the alarm follows the real clock, and rings only when a test rings it. */
const month = (number: number, day = 1) => Date.UTC(2031, number - 1, day);

test("reports a configuration that could not be stored as missing", async () => {
  const counter = new TestCounter(`ws_${crypto.randomUUID()}`);
  const repair = await counter.breakStatement("INSERT OR REPLACE INTO ledger");
  await runInDurableObject(counter.stub, (instance) => {
    const config = { signalLimit: 1, paid: true, overages: false, anchorMs: month(1), configVersion: 1 };
    expect(() => instance.configure([config])).toThrow("disk full");
  });
  await repair();
  expect(await counter.admit()).toEqual({ outcome: "unconfigured" });
});

describe("design §7: shared commits", () => {
  test("write one row up to a message's size, and as few as possible above", async () => {
    const counter = await newCounter();
    await counter.sendTo(lose);
    const payload = JSON.stringify({ text: "x".repeat(10_000) });
    await runInDurableObject(counter.stub, async (instance) => {
      const first = instance.admit(admitCall(1));
      const together = Array.from({ length: 12 }, () => instance.admit(admitCall(1, { payload })));
      await Promise.all([first, ...together]);
    });
    const rows = await counter.rows();
    expect(rows.map(({ body }) => textOf(body).split("\u001fsig_").length - 1)).toEqual([1, 5, 5, 2]);
    for (const { body, bytes } of rows) {
      expect(body.byteLength).toBe(bytes);
      expect(bytes).toBeLessThanOrEqual(MESSAGE_MAX_BYTES);
    }
  });

  test.each([
    { statement: "INSERT INTO outbox", settled: [] },
    { statement: "UPDATE outbox SET row", settled: [1] },
    { statement: "INSERT OR REPLACE INTO ledger", settled: [1] },
  ])(
    "a commit that fails ($statement) fails all its callers, and nothing is counted",
    async ({ statement, settled: settledRows }) => {
      expectLogged("commit_failed");
      stopClock(month(1, 20));
      const counter = await newCounter({ signalLimit: 10 });
      await counter.sendTo(lose);
      await counter.counted(3);
      await counter.settle(...settledRows);
      // On another day the ledger is saved with the commit, after its rows.
      stopClock(month(1, 21));
      const repair = await counter.breakStatement(statement);
      const results = await Promise.allSettled(Array.from({ length: 16 }, () => counter.admit()));
      expect(results.map((result) => result.status)).toEqual(Array.from({ length: 16 }, () => "rejected"));
      await repair();
      expect(await counter.usage()).toMatchObject({ accepted: 3, held: 0, rejected: 0 });
      expect(await counter.counted(8)).toEqual([7, 1, 0]);
      // A settled row is reused nevertheless.
      const kept = await runInDurableObject(counter.stub, (_, { storage }) =>
        storage.sql.exec("SELECT count(*) AS rows FROM outbox").one(),
      );
      expect(kept).toEqual({ rows: 2 - settledRows.length });
      expect((await counter.unsettled()).map((signal) => signal.ordinal)).toEqual(
        Array.from({ length: 11 }, (_, index) => index + 1).slice(3 * settledRows.length),
      );
    },
  );
});

describe("design §7: a large call", () => {
  const large = (keyId: string) => {
    const payload = JSON.stringify({ text: "x".repeat(10_000) });
    return admitCall(1 + LARGE_CALL_BYTES / 10_000, { keyId, payload });
  };

  test("is committed alone, and small calls that wait beside it share a commit", async () => {
    const counter = await newCounter();
    await counter.sendTo(lose);
    const counted = await runInDurableObject(counter.stub, (instance) =>
      Promise.all([
        instance.admit(admitCall(1)),
        instance.admit(admitCall(1)),
        instance.admit(large("key_1")),
        instance.admit(admitCall(1)),
        instance.admit(large("key_2")),
      ]),
    );
    expect(counted.map(({ outcome }) => outcome)).toEqual(Array(5).fill("counted"));
    const commits = Map.groupBy(await counter.admittedInRows(), ({ admitted }) => admitted);
    expect([...commits.values()].map((rows) => rows.reduce((sum, { count }) => sum + count, 0))).toEqual([
      1, 101, 101, 2,
    ]);
  });

  test("that fails fails no small call", async () => {
    expectLogged("commit_failed");
    const counter = await newCounter();
    await counter.sendTo(lose);
    const settled = await runInDurableObject(counter.stub, async (instance, { storage: { sql } }) => {
      const exec = sql.exec.bind(sql);
      sql.exec = ((query: string, ...bindings: SqlStorageValue[]) => {
        // Only a row of the large call is so full.
        if (query.startsWith("INSERT INTO outbox") && Number(bindings[4]) > 50_000) throw new Error("disk full");
        return exec(query, ...bindings);
      }) as typeof sql.exec;
      const calls = [admitCall(1), admitCall(1), large("key_1"), admitCall(1)];
      const results = await Promise.allSettled(calls.map(async (call) => instance.admit(call)));
      Reflect.deleteProperty(sql, "exec");
      return results.map(({ status }) => status);
    });
    expect(settled).toEqual(["fulfilled", "fulfilled", "rejected", "fulfilled"]);
    expect(await counter.usage()).toMatchObject({ accepted: 3 });
    expect(await counter.unsettled()).toHaveLength(3);
  });
});

describe("§3.1, invariant 4: deactivated keys", () => {
  test("reject a call that waits for its commit during the revocation", async () => {
    const counter = await newCounter();
    await counter.sendTo(lose);
    const outcomes = await runInDurableObject(counter.stub, async (instance) => {
      const first = instance.admit(admitCall(1, { keyId: "key_old" }));
      const waiting = [instance.admit(admitCall(1, { keyId: "key_old" })), instance.admit(admitCall(1))];
      instance.deactivate("key_old");
      return Promise.all([first, ...waiting]);
    });
    expect(outcomes.map(({ outcome }) => outcome)).toEqual(["counted", "key_deactivated", "counted"]);
    expect(await counter.usage()).toMatchObject({ accepted: 2 });
  });

  test("stay deactivated after eviction and crash", async () => {
    const counter = await newCounter();
    await counter.stub.deactivate("key_old");
    await evictDurableObject(counter.stub);
    expect(await counter.admit(1, { keyId: "key_old" })).toEqual({ outcome: "key_deactivated" });
    await abortAllDurableObjects();
    expect(await counter.admit(1, { keyId: "key_old" })).toEqual({ outcome: "key_deactivated" });
    const rejected = { keyId: "key_old", code: "body_empty", detail: "Empty.", requestId: "r", signals: 1 } as const;
    expect(await counter.stub.rejected(rejected)).toEqual({ outcome: "key_deactivated" });
    expect(await counter.counted()).toEqual([1, 0, 0]);
    const many = Array.from({ length: 250 }, (_, n) => `key_${n}`);
    const { added, keys } = await counter.stub.deactivateAll(["key_old", ...many]);
    expect([added, keys.length]).toEqual([250, 251]);
    expect(keys).toContainEqual({ keyId: "key_old", atMs: expect.any(Number) });
    for (const keyId of ["key_0", "key_249"])
      expect(await counter.admit(1, { keyId })).toEqual({ outcome: "key_deactivated" });
  });
});

describe("§8.6: the overage count", () => {
  test("counts each signal beyond the limit once, and not the held ones before when they are released", async () => {
    stopClock(month(1, 20));
    const counter = await newCounter({ signalLimit: 10 });
    await counter.sendTo(lose);
    expect(await counter.counted(15)).toEqual([10, 5, 0]);
    await counter.configure({ signalLimit: 20 });
    expect(await counter.counted(5)).toEqual([5, 0, 0]);
    await counter.configure({ signalLimit: 20, overages: true });
    expect(await counter.counted(5)).toEqual([5, 0, 0]);
    expect(await counter.usage()).toMatchObject({ accepted: 20, held: 5, overage: 5 });
    const signals = counter.heldSignals(5, month(1));
    const terms = { periodEndMs: month(2), overages: true, most: null };
    const job = { job: "aud_1", through: 0, sent: 0 };
    const first = { ...job, batch: 1, signals: signals.slice(0, 2) };
    expect(await counter.stub.release(first, terms)).toMatchObject({ sent: 2, next: "more" });
    expect(await counter.stub.release({ ...job, batch: 2, signals }, terms)).toMatchObject({ sent: 5, next: "end" });
    expect(await counter.usage()).toMatchObject({ accepted: 25, held: 0, overage: 5 });
    // A job ends with its period and with the overages that it began with.
    stopClock(month(2, 1));
    await counter.configure({ signalLimit: 1 });
    expect(await counter.counted(2)).toEqual([1, 1, 0]);
    await counter.configure({ signalLimit: 2 });
    const late = { ...job, batch: 3, signals: counter.heldSignals(1, month(2)) };
    const ended = { sent: 5, next: "end" };
    expect(await counter.stub.release(late, { ...terms, periodEndMs: month(3) })).toMatchObject(ended);
    await counter.configure({ signalLimit: 2, overages: true });
    expect(await counter.stub.release(late, terms)).toMatchObject(ended);
    expect(await counter.usage()).toMatchObject({ accepted: 1, held: 1 });
  });

  test("never counts a release that was confirmed as free, and releases no more than was confirmed", async () => {
    stopClock(month(1, 20));
    const counter = await newCounter({ signalLimit: 4 });
    await counter.sendTo(lose);
    expect(await counter.counted(8)).toEqual([4, 4, 0]);
    await counter.configure({ signalLimit: 7 });
    const batch = { job: "aud_1", batch: 1, through: 0, sent: 0, signals: counter.heldSignals(4, month(1)) };
    const terms = { periodEndMs: month(2), overages: false, most: 2 };
    expect(await counter.stub.release(batch, terms)).toMatchObject({ sent: 2, next: "end" });
    // The job waited, for example for room in the outbox.
    await counter.configure({ signalLimit: 7, overages: true });
    const next = { ...batch, job: "aud_2" };
    expect(await counter.stub.release(next, terms)).toMatchObject({ sent: 0, next: "end" });
    expect(await counter.usage()).toMatchObject({ accepted: 6, held: 2, overage: 0 });
  });

  test("releases no more than was confirmed, also if many jobs have run since the last batch", async () => {
    stopClock(month(1, 20));
    const counter = await newCounter({ signalLimit: 4 });
    await counter.sendTo(lose);
    expect(await counter.counted(8)).toEqual([4, 4, 0]);
    await counter.configure({ signalLimit: 8 });
    const signals = counter.heldSignals(4, month(1));
    const terms = { periodEndMs: month(2), overages: false, most: 3 };
    const first = { job: "aud_01", batch: 1, through: 0, sent: 0, signals: signals.slice(0, 2) };
    expect(await counter.stub.release(first, terms)).toMatchObject({ sent: 2, next: "more" });
    for (let job = 10; job < 30; job++) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await counter.stub.replay({ job: `aud_${job}`, batch: 1, through: 0, sent: 0, signals: signals.slice(0, 1) });
    }
    const next = { ...first, batch: 2, sent: 2, signals: signals.slice(2) };
    expect(await counter.stub.release(next, terms)).toMatchObject({ sent: 3, next: "end" });
    expect(await counter.usage()).toMatchObject({ accepted: 7, held: 1 });
  });

  test("counts each released signal of its period beyond the limit once, despite repeated releases", async () => {
    stopClock(month(1, 20));
    const counter = await newCounter({ signalLimit: 4 });
    await counter.sendTo(lose);
    expect(await counter.counted(8)).toEqual([4, 4, 0]);
    await counter.configure({ signalLimit: 6, overages: true });
    const signals = counter.heldSignals(4, month(1));
    const terms = { periodEndMs: month(2), overages: true, most: null };
    const ofEarlierPeriod = { job: "aud_0", batch: 1, through: 0, sent: 0, signals: counter.heldSignals(1, month(0)) };
    expect(await counter.stub.release(ofEarlierPeriod, terms)).toMatchObject({ sent: 0 });
    const release = (job: string) => counter.stub.release({ job, batch: 1, through: 0, sent: 0, signals }, terms);
    for (const [job, sent] of [
      ["aud_1", 4],
      ["aud_2", 0],
      ["aud_1", 4],
    ] as const) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect(await release(job)).toMatchObject({ sent, next: "end" });
    }
    expect(await counter.usage()).toMatchObject({ accepted: 8, held: 0, overage: 2 });
    expect(await counter.counted(1)).toEqual([1, 0, 0]);
    expect(await counter.usage()).toMatchObject({ accepted: 9, overage: 3 });
    // A later period forgets the released signals of earlier ones.
    stopClock(month(2, 1));
    await counter.configure({ signalLimit: 1 });
    expect(await counter.counted(2)).toEqual([1, 1, 0]);
    await counter.configure({ signalLimit: 2 });
    const next = { job: "aud_3", batch: 1, through: 0, sent: 0, signals: counter.heldSignals(1, month(2)) };
    expect(await counter.stub.release(next, { periodEndMs: month(3), overages: false, most: null })).toMatchObject({
      sent: 1,
    });
    const remembered = await runInDurableObject(counter.stub, (_, { storage }) =>
      storage.sql.exec("SELECT count(*) AS n FROM released").one(),
    );
    expect(remembered).toEqual({ n: 1 });
  });
});

describe("§8.5: billing periods", () => {
  test("end with the alarm, which is set again for the next end", async () => {
    stopClock(month(1, 20));
    const counter = await newCounter({ signalLimit: 2 });
    await counter.sendTo(lose);
    await counter.counted(5);
    await counter.settle(1);
    expect(await runDurableObjectAlarm(counter.stub)).toBe(true);
    expect(await counter.alarmMs()).toBe(month(2));
    stopClock(month(2));
    expect(await runDurableObjectAlarm(counter.stub)).toBe(true);
    const closed = { periodStartMs: month(1), periodEndMs: month(2), accepted: 2, held: 2, rejected: 1, streak: 1 };
    const periods = await runInDurableObject(counter.stub, (_, { storage }) =>
      storage.sql.exec("SELECT count(*) AS closed FROM closed_periods").one(),
    );
    expect(periods).toEqual({ closed: 1 });
    expect(await counter.alarmMs()).toBe(month(3));
    expect(await counter.usage()).toMatchObject({ accepted: 0, held: 0, rejected: 0, history: [closed] });
  });

  test("end with the first call if the alarm is late; later alarms change nothing, and each has its books", async () => {
    stopClock(month(1, 20));
    const counter = await newCounter({ signalLimit: 2 });
    await counter.sendTo(lose);
    await counter.counted(5);
    stopClock(month(2, 3));
    expect(await counter.counted(1)).toEqual([1, 0, 0]);
    const before = await counter.usage();
    expect(before).toMatchObject({ accepted: 1, history: [{ accepted: 2, held: 2, streak: 1 }] });
    expect(await counter.stub.books(month(1))).toEqual({ admitted: 4, unsettled: 4 });
    expect(await counter.stub.books(month(2))).toEqual({ admitted: 1, unsettled: 1 });
    expect(await counter.stub.books()).toEqual({ admitted: 5, unsettled: 5 });
    expect((await counter.unsettled()).at(-1)).toMatchObject({ ordinal: 1, periodStartMs: month(2) });
    await runInDurableObject(counter.stub, (instance) => Promise.all([instance.alarm(), instance.alarm()]));
    await runInDurableObject(counter.stub, (instance) => instance.alarm());
    expect(await counter.usage()).toEqual(before);
  });

  test("begin on the days of the first anchor, and each signal keeps the limit of its time", async () => {
    stopClock(month(3, 15));
    const counter = await newCounter({ signalLimit: 1 });
    await counter.sendTo(lose);
    await counter.counted(2);
    await counter.configure({ signalLimit: 3, anchorMs: month(1, 9) });
    await counter.counted(1);
    expect((await counter.unsettled()).map((signal) => signal.signalLimit)).toEqual([1, 1, 3]);
    stopClock(month(4, 15));
    expect(await counter.usage()).toMatchObject({ periodStartMs: month(4), periodEndMs: month(5) });
  });
});

describe("§1.2, invariant 2: nothing is lost and nothing doubled", () => {
  test.each([
    { title: "evicted", stop: (counter: TestCounter) => evictDurableObject(counter.stub) },
    { title: "killed", stop: () => abortAllDurableObjects() },
  ])("when the object is $title between the answer and the queue", async ({ stop }) => {
    const counter = await newCounter({ signalLimit: 5 });
    expect(await counter.counted(8)).toEqual([5, 3, 0]);
    await stop(counter);
    expect(await counter.storedTotals()).toMatchObject({ processed: 5, held: 3 });
    expect(await counter.usage()).toMatchObject({ accepted: 5, held: 3 });
    expect(await counter.counted(8)).toEqual([0, 2, 6]);
  });

  test("when messages are lost and the object is killed before settling", async () => {
    const counter = await newCounter();
    const lost: unknown[] = [];
    await counter.sendTo(async (messages) => lost.push(...messages));
    await counter.counted(8);
    await until(() => expect(lost).not.toEqual([]));
    expect((await counter.stub.books()).unsettled).toBe(8);
    await abortAllDurableObjects();
    expect(await counter.storedTotals()).toMatchObject({ processed: 8 });
    expect(await counter.stub.books()).toEqual({ admitted: 8, unsettled: 0 });
  });

  test("when the object is killed without further calls: its alarm starts it", async () => {
    const counter = await newCounter();
    await counter.sendTo(lose);
    await counter.counted(3);
    await abortAllDurableObjects();
    expect(await runDurableObjectAlarm(counter.stub)).toBe(true);
    await until(async () =>
      expect(await env.SIGNAL_STORE.getByName(counter.id).totals()).toMatchObject({ processed: 3 }),
    );
  });

  test("after a restart: calls of the restarted object do not postpone its alarm", async () => {
    const counter = await newCounter();
    await counter.sendTo(lose);
    await counter.counted(1);
    const before = await counter.alarmMs();
    await abortAllDurableObjects();
    await counter.configure({});
    expect(await counter.alarmMs()).toBe(before);
  });
});
