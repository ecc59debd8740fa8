/** Design §7: from the outbox to the queue, if the queue fails, misreports, loses messages, or works. */
import { abortAllDurableObjects, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { CALL_TIMEOUT_MS, RETRY_MAX_SECONDS, RETRY_MIN_SECONDS, SIGNAL_MAX_BYTES } from "../../../src/limits.ts";
import { RESEND_AFTER_MS } from "../../../src/quota/drain.ts";
import { findInFlight, SEND_BATCH_MAX_BYTES, SEND_BATCH_MAX_MESSAGES } from "../../../src/quota/outbox.ts";
import { WATCH_MS } from "../../../src/platform/alarm.ts";
import { readMessage } from "../../../src/wire/message.ts";
import { newId } from "../../../src/platform/ids.ts";
import { stopClock } from "../../support/clock.ts";
import { admitCall, lose, newCounter, type Queued, type SendBatch, type TestCounter } from "../../support/counter.ts";
import { expectLogged } from "../../support/logged.ts";
import { until } from "../../support/until.ts";

// Far ahead, so that the platform's real clock rings no alarm; the clock stands still.
beforeEach(() => stopClock(Date.UTC(2031, 2, 5, 12)));

const QUEUE_MESSAGE_BYTES = 128_000;
const QUEUE_BATCH_BYTES = 256_000;

const down: SendBatch = () => Promise.reject(new Error("queue is down"));

class Recorder {
  readonly #counter: TestCounter;
  readonly batches: Queued[][] = [];
  /** Results of the next `sendBatch` calls; success after the last. */
  readonly outcomes: ((messages: Queued[]) => Promise<unknown>)[] = [];

  constructor(counter: TestCounter) {
    this.#counter = counter;
  }

  readonly sendBatch: SendBatch = (messages) => {
    this.batches.push(messages);
    return this.outcomes.shift()?.(messages) ?? Promise.resolve();
  };

  get rows(): number[][] {
    return this.batches.map((messages) =>
      messages.flatMap(({ body }) => readMessage(body).rows.map(({ row }) => this.#counter.positionOf(row.row))),
    );
  }
}

/** Seconds until the alarm, by the object's clock. */
async function secondsToAlarm(counter: TestCounter): Promise<number> {
  return Math.round((((await counter.alarmMs()) ?? Number.NaN) - Date.now()) / 1_000);
}

describe("a failing queue", () => {
  test("is retried only by the alarm, first after 5 s and then with growing delays, without loss", async () => {
    expectLogged("drain_failed");
    const counter = await newCounter();
    const queue = new Recorder(counter);
    await counter.sendTo(queue.sendBatch);
    for (let failures = 0; failures < 9; failures++) queue.outcomes.push(down);
    await counter.counted(2);
    await until(() => expect(queue.batches).toHaveLength(1));
    await counter.counted(3);
    const delays = [await secondsToAlarm(counter)];
    for (let attempt = 2; attempt <= 9; attempt++) {
      expect(queue.batches).toHaveLength(attempt - 1);
      expect(await runDurableObjectAlarm(counter.stub)).toBe(true);
      expect(queue.batches).toHaveLength(attempt);
      delays.push(await secondsToAlarm(counter));
    }
    // After several calls the alarm checks for more of them earlier than the second delay of 10 s.
    expect(delays).toEqual([5, WATCH_MS / 1_000, 20, 40, 80, 160, 300, 300, 300]);
    expect([delays[0], delays.at(-1)]).toEqual([RETRY_MIN_SECONDS, RETRY_MAX_SECONDS]);
    await runDurableObjectAlarm(counter.stub);
    expect(queue.rows.at(-1)).toEqual([1, 2]);
    await counter.counted(1);
    await until(() => expect(queue.rows.at(-1)).toEqual([3]));
  });

  test("is retried in time although calls keep the alarm busy", async () => {
    expectLogged("drain_failed");
    const counter = await newCounter();
    const queue = new Recorder(counter);
    await counter.sendTo(queue.sendBatch);
    const start = Date.now();
    for (let call = 0; call < 2; call++) await counter.counted(1);
    await until(() => expect(queue.rows.flat()).toEqual([1, 2]));
    vi.setSystemTime(start + WATCH_MS);
    await runDurableObjectAlarm(counter.stub);
    vi.setSystemTime(start + 2 * WATCH_MS - 1_000);
    queue.outcomes.push(down);
    for (let call = 0; call < 2; call++) await counter.counted(1);
    await until(() => expect(queue.outcomes).toEqual([]));
    vi.setSystemTime(start + 2 * WATCH_MS);
    await runDurableObjectAlarm(counter.stub);
    expect(await secondsToAlarm(counter)).toBe(RETRY_MIN_SECONDS - 1);
  });

  test("after it took the messages causes duplicates, which count once", async () => {
    expectLogged("drain_failed");
    const counter = await newCounter();
    await counter.sendTo(async (messages) => {
      await env.SIGNALS.sendBatch(messages);
      throw new Error("timed out");
    });
    await counter.counted(5);
    expect(await counter.storedTotals()).toMatchObject({ processed: 5 });
    const late = await counter.counted(2);
    expect(late).toEqual([2, 0, 0]);
    await runDurableObjectAlarm(counter.stub);
    expect(await counter.storedTotals()).toEqual({ processed: 7, duplicates: 0, held: 0, purged: 0, deadLettered: 0 });
  });

  test.each(["SELECT row, at, body FROM outbox", "SELECT row, at AS atMs FROM outbox"])(
    "a drain that cannot read (%s) ends no alarm: it does not throw, and comes again",
    async (statement) => {
      expectLogged("alarm_failed", "drain_failed", "health_report_failed");
      const counter = await newCounter();
      // The error of a queue call is read from the table.
      await counter.sendTo(down);
      await counter.counted(1);
      await until(async () => expect(await secondsToAlarm(counter)).toBe(RETRY_MIN_SECONDS));
      // From now on the queue accepts messages.
      await counter.sendTo(lose);
      const repair = await counter.breakStatement(statement);
      await runInDurableObject(counter.stub, (instance) => instance.alarm());
      expect(await secondsToAlarm(counter)).toBe(2 * RETRY_MIN_SECONDS);
      await repair();
    },
  );
});

test("a queue that loses messages does not delay new signals while old rows are resent", async () => {
  const counter = await newCounter();
  const queue = new Recorder(counter);
  await counter.sendTo(queue.sendBatch);
  const start = Date.now();
  await counter.counted(1);
  await until(() => expect(queue.rows).toEqual([[1]]));
  vi.setSystemTime(start + RESEND_AFTER_MS);
  const sent = Promise.withResolvers<void>();
  queue.outcomes.push(() => sent.promise);
  const alarm = runDurableObjectAlarm(counter.stub);
  await until(() => expect(queue.rows).toEqual([[1], [1]]));
  await counter.counted(1);
  sent.resolve();
  await alarm;
  await until(() => expect(queue.rows).toEqual([[1], [1], [2]]));
});

test("settles repeated, late and unknown row numbers, and never a new row: numbers are used once, even after a crash or a loss", async () => {
  const counter = await newCounter();
  await counter.sendTo(lose);
  for (let call = 0; call < 3; call++) await counter.counted(2);
  await counter.settle(2, 99);
  await counter.settle(2, 2);
  expect(await counter.stub.books()).toEqual({ admitted: 6, unsettled: 4 });
  await counter.settle(1, 3);
  await abortAllDurableObjects();
  await counter.sendTo(lose);
  await counter.counted(1);
  await counter.settle(1, 2, 3);
  expect(await counter.positions()).toEqual([4]);
  // A counter that has lost everything is configured anew.
  await runInDurableObject(counter.stub, (_, { storage }) => {
    for (const table of ["outbox", "ledger"]) storage.sql.exec(`DELETE FROM ${table}`);
  });
  await abortAllDurableObjects();
  vi.setSystemTime(Date.now() + 1_000);
  await counter.configure({});
  await counter.sendTo(lose);
  await counter.counted(1);
  expect((await counter.positions())[0]).toBeGreaterThan(4);
});

describe("packing", () => {
  test("sends a large signal alone, and exceeds no limit of messages or batches", async () => {
    expectLogged("drain_failed");
    const counter = await newCounter();
    const queue = new Recorder(counter);
    await counter.sendTo(down);
    const large = JSON.stringify({ text: "ü".repeat(SIGNAL_MAX_BYTES / 2 - 10) });
    for (let call = 0; call < 12; call++) {
      await counter.admit(1, admitCall(1, { payload: large }));
      await counter.admit(1);
    }
    await until(async () => expect(await secondsToAlarm(counter)).toBe(RETRY_MIN_SECONDS));
    await counter.sendTo(queue.sendBatch);
    await runDurableObjectAlarm(counter.stub);

    const sizeOf = (message: Queued) => message.body.length;
    expect(queue.rows.flat()).toEqual(Array.from({ length: 24 }, (_, index) => index + 1));
    for (const messages of queue.batches) {
      const sizes = messages.map(sizeOf);
      expect(Math.max(...sizes)).toBeLessThan(QUEUE_MESSAGE_BYTES);
      expect(sizes.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(QUEUE_BATCH_BYTES);
      expect(messages.length).toBeLessThanOrEqual(SEND_BATCH_MAX_MESSAGES);
    }
    const alone = queue.batches.flat().filter((message) => sizeOf(message) > SIGNAL_MAX_BYTES);
    expect(alone.map(({ body }) => readMessage(body).rows.flatMap(({ signals }) => signals).length)).toEqual(
      alone.map(() => 1),
    );
    expect(alone).toHaveLength(12);
    expect(SEND_BATCH_MAX_BYTES).toBeLessThan(QUEUE_BATCH_BYTES);
  });

  test("keeps signals of a bulk call whole and in order over several messages", async () => {
    const counter = await newCounter({ signalLimit: 2_000 });
    const ids = Array.from({ length: 2_000 }, (_, index) => `sig_${counter.id}_${index}`);
    const call = admitCall(2_000, { ids, payload: JSON.stringify({ event: "x", text: "y".repeat(200) }) });
    expect(await counter.counted(0, call)).toEqual([2_000, 0, 0]);
    expect(await counter.storedTotals()).toMatchObject({ processed: 2_000 });
    const last = await env.SIGNAL_STORE.getByName(counter.id).signal(ids[1_999] ?? "");
    expect(last).toMatchObject({ ordinal: 2_000, status: "processed" });
  });
});

/** Admits signals one by one at this interval. @returns their ids. */
async function admitEach(counter: TestCounter, signals: number, everyMs: number): Promise<string[]> {
  await counter.sendTo(lose);
  const start = Date.now();
  const ids: string[] = [];
  for (let n = 0; n < signals; n++) {
    vi.setSystemTime(start + n * everyMs);
    ids.push(newId("sig"));
    await counter.admit(1, { ids: ids.slice(-1) });
  }
  return ids;
}

/** Counts the rows that SQLite reads, and the bodies that reach JavaScript. */
function countReads(sql: SqlStorage) {
  const cursors: SqlStorageCursor<Record<string, SqlStorageValue>>[] = [];
  let bodies = 0;
  const exec = (query: string, ...bindings: unknown[]) => {
    const cursor = sql.exec(query, ...bindings);
    cursors.push(cursor);
    function* rows() {
      for (const row of cursor) {
        if ("body" in row) bodies++;
        yield row;
      }
    }
    return { [Symbol.iterator]: rows, toArray: () => [...rows()], one: () => cursor.one() };
  };
  return {
    sql: { exec } as unknown as SqlStorage,
    bodies: () => bodies,
    rows: () => cursors.reduce((sum, { rowsRead }) => sum + rowsRead, 0),
  };
}

describe("a signal in flight", () => {
  test("is found by its id, even if another payload quotes the id", async () => {
    const counter = await newCounter({ signalLimit: 1 });
    await counter.sendTo(lose);
    const [id, otherId] = [newId("sig"), newId("sig")];
    await counter.admit(1, admitCall(1, { payload: `{"event":"x","about":"${id}"}` }));
    await counter.admit(1, { ids: [id] });
    expect(await counter.stub.inFlight(id)).toMatchObject({ id, verdict: "held", ordinal: 2 });
    expect(await counter.stub.inFlight(otherId)).toBeNull();
    expect(await counter.stub.inFlight("sig_x")).toBeNull();
    expect(await (await newCounter()).stub.inFlight(id)).toBeNull();
  });

  test("is found among many signals of other times, with settled ones between them", async () => {
    const counter = await newCounter();
    // Three in each minute, so that only few rows are within the difference of the clocks.
    const ids = await admitEach(counter, 24, 20_000);
    await counter.settle(1, 2, 3, 9, 10, 24);
    const found = await Promise.all(ids.map((id) => counter.stub.inFlight(id)));
    const gone = [0, 1, 2, 8, 9, 23];
    expect(found.map((signal) => signal?.id ?? null)).toEqual(ids.map((id, n) => (gone.includes(n) ? null : id)));
  });

  test("is found with a commit ten seconds after its id and clocks that differ by seconds", async () => {
    const counter = await newCounter();
    await counter.sendTo(lose);
    const start = Date.now();
    const ids = [-5_000, 0, CALL_TIMEOUT_MS, CALL_TIMEOUT_MS + 5_000].map((late) => newId("sig", start - late));
    await counter.admit(ids.length, { ids });
    const found = await Promise.all(ids.map((id) => counter.stub.inFlight(id)));
    expect(found.map((admission) => admission?.id)).toEqual(ids);
  });

  test("is searched by SQLite, which returns one row and reads only the rows of some seconds", async () => {
    const counter = await newCounter();
    const ids = await admitEach(counter, 120, 1_000);
    await runInDurableObject(counter.stub, (_, { storage: { sql } }) => {
      const reads = countReads(sql);
      expect(findInFlight(reads.sql, ids[60] ?? "")?.id).toBe(ids[60]);
      expect(findInFlight(reads.sql, newId("sig", Date.now() - 60_000))).toBeNull();
      expect(reads.bodies()).toBe(1);
      // For each: the rows of 20 seconds, and a dozen at each end.
      expect(reads.rows()).toBeLessThan(2 * 50);
      // Row numbers may have gaps.
      const [first] = counter.rowsAt(1);
      sql.exec("UPDATE outbox SET row = at * 1024 + (row - ?) * 7", first);
      expect(ids.map((id) => findInFlight(sql, id)?.id)).toEqual(ids);
    });
  });

  test("is counted in total and by period through failed commits, failed and repeated settling, and a restart", async () => {
    expectLogged("commit_failed");
    const counter = await newCounter();
    await counter.sendTo(lose);
    const { periodStartMs } = await counter.usage();
    const unsettled = async () => [
      (await counter.stub.books()).unsettled,
      (await counter.stub.books(periodStartMs)).unsettled,
      (await counter.stub.books(1)).unsettled,
    ];
    expect(await unsettled()).toEqual([0, 0, 0]);
    for (const signals of [3, 2, 1]) await counter.counted(signals);
    expect(await unsettled()).toEqual([6, 6, 0]);
    const repairCommits = await counter.breakStatement("INSERT INTO outbox");
    await expect(counter.admit(4)).rejects.toThrow("disk full");
    await repairCommits();
    expect(await unsettled()).toEqual([6, 6, 0]);
    const repairSettling = await counter.breakStatement("UPDATE outbox SET bytes = 0");
    await expect(runInDurableObject(counter.stub, (instance) => instance.settle(counter.rowsAt(1, 3)))).rejects.toThrow(
      "disk full",
    );
    await repairSettling();
    expect(await counter.rows()).toHaveLength(2);
    expect(await unsettled()).toEqual([3, 3, 0]);
    for (let times = 0; times < 2; times++) await counter.settle(1, 3);
    expect(await unsettled()).toEqual([2, 2, 0]);
    await abortAllDurableObjects();
    expect(await unsettled()).toEqual([2, 2, 0]);
  });
});
