/** Design §7: when committed rows are sent to the queue, and from where they are read. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { DRAIN_PACE_MS, MESSAGE_MAX_BYTES, RETRY_MIN_SECONDS } from "../../../src/limits.ts";
import { Drain, RESEND_AFTER_MS, SEND_TIMEOUT_MS, STORE_PROBE_MS, UNSENT_MAX_BYTES } from "../../../src/quota/drain.ts";
import { MessagePacker, type PackedRow, type SendRange } from "../../../src/quota/outbox.ts";
import { expectLogged } from "../../support/logged.ts";
import { bytesOf, textOf } from "../../support/wire.ts";

const START = 1_000_000;

let logged: () => unknown[];

beforeEach(() => {
  vi.useFakeTimers({ now: START });
  logged = expectLogged("drain_failed");
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** A drain between a list of rows and a queue that may fail. */
class DrainFixture {
  readonly rows: PackedRow[] = [];
  /** Time of each `sendBatch`, and the text of its messages. */
  readonly sent: [number, string[]][] = [];
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
    const alarm = { wakeBy: (atMs: number) => void (this.alarmAtMs = Math.min(this.alarmAtMs, atMs)) };
    this.drain = new Drain(outbox, alarm, {
      workspaceId: "ws",
      paceMs: DRAIN_PACE_MS,
      send: (messages) => {
        const bodies = messages.map(({ body }) => textOf(body));
        this.lows.push(...bodies.map((body) => Number(/^ws (\d+)/.exec(body)?.[1])));
        // Without the lowest row and the padding.
        this.sent.push([Date.now() - START, bodies.map((body) => body.replace(/^ws \d+/, "ws").replaceAll("\0", ""))]);
        return this.outcomes.shift()?.() ?? Promise.resolve();
      },
    });
  }

  #read({ afterRow, admittedUntil, maxMessages }: SendRange) {
    this.reads++;
    const packer = new MessagePacker();
    for (const row of this.rows) {
      if (row.row <= afterRow) continue;
      if (row.at > admittedUntil) break;
      packer.add(row);
    }
    return packer.take("all", maxMessages, 250_000);
  }

  settle(...rows: number[]): void {
    const left = this.rows.filter(({ row }) => !rows.includes(row));
    this.rows.splice(0, Infinity, ...left);
  }

  /** Texts sent since the last call, by message. */
  sentSince(calls: number): string[] {
    return this.sent.slice(calls).flatMap(([, messages]) => messages.map((message) => message.slice("ws".length)));
  }

  #lastRow = 0;

  commit(bytes = 100): void {
    const row = rowOf(Math.max(this.#lastRow, this.rows.at(-1)?.row ?? 0) + 1, bytes);
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
  return {
    row,
    at: Date.now(),
    periodStart: 0,
    count: 1,
    body: bytesOf(`[${row}]`.padEnd(bytes, "\0")),
  };
}

describe("a partly filled message", () => {
  test("leaves at once after an idle time", async () => {
    const fixture = new DrainFixture();
    fixture.commit();
    await fixture.pass(0);
    await fixture.pass(60_000);
    fixture.commit();
    await fixture.pass(0);
    expect(fixture.sent).toEqual([
      [0, ["ws[1]"]],
      [60_000, ["ws[2]"]],
    ]);
  });

  test("leaves every two seconds under a trickle, and holds no timer afterwards", async () => {
    const fixture = new DrainFixture();
    for (let n = 0; n < 10; n++) {
      fixture.commit();
      await fixture.pass(500);
    }
    expect(fixture.sent).toEqual([
      [0, ["ws[1]"]],
      [2_000, ["ws[2][3][4]"]],
      [4_000, ["ws[5][6][7][8]"]],
    ]);
    await fixture.pass(DRAIN_PACE_MS);
    expect(fixture.sent.at(-1)).toEqual([6_000, ["ws[9][10]"]]);
    expect(fixture.reads).toBe(0);
    await fixture.pass(DRAIN_PACE_MS);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("queue operations, three per message, for each signal", () => {
  test.each([
    { perSecond: 1, most: 1.6 },
    { perSecond: 20, most: 0.1 },
  ])("are at most $most with $perSecond signals a second", async ({ perSecond, most }) => {
    const fixture = new DrainFixture();
    const signals = 100 * perSecond;
    for (let n = 0; n < signals; n++) {
      // A signal of 500 bytes.
      fixture.commit(720);
      await fixture.pass(1_000 / perSecond);
    }
    await fixture.pass(DRAIN_PACE_MS);
    const messages = fixture.sent.reduce((sum, [, batch]) => sum + batch.length, 0);
    expect((3 * messages) / signals).toBeLessThanOrEqual(most);
  });
});

test("sends a full message at once while the next one waits", async () => {
  const fixture = new DrainFixture();
  fixture.commit();
  await fixture.pass(1);
  for (let n = 0; n < 5; n++) fixture.commit(MESSAGE_MAX_BYTES / 2);
  await fixture.pass(1);
  expect(fixture.sent.slice(1)).toEqual([[1, ["ws[2][3]", "ws[4][5]"]]]);
  await fixture.pass(DRAIN_PACE_MS - 1);
  expect(fixture.sent.slice(2).map(([, messages]) => messages)).toEqual([["ws[6]"]]);
  expect(fixture.reads).toBe(0);
});

test("sends a partly filled message after a slow send of full ones, without an alarm", async () => {
  const fixture = new DrainFixture();
  fixture.commit();
  await fixture.pass(1);
  const underWay = Promise.withResolvers<void>();
  fixture.outcomes.push(() => underWay.promise);
  fixture.commit(MESSAGE_MAX_BYTES);
  fixture.commit();
  await fixture.pass(DRAIN_PACE_MS);
  underWay.resolve();
  await fixture.pass(DRAIN_PACE_MS);
  expect(fixture.sent.map(([, messages]) => messages)).toEqual([["ws[1]"], ["ws[2]"], ["ws[3]"]]);
});

describe("rows are read from the table", () => {
  test("after a restart, all unsettled ones", async () => {
    const fixture = new DrainFixture([rowOf(1, 100), rowOf(2, 100)]);
    await fixture.pass(1);
    fixture.commit();
    await fixture.pass(DRAIN_PACE_MS);
    expect(fixture.sent).toEqual([[DRAIN_PACE_MS, ["ws[1][2][3]"]]]);
    const { reads } = fixture;
    fixture.commit();
    await fixture.pass(DRAIN_PACE_MS);
    expect([fixture.sent.at(-1), fixture.reads]).toEqual([[2 * DRAIN_PACE_MS, ["ws[4]"]], reads]);
  });

  test("after a failure, which is logged, from the first that was not taken", async () => {
    const fixture = new DrainFixture();
    fixture.outcomes.push(() => Promise.reject(new Error("down")));
    fixture.commit();
    await fixture.pass(0);
    expect(fixture.alarmAtMs).toBe(START + RETRY_MIN_SECONDS * 1_000);
    expect(logged()).toEqual([{ event: "drain_failed", workspace: "ws", failed: 1, error: "Error: down" }]);
    fixture.commit();
    await fixture.pass(60_000);
    expect(fixture.sent).toHaveLength(1);
    await fixture.ring();
    expect(fixture.sent.at(-1)?.[1]).toEqual(["ws[1][2]"]);
    fixture.commit();
    await fixture.pass(DRAIN_PACE_MS);
    expect(fixture.sent.at(-1)?.[1]).toEqual(["ws[3]"]);
  });

  test("after a failure only by the alarm, even if a full message waited too", async () => {
    const fixture = new DrainFixture();
    fixture.outcomes.push(() => Promise.reject(new Error("down")));
    for (let n = 0; n < 3; n++) fixture.commit(MESSAGE_MAX_BYTES);
    await fixture.pass(DRAIN_PACE_MS);
    expect(fixture.sent).toHaveLength(1);
    await fixture.ring();
    expect(fixture.sent.at(-1)?.[1]).toEqual(["ws[1]", "ws[2]", "ws[3]"]);
  });

  test("above the memory limit, without gaps", async () => {
    const fixture = new DrainFixture();
    const underWay = Promise.withResolvers<void>();
    fixture.outcomes.push(() => underWay.promise);
    fixture.commit();
    await fixture.pass(0);
    const waiting = Math.ceil(UNSENT_MAX_BYTES / 50_000) + 20;
    for (let n = 0; n < waiting; n++) fixture.commit(50_000);
    underWay.resolve();
    await fixture.pass(0);
    const texts = fixture.sent.flatMap(([, messages]) => messages).map((message) => message.slice("ws".length));
    expect(texts.join("")).toBe(fixture.rows.map(({ row }) => `[${row}]`).join(""));
    expect(fixture.reads).toBeGreaterThan(0);
  });
});

test("retries a queue call that never settles", async () => {
  const fixture = new DrainFixture();
  fixture.outcomes.push(() => new Promise(() => {}));
  fixture.commit();
  await fixture.pass(SEND_TIMEOUT_MS);
  expect(fixture.alarmAtMs).toBe(START + SEND_TIMEOUT_MS + RETRY_MIN_SECONDS * 1_000);
  await fixture.ring();
  expect(fixture.sent.map(([, messages]) => messages)).toEqual([["ws[1]"], ["ws[1]"]]);
});

test("keeps the alarm running until every send has ended, so that a killed object gets it again", async () => {
  const fixture = new DrainFixture();
  let answer: ((value?: unknown) => void) | undefined;
  fixture.outcomes.push(() => new Promise((resolve) => (answer = resolve)));
  fixture.commit();
  await fixture.pass(0);
  fixture.commit();
  let ended = false;
  const ran = fixture.drain.run().then(() => (ended = true));
  await fixture.pass(100);
  expect(ended).toBe(false);
  answer?.();
  await ran;
  expect(fixture.sent.map(([, bodies]) => bodies)).toEqual([["ws[1]"], ["ws[2]"]]);
});

describe("unsettled rows", () => {
  test("are resent when the oldest is 15 minutes old, and again after 15 more, with retries", async () => {
    const fixture = new DrainFixture();
    fixture.commit();
    await fixture.pass(60_000);
    fixture.commit();
    await fixture.ring();
    expect(fixture.alarmAtMs).toBe(START + RESEND_AFTER_MS);
    vi.setSystemTime(START + RESEND_AFTER_MS - 1);
    let calls = fixture.sent.length;
    await fixture.drain.run();
    expect(fixture.sentSince(calls)).toEqual([]);
    vi.setSystemTime(START + RESEND_AFTER_MS);
    await fixture.ring();
    expect(fixture.sentSince(calls)).toEqual(["[1]"]);
    expect(fixture.alarmAtMs).toBe(START + 2 * RESEND_AFTER_MS);
    calls = fixture.sent.length;
    vi.setSystemTime(START + 2 * RESEND_AFTER_MS);
    fixture.outcomes.push(() => Promise.reject(new Error("down")));
    await fixture.ring();
    expect(fixture.alarmAtMs).toBe(START + 2 * RESEND_AFTER_MS + RETRY_MIN_SECONDS * 1_000);
    await fixture.pass(RETRY_MIN_SECONDS * 1_000);
    await fixture.ring();
    expect(fixture.sentSince(calls)).toEqual(["[1][2]", "[1][2]"]);
  });

  test("are resent completely, batch by batch", async () => {
    const fixture = new DrainFixture();
    for (let n = 0; n < 10; n++) fixture.commit(MESSAGE_MAX_BYTES);
    await fixture.pass(60_000);
    const calls = fixture.sent.length;
    vi.setSystemTime(START + RESEND_AFTER_MS);
    await fixture.ring();
    expect(fixture.sent.slice(calls).map(([, messages]) => messages.length)).toEqual([4, 4, 2]);
    expect(fixture.sentSince(calls).join("")).toBe(fixture.rows.map(({ row }) => `[${row}]`).join(""));
  });

  test("set no alarm once all are settled", async () => {
    const fixture = new DrainFixture();
    fixture.commit();
    await fixture.pass(0);
    fixture.settle(1);
    await fixture.ring();
    expect(fixture.alarmAtMs).toBe(Number.POSITIVE_INFINITY);
    expect(fixture.sent).toHaveLength(1);
  });
});

describe("a full store", () => {
  async function full(): Promise<DrainFixture> {
    const fixture = new DrainFixture();
    for (let n = 0; n < 3; n++) fixture.commit(MESSAGE_MAX_BYTES);
    await fixture.pass(60_000);
    fixture.drain.stopForFullStore();
    return fixture;
  }

  test("gets one probe a minute, by the alarm only", async () => {
    const fixture = await full();
    expect([fixture.drain.storeFull, fixture.alarmAtMs]).toEqual([true, START + 60_000 + STORE_PROBE_MS]);
    const calls = fixture.sent.length;
    fixture.commit();
    await fixture.pass(STORE_PROBE_MS - 1);
    await fixture.drain.run();
    expect(fixture.sentSince(calls)).toEqual([]);
    await fixture.pass(1);
    const atMs = Date.now();
    await fixture.ring();
    expect(fixture.sentSince(calls)).toEqual(["[1]"]);
    expect(fixture.alarmAtMs).toBe(atMs + STORE_PROBE_MS);
    // The store is still full, so the oldest row is the next probe.
    fixture.drain.stopForFullStore();
    vi.setSystemTime(atMs + STORE_PROBE_MS);
    await fixture.ring();
    expect(fixture.sentSince(calls)).toEqual(["[1]", "[1]"]);
  });

  test("gets the following rows as next probe if it does not answer, and the oldest after the last", async () => {
    const fixture = await full();
    const calls = fixture.sent.length;
    for (let probes = 0; probes < 5; probes++) {
      await fixture.pass(STORE_PROBE_MS);
      await fixture.ring();
    }
    // The fourth probe finds no row after the third.
    expect(fixture.sentSince(calls)).toEqual(["[1]", "[2]", "[3]", "[1]"]);
    expect(fixture.drain.storeFull).toBe(true);
  });

  test("holds nothing up once the outbox is empty", async () => {
    const fixture = await full();
    fixture.settle(1, 2, 3);
    await fixture.pass(STORE_PROBE_MS);
    await fixture.ring();
    expect(fixture.drain.storeFull).toBe(false);
    const calls = fixture.sent.length;
    fixture.commit();
    await fixture.pass(DRAIN_PACE_MS);
    expect(fixture.sentSince(calls)).toEqual(["[4]"]);
  });

  test("with room again gets every row from the oldest", async () => {
    const fixture = await full();
    const calls = fixture.sent.length;
    vi.setSystemTime(START + RESEND_AFTER_MS);
    fixture.settle(1);
    fixture.drain.startOver();
    expect(fixture.drain.storeFull).toBe(false);
    await fixture.pass(DRAIN_PACE_MS);
    expect(fixture.sentSince(calls)).toEqual(["[2]", "[3]"]);
    await fixture.drain.run();
    expect(fixture.sentSince(calls)).toEqual(["[2]", "[3]"]);
    fixture.commit();
    await fixture.pass(DRAIN_PACE_MS);
    expect(fixture.sentSince(calls)).toEqual(["[2]", "[3]", "[4]"]);
  });

  test("stops a send in progress, whose rows count as unsent later", async () => {
    const fixture = new DrainFixture();
    const underWay = Promise.withResolvers<void>();
    fixture.outcomes.push(() => underWay.promise);
    for (let n = 0; n < 6; n++) fixture.commit(MESSAGE_MAX_BYTES);
    await fixture.pass(0);
    fixture.drain.stopForFullStore();
    underWay.resolve();
    await fixture.pass(1);
    expect(fixture.sent).toHaveLength(1);
    fixture.drain.startOver();
    await fixture.pass(DRAIN_PACE_MS);
    expect(fixture.sentSince(1).join("")).toBe(fixture.rows.map(({ row }) => `[${row}]`).join(""));
  });
});

describe("after the clock was set back by a day", () => {
  const BACK = START + 24 * 3_600_000;
  beforeEach(() => void vi.setSystemTime(BACK + 24 * 3_600_000));

  test("rows that are lost are resent after 15 minutes, and then every 15 minutes", async () => {
    const fixture = new DrainFixture();
    fixture.commit();
    await fixture.pass(60_000);
    vi.setSystemTime(BACK);
    fixture.commit();
    await fixture.pass(60_000);
    await fixture.ring();
    const calls = fixture.sent.length;
    vi.setSystemTime(Date.now() + RESEND_AFTER_MS - 120_000);
    await fixture.ring();
    expect(fixture.sentSince(calls)).toEqual([]);
    vi.setSystemTime(Date.now() + 120_000);
    await fixture.ring();
    expect(fixture.sentSince(calls)).toEqual(["[1][2]"]);
    await fixture.ring();
    expect(fixture.sentSince(calls)).toEqual(["[1][2]"]);
    vi.setSystemTime(Date.now() + RESEND_AFTER_MS);
    await fixture.ring();
    expect(fixture.sentSince(calls)).toEqual(["[1][2]", "[1][2]"]);
  });

  test("a full store gets a probe a minute", async () => {
    const fixture = new DrainFixture();
    fixture.commit();
    await fixture.pass(60_000);
    fixture.drain.stopForFullStore();
    const calls = fixture.sent.length;
    vi.setSystemTime(BACK);
    await fixture.ring();
    await fixture.ring();
    expect(fixture.sentSince(calls)).toEqual(["[1]"]);
    expect(fixture.alarmAtMs).toBeLessThanOrEqual(Date.now() + STORE_PROBE_MS);
    fixture.drain.stopForFullStore();
    vi.setSystemTime(Date.now() + STORE_PROBE_MS);
    await fixture.ring();
    expect(fixture.sentSince(calls)).toEqual(["[1]", "[1]"]);
  });
});

test("names the lowest unsettled row in each message", async () => {
  const fixture = new DrainFixture();
  for (let n = 0; n < 3; n++) {
    fixture.commit();
    // oxlint-disable-next-line no-await-in-loop -- one after the other
    await fixture.pass(60_000);
    if (n === 1) fixture.settle(1, 2);
  }
  expect(fixture.lows).toEqual([1, 1, 3]);
});
