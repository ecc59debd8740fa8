/** Design §7: when committed rows are sent to the queue, and from where they are read. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { DRAIN_PACE_MS, MESSAGE_MAX_BYTES, RETRY_MIN_SECONDS } from "../../../src/limits.ts";
import { STORE_PROBE_MS, Drain, SEND_TIMEOUT_MS, RESEND_AFTER_MS } from "../../../src/quota/drain.ts";
import { UNSENT_MAX_BYTES } from "../../../src/quota/drain.ts";
import type { SendRange } from "../../../src/quota/outbox.ts";
import { MessagePacker } from "../../../src/quota/outbox.ts";
import type { PackedRow } from "../../../src/quota/outbox.ts";
import { writeRow } from "../../../src/wire/message.ts";

const START = 1_000_000;

beforeEach(() => {
  vi.useFakeTimers({ now: START });
  vi.spyOn(console, "log").mockImplementation(() => {});
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** An outbox with its queue. */
class Road {
  readonly rows: PackedRow[] = [];
  /** Time of each `sendBatch`, and the text of its messages. */
  readonly sent: [number, string[]][] = [];
  /** The lowest unsettled row in each message. */
  readonly lows: number[] = [];
  reads = 0;
  alarmAtMs = Number.POSITIVE_INFINITY;
  /** Outcomes of the next calls; success if empty. */
  readonly outcomes: (() => Promise<unknown>)[] = [];
  readonly drain: Drain;

  constructor(unsettled: PackedRow[] = []) {
    this.rows.push(...unsettled);
    const outbox = {
      messages: (range: SendRange) => this.#read(range),
      oldest: () => (this.rows[0] === undefined ? null : { row: this.rows[0].row, atMs: this.rows[0].at }),
    };
    const alarm = { workBy: (atMs: number) => void (this.alarmAtMs = Math.min(this.alarmAtMs, atMs)) };
    this.drain = new Drain(outbox, alarm, {
      workspaceId: "ws",
      paceMs: DRAIN_PACE_MS,
      send: (messages) => {
        this.lows.push(...messages.map(({ body }) => Number(/"low":(\d+)/.exec(body)?.[1])));
        this.sent.push([Date.now() - START, messages.map(({ body }) => body)]);
        return this.outcomes.shift()?.() ?? Promise.resolve();
      },
    });
  }

  #read({ afterRow, admittedUntil, maxMessages }: SendRange) {
    this.reads++;
    const packer = new MessagePacker();
    for (const row of this.rows) if (row.row > afterRow && row.at <= admittedUntil) packer.add(row);
    return packer.take("all", maxMessages, 250_000);
  }

  settle(...rows: number[]): void {
    for (const row of rows)
      this.rows.splice(
        this.rows.findIndex((stored) => stored.row === row),
        1,
      );
  }

  /** Texts sent since the last call, by message. */
  sentSince(calls: number): string[] {
    return this.sent.slice(calls).flatMap(([, messages]) => messages.map((message) => message.slice("ws".length)));
  }

  #lastRow = 0;

  commit(bytes = 100, writeText?: (row: number) => string): void {
    const row = rowOf(Math.max(this.#lastRow, this.rows.at(-1)?.row ?? 0) + 1, bytes);
    if (writeText !== undefined) row.text = writeText(row.row);
    this.#lastRow = row.row;
    this.rows.push(row);
    this.drain.committed([row]);
  }

  async pass(ms: number): Promise<void> {
    await vi.advanceTimersByTimeAsync(ms);
  }

  async ring(): Promise<void> {
    this.alarmAtMs = Number.POSITIVE_INFINITY;
    const ran = this.drain.run();
    await this.pass(SEND_TIMEOUT_MS);
    await ran;
  }
}

function rowOf(row: number, bytes: number): PackedRow {
  return { row, at: Date.now(), periodStart: 0, count: 1, bytes, isResent: false, text: `[${row}]` };
}

describe("a partly filled message", () => {
  test("leaves at once after an idle time", async () => {
    const road = new Road();
    road.commit();
    await road.pass(0);
    await road.pass(60_000);
    road.commit();
    await road.pass(0);
    expect(road.sent).toEqual([
      [0, ["ws[1]"]],
      [60_000, ["ws[2]"]],
    ]);
  });

  test("leaves every two seconds under a trickle", async () => {
    const road = new Road();
    for (let n = 0; n < 10; n++) {
      road.commit();
      await road.pass(500);
    }
    expect(road.sent).toEqual(
      [
        [0, ["ws[1]"]],
        [2_000, ["ws[2][3][4]"]],
        [4_000, ["ws[5][6][7][8]"]],
      ].map(([ms, messages]) => [ms, messages]),
    );
    await road.pass(DRAIN_PACE_MS);
    expect(road.sent.at(-1)).toEqual([6_000, ["ws[9][10]"]]);
    expect(road.reads).toBe(0);
  });

  test("holds no timer after it left", async () => {
    const road = new Road();
    road.commit();
    road.commit();
    await road.pass(2 * DRAIN_PACE_MS);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("queue operations, three per message, for each signal", () => {
  test.each([
    { perSecond: 1, most: 1.6 },
    { perSecond: 20, most: 0.1 },
  ])("are at most $most with $perSecond signals a second", async ({ perSecond, most }) => {
    const road = new Road();
    const signals = 100 * perSecond;
    for (let n = 0; n < signals; n++) {
      // A signal of 500 bytes.
      road.commit(720);
      await road.pass(1_000 / perSecond);
    }
    await road.pass(DRAIN_PACE_MS);
    const messages = road.sent.reduce((sum, [, batch]) => sum + batch.length, 0);
    expect((3 * messages) / signals).toBeLessThanOrEqual(most);
  });
});

test("sends a full message at once while the next one waits", async () => {
  const road = new Road();
  road.commit();
  await road.pass(1);
  for (let n = 0; n < 5; n++) road.commit(MESSAGE_MAX_BYTES / 2);
  await road.pass(1);
  expect(road.sent.slice(1)).toEqual([[1, ["ws[2][3]", "ws[4][5]"]]]);
  await road.pass(DRAIN_PACE_MS - 1);
  expect(road.sent.slice(2).map(([, messages]) => messages)).toEqual([["ws[6]"]]);
  expect(road.reads).toBe(0);
});

describe("rows are read from the table", () => {
  test("after a restart, all unsettled ones", async () => {
    const road = new Road([rowOf(1, 100), rowOf(2, 100)]);
    await road.pass(1);
    road.commit();
    await road.pass(DRAIN_PACE_MS);
    expect(road.sent).toEqual([[DRAIN_PACE_MS, ["ws[1][2][3]"]]]);
    const { reads } = road;
    road.commit();
    await road.pass(DRAIN_PACE_MS);
    expect([road.sent.at(-1), road.reads]).toEqual([[2 * DRAIN_PACE_MS, ["ws[4]"]], reads]);
  });

  test("after a failure, from the first that was not taken", async () => {
    const road = new Road();
    road.outcomes.push(() => Promise.reject(new Error("down")));
    road.commit();
    await road.pass(0);
    expect(road.alarmAtMs).toBe(START + RETRY_MIN_SECONDS * 1_000);
    road.commit();
    await road.pass(60_000);
    expect(road.sent).toHaveLength(1);
    await road.ring();
    expect(road.sent.at(-1)?.[1]).toEqual(["ws[1][2]"]);
    road.commit();
    await road.pass(DRAIN_PACE_MS);
    expect(road.sent.at(-1)?.[1]).toEqual(["ws[3]"]);
  });

  test("after a failure only by the alarm, even if a full message waited too", async () => {
    const road = new Road();
    road.outcomes.push(() => Promise.reject(new Error("down")));
    for (let n = 0; n < 3; n++) road.commit(MESSAGE_MAX_BYTES);
    await road.pass(DRAIN_PACE_MS);
    expect(road.sent).toHaveLength(1);
    await road.ring();
    expect(road.sent.at(-1)?.[1]).toEqual(["ws[1]", "ws[2]", "ws[3]"]);
  });

  test("above the memory limit, without gaps", async () => {
    const road = new Road();
    const underWay = Promise.withResolvers<void>();
    road.outcomes.push(() => underWay.promise);
    road.commit();
    await road.pass(0);
    const waiting = Math.ceil(UNSENT_MAX_BYTES / 50_000) + 20;
    for (let n = 0; n < waiting; n++) road.commit(50_000);
    underWay.resolve();
    await road.pass(0);
    const texts = road.sent.flatMap(([, messages]) => messages).map((message) => message.slice("ws".length));
    expect(texts.join("")).toBe(road.rows.map(({ text }) => text).join(""));
    expect(road.reads).toBeGreaterThan(0);
  });
});

test("retries a queue call that never settles", async () => {
  const road = new Road();
  road.outcomes.push(() => new Promise(() => {}));
  road.commit();
  await road.pass(SEND_TIMEOUT_MS);
  expect(road.alarmAtMs).toBe(START + SEND_TIMEOUT_MS + RETRY_MIN_SECONDS * 1_000);
  await road.ring();
  expect(road.sent.map(([, messages]) => messages)).toEqual([["ws[1]"], ["ws[1]"]]);
});

test("keeps the alarm running until every send has ended, so that a killed object gets it again", async () => {
  const road = new Road();
  let answer: ((value?: unknown) => void) | undefined;
  road.outcomes.push(() => new Promise((resolve) => (answer = resolve)));
  road.commit();
  await road.pass(0);
  road.commit();
  let ended = false;
  const ran = road.drain.run().then(() => (ended = true));
  await road.pass(100);
  expect(ended).toBe(false);
  answer?.();
  await ran;
  expect(road.sent.map(([, bodies]) => bodies)).toEqual([["ws[1]"], ["ws[2]"]]);
});

describe("unsettled rows", () => {
  test("are resent when the oldest is 15 minutes old, and again after 15 more", async () => {
    const road = new Road();
    road.commit();
    await road.pass(60_000);
    road.commit();
    await road.ring();
    expect(road.alarmAtMs).toBe(START + RESEND_AFTER_MS);
    vi.setSystemTime(START + RESEND_AFTER_MS - 1);
    let calls = road.sent.length;
    await road.drain.run();
    expect(road.sentSince(calls)).toEqual([]);
    vi.setSystemTime(START + RESEND_AFTER_MS);
    await road.ring();
    expect(road.sentSince(calls)).toEqual(["[1]"]);
    expect(road.alarmAtMs).toBe(START + 2 * RESEND_AFTER_MS);
    calls = road.sent.length;
    vi.setSystemTime(START + 2 * RESEND_AFTER_MS);
    await road.ring();
    expect(road.sentSince(calls)).toEqual(["[1][2]"]);
  });

  test("are resent completely, batch by batch", async () => {
    const road = new Road();
    for (let n = 0; n < 10; n++) road.commit(MESSAGE_MAX_BYTES);
    await road.pass(60_000);
    const calls = road.sent.length;
    vi.setSystemTime(START + RESEND_AFTER_MS);
    await road.ring();
    expect(road.sent.slice(calls).map(([, messages]) => messages.length)).toEqual([4, 4, 2]);
    expect(road.sentSince(calls).join("")).toBe(road.rows.map(({ text }) => text).join(""));
  });

  test("set no alarm once all are settled", async () => {
    const road = new Road();
    road.commit();
    await road.pass(0);
    road.settle(1);
    await road.ring();
    expect(road.alarmAtMs).toBe(Number.POSITIVE_INFINITY);
    expect(road.sent).toHaveLength(1);
  });
});

describe("a full store", () => {
  async function full(): Promise<Road> {
    const road = new Road();
    for (let n = 0; n < 3; n++) road.commit(MESSAGE_MAX_BYTES);
    await road.pass(60_000);
    road.drain.stopForFullStore();
    return road;
  }

  test("gets one probe a minute, by the alarm only", async () => {
    const road = await full();
    expect([road.drain.storeFull, road.alarmAtMs]).toEqual([true, START + 60_000 + STORE_PROBE_MS]);
    const calls = road.sent.length;
    road.commit();
    await road.pass(STORE_PROBE_MS - 1);
    await road.drain.run();
    expect(road.sentSince(calls)).toEqual([]);
    await road.pass(1);
    const atMs = Date.now();
    await road.ring();
    expect(road.sentSince(calls)).toEqual(["[1]"]);
    expect(road.alarmAtMs).toBe(atMs + STORE_PROBE_MS);
    // The store is still full, so the oldest row is the next probe.
    road.drain.stopForFullStore();
    vi.setSystemTime(atMs + STORE_PROBE_MS);
    await road.ring();
    expect(road.sentSince(calls)).toEqual(["[1]", "[1]"]);
  });

  test("gets the following rows as next probe if it does not answer, and the oldest after the last", async () => {
    const road = await full();
    const calls = road.sent.length;
    for (let probes = 0; probes < 5; probes++) {
      await road.pass(STORE_PROBE_MS);
      await road.ring();
    }
    // The fourth probe finds no row after the third.
    expect(road.sentSince(calls)).toEqual(["[1]", "[2]", "[3]", "[1]"]);
    expect(road.drain.storeFull).toBe(true);
  });

  test("holds nothing up once the outbox is empty", async () => {
    const road = await full();
    road.settle(1, 2, 3);
    await road.pass(STORE_PROBE_MS);
    await road.ring();
    expect(road.drain.storeFull).toBe(false);
    const calls = road.sent.length;
    road.commit();
    await road.pass(DRAIN_PACE_MS);
    expect(road.sentSince(calls)).toEqual(["[4]"]);
  });

  test("with room again gets every row from the oldest", async () => {
    const road = await full();
    const calls = road.sent.length;
    road.settle(1);
    road.drain.startOver();
    expect(road.drain.storeFull).toBe(false);
    await road.pass(DRAIN_PACE_MS);
    expect(road.sentSince(calls)).toEqual(["[2]", "[3]"]);
    road.commit();
    await road.pass(DRAIN_PACE_MS);
    expect(road.sentSince(calls)).toEqual(["[2]", "[3]", "[4]"]);
  });

  test("stops a send in progress, whose rows count as unsent later", async () => {
    const road = new Road();
    const underWay = Promise.withResolvers<void>();
    road.outcomes.push(() => underWay.promise);
    for (let n = 0; n < 6; n++) road.commit(MESSAGE_MAX_BYTES);
    await road.pass(0);
    road.drain.stopForFullStore();
    underWay.resolve();
    await road.pass(1);
    expect(road.sent).toHaveLength(1);
    road.drain.startOver();
    await road.pass(DRAIN_PACE_MS);
    expect(road.sentSince(1).join("")).toBe(road.rows.map(({ text }) => text).join(""));
  });
});

test("names the lowest unsettled row in each message", async () => {
  const road = new Road();
  const header = { at: 5, period_start: 1, period_end: 9, limit: 10, first: 1, count: 0, accepted: 0 };
  for (let n = 0; n < 3; n++) {
    road.commit(100, (row) => writeRow({ ...header, row }, ""));
    // oxlint-disable-next-line no-await-in-loop -- one after the other
    await road.pass(60_000);
    if (n === 1) road.settle(1, 2);
  }
  expect(road.lows).toEqual([1, 1, 3]);
});

test("logs a failure with workspace, number of failures and error", async () => {
  const road = new Road();
  const log = vi.spyOn(console, "log");
  road.outcomes.push(() => Promise.reject(new Error("down")));
  road.commit();
  await road.pass(0);
  expect(log.mock.calls.flat().map(String).join("\n")).toMatch(/drain_failed.*"workspace":"ws".*"failed":1.*down/s);
});
