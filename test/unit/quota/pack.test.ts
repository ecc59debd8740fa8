/** Design §7: signals in outbox rows, rows in messages, and the buckets of each key's request rate. */
import { describe, expect, test } from "vitest";
import { NO_VERDICTS } from "../../../src/domain/quota/quota.ts";
import { MESSAGE_MAX_BYTES } from "../../../src/limits.ts";
import { MessagePacker, type PackedMessage, type PackedRow, RowPacker } from "../../../src/quota/outbox.ts";
import { RequestBuckets } from "../../../src/quota/keys.ts";
import { ROW_HEADER_BYTES, readMessage, writeMessage, type WrittenCall } from "../../../src/wire/message.ts";
import { callOf } from "../../support/wire.ts";

const HEADER = { at: 7, period_start: 1, period_end: 9, limit: 100 };

const run = (accepted: number, held: number) => ({ ...NO_VERDICTS, accepted, held });

/** Signals `first`, `first + 1`, … of a call, each of `bytes` bytes. */
function call(first: number, count: number, bytes = 100, key = "key"): WrittenCall {
  const signals = Array.from({ length: count }, (_, n) => {
    const id = `sig_${first + n}`;
    return { id, payload: `{"x":"`.padEnd(bytes - id.length - 4, "x") + '"}' };
  });
  return callOf({ key }, signals);
}

/** The signals as they arrive: id, row, ordinal and verdict of each. */
function arrived(packer: RowPacker): string[] {
  const rows = packer.rows().map(({ body }) => body);
  return readMessage(writeMessage("ws", 0, rows)).rows.flatMap(({ row, signals }) =>
    signals.map(({ admission: { id, ordinal, verdict } }) => `${id} ${row.row} ${ordinal} ${verdict}`),
  );
}

const keysOf = ({ body }: PackedRow) =>
  readMessage(body).rows.flatMap(({ signals }) => signals.map(({ admission }) => admission.keyId));

describe("the rows of a commit", () => {
  test("are one row while all signals fit a message, with consecutive ordinals and the accepted ones first", () => {
    const packer = new RowPacker(HEADER, 5, 40);
    packer.add(call(1, 2), run(2, 0));
    packer.add(call(3, 3), run(1, 2));
    expect(arrived(packer)).toEqual([
      "sig_1 5 41 accepted",
      "sig_2 5 42 accepted",
      "sig_3 5 43 accepted",
      "sig_4 5 44 held",
      "sig_5 5 45 held",
    ]);
    const [row, more] = packer.rows();
    expect(more).toBeUndefined();
    expect(row).toMatchObject({ row: 5, at: 7, periodStart: 1, count: 5 });
  });

  test("leave out rejected signals", () => {
    const packer = new RowPacker(HEADER, 1, 0);
    packer.add(call(1, 9), run(4, 1));
    packer.add(call(10, 2), run(0, 0));
    packer.add(call(12, 2), run(0, 2));
    expect(arrived(packer).map((line) => line.split(" ").toSpliced(1, 1).join(" "))).toEqual([
      "sig_1 1 accepted",
      "sig_2 2 accepted",
      "sig_3 3 accepted",
      "sig_4 4 accepted",
      "sig_5 5 held",
      "sig_12 6 held",
      "sig_13 7 held",
    ]);
    expect(packer.rows().map(({ count }) => count)).toEqual([7]);
  });

  test("are several rows above a message's size, each with the call of its signals", () => {
    const packer = new RowPacker(HEADER, 1, 0);
    packer.add(call(0, 1, 100, "first"), run(1, 0));
    packer.add(call(1, 5, MESSAGE_MAX_BYTES / 2 - 150, "large"), run(3, 2));
    packer.add(call(6, 1, 100, "last"), run(1, 0));
    const rows = packer.rows();
    expect(rows.map(keysOf)).toEqual([["first", "large"], ["large", "large"], ["large", "large"], ["last"]]);
    for (const { body } of rows) expect(body.length).toBeLessThanOrEqual(MESSAGE_MAX_BYTES);
    expect(arrived(packer).map((line) => line.replace(/^sig_/, ""))).toEqual([
      "0 1 1 accepted",
      "1 1 2 accepted",
      "2 2 3 accepted",
      "3 2 4 accepted",
      "4 3 5 held",
      "5 3 6 held",
      "6 4 7 accepted",
    ]);
  });

  test("are full to the byte, and one byte more begins another row", () => {
    const whole = call(1, 2);
    const room = MESSAGE_MAX_BYTES - ROW_HEADER_BYTES - whole.head.length - 100;
    for (const [bytes, rows] of [
      [room, 1],
      [room + 1, 2],
    ] as const) {
      const packer = new RowPacker(HEADER, 1, 0);
      const [first, second] = [call(1, 1), call(2, 1, bytes)];
      const signals = Uint8Array.from([...first.signals, ...second.signals]);
      packer.add({ head: whole.head, signals, sizes: [...first.sizes, ...second.sizes] }, run(2, 0));
      const packed = packer.rows();
      expect(packed).toHaveLength(rows);
      for (const { body } of packed) expect(Buffer.from(body).toString().split(whole.head)).toHaveLength(2);
    }
  });

  test("hold a signal alone that is larger than a message should be", () => {
    const packer = new RowPacker(HEADER, 1, 0);
    packer.add(call(1, 3, MESSAGE_MAX_BYTES + 1), run(3, 0));
    expect(packer.rows().map(({ row, count }) => [row, count])).toEqual([
      [1, 1],
      [2, 1],
      [3, 1],
    ]);
  });
});

describe("messages", () => {
  const row = (number: number, bytes: number) => ({ row: number, body: new Uint8Array(bytes).fill(number) });
  const rowsOf = (messages: PackedMessage[]) => messages.map(({ rows }) => rows.map(([number]) => number));

  function packed(...bytes: number[]): MessagePacker {
    const packer = new MessagePacker();
    for (const [index, size] of bytes.entries()) packer.add(row(index + 1, size));
    return packer;
  }

  test("are taken in order within the limits, but at least one", () => {
    const packer = packed(60_000, 50_000, 40_000, 30_000);
    expect(packer.bytes).toBe(180_000);
    expect(rowsOf(packer.take("all", 1, 250_000))).toEqual([[1]]);
    expect(packed(60_000, 50_000).take("all", 9, 109_999)).toHaveLength(1);
    expect(packer.take("all", 9, 90_000)).toMatchObject([
      { bytes: 50_000, lastRow: 2 },
      { bytes: 40_000, lastRow: 3 },
    ]);
    expect(packer.bytes).toBe(30_000);
    expect(rowsOf(packer.take("all", 9, 10))).toEqual([[4]]);
    expect([packer.bytes, packer.isEmpty, packer.take("all", 9, 250_000)]).toEqual([0, true, []]);
  });

  test("with room stay open until all are taken", () => {
    const packer = packed(30_000, 30_000, 1);
    expect([packer.hasFull, packer.isEmpty]).toEqual([true, false]);
    const full = packer.take("full", 9, 250_000);
    expect([rowsOf(full), full]).toMatchObject([[[1, 2]], [{ bytes: 60_000, lastRow: 2 }]]);
    expect([packer.hasFull, packer.isEmpty, packer.bytes]).toEqual([false, false, 1]);
    expect(packer.take("full", 9, 250_000)).toEqual([]);
    packer.clear();
    expect([packer.bytes, packer.isEmpty, packer.take("all", 9, 250_000)]).toEqual([0, true, []]);
  });
});

test("§8.7: the request rate is separate per key, and rejects calls beyond", () => {
  const buckets = new RequestBuckets({ perSecond: 10, burst: 2 });
  expect(buckets.take("a", 1_000)).toMatchObject({ allowed: true, remaining: 1, resetMs: 100 });
  expect(buckets.take("a", 1_000)).toMatchObject({ allowed: true, remaining: 0, resetMs: 200 });
  expect(buckets.take("a", 1_000)).toMatchObject({ allowed: false, retryAfterMs: 100 });
  expect(buckets.take("b", 1_000)).toMatchObject({ allowed: true, remaining: 1 });
  expect(buckets.take("a", 1_100).allowed).toBe(true);
});
