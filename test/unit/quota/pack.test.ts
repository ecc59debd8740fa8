/** Design §7: signals in outbox rows, rows in messages, and the buckets of each key's request rate. */
import { describe, expect, test } from "vitest";
import { NO_VERDICTS } from "../../../src/domain/quota/quota.ts";
import { MESSAGE_MAX_BYTES } from "../../../src/limits.ts";
import { MessagePacker, RowPacker } from "../../../src/quota/outbox.ts";
import type { AdmitChunk } from "../../../src/quota/protocol.ts";
import { RequestBuckets } from "../../../src/quota/keys.ts";
import { ROW_HEADER_BYTES, readMessage, writeMessage, writeSignal } from "../../../src/wire/message.ts";

const HEADER = { at: 7, period_start: 1, period_end: 9, limit: 100 };

const run = (accepted: number, held: number) => ({ ...NO_VERDICTS, accepted, held });

/** Signals `first`, `first + 1`, … of one call. */
function chunk(first: number, count: number, bytes = 100): AdmitChunk {
  const text = Array.from({ length: count }, (_, n) => writeSignal({ id: `sig_${first + n}`, key: "key" }, "{}"));
  return { text: text.join(""), count, bytes };
}

/** The signals as they arrive: id, row, ordinal and verdict of each. */
function arrived(packer: RowPacker): string[] {
  const rows = packer.rows().map(({ text }) => text);
  return readMessage(writeMessage("ws", 0, rows.join(""))).rows.flatMap(({ row, signals }) =>
    signals.map(({ admission: { id, ordinal, verdict } }) => `${id} ${row.row} ${ordinal} ${verdict}`),
  );
}

describe("the rows of a commit", () => {
  test("are one row while all signals fit a message, with consecutive ordinals and the accepted ones first", () => {
    const packer = new RowPacker(HEADER, 5, 40);
    packer.add([chunk(1, 2)], run(2, 0));
    packer.add([chunk(3, 2), chunk(5, 1)], run(1, 2));
    expect(arrived(packer)).toEqual([
      "sig_1 5 41 accepted",
      "sig_2 5 42 accepted",
      "sig_3 5 43 accepted",
      "sig_4 5 44 held",
      "sig_5 5 45 held",
    ]);
    const [row, more] = packer.rows();
    expect(more).toBeUndefined();
    expect(row).toMatchObject({ row: 5, at: 7, periodStart: 1, count: 5, bytes: 300 + ROW_HEADER_BYTES });
    expect(row?.text.length).toBeLessThanOrEqual(row?.bytes ?? 0);
  });

  test("leave out rejected signals, even in the middle of a chunk", () => {
    const packer = new RowPacker(HEADER, 1, 0);
    packer.add([chunk(1, 3), chunk(4, 3), chunk(7, 3)], run(4, 1));
    packer.add([chunk(10, 2)], run(0, 0));
    packer.add([chunk(12, 2)], run(0, 2));
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

  test("are several rows above a message's size; an exactly full row is closed", () => {
    const packer = new RowPacker(HEADER, 1, 0);
    const half = (MESSAGE_MAX_BYTES - ROW_HEADER_BYTES) / 2;
    for (let n = 0; n < 5; n++) packer.add([chunk(n, 1, half)], run(1, 0));
    expect(packer.rows().map(({ row, count, bytes }) => [row, count, bytes])).toEqual([
      [1, 2, MESSAGE_MAX_BYTES],
      [2, 2, MESSAGE_MAX_BYTES],
      [3, 1, half + ROW_HEADER_BYTES],
    ]);
    expect(arrived(packer)).toHaveLength(5);
    expect(arrived(packer).at(-1)).toBe("sig_4 3 5 accepted");
  });
});

describe("messages", () => {
  const row = (number: number, bytes: number) => ({ row: number, bytes, text: `[${number}]` });

  function packed(...bytes: number[]): MessagePacker {
    const packer = new MessagePacker();
    for (const [index, size] of bytes.entries()) packer.add(row(index + 1, size));
    return packer;
  }

  test("are taken in order within the limits, but at least one", () => {
    const packer = packed(60_000, 50_000, 40_000, 30_000);
    expect(packer.bytes).toBe(180_000);
    expect(packer.take("all", 1, 250_000).map(({ rows }) => rows)).toEqual(["[1]"]);
    expect(packed(60_000, 50_000).take("all", 9, 109_999)).toHaveLength(1);
    expect(packer.take("all", 9, 90_000)).toEqual([
      { rows: "[2]", bytes: 50_000, lastRow: 2 },
      { rows: "[3]", bytes: 40_000, lastRow: 3 },
    ]);
    expect(packer.bytes).toBe(30_000);
    expect(packer.take("all", 9, 10).map(({ rows }) => rows)).toEqual(["[4]"]);
    expect([packer.bytes, packer.isEmpty, packer.take("all", 9, 250_000)]).toEqual([0, true, []]);
  });

  test("with room stay open until all are taken", () => {
    const packer = packed(30_000, 30_000, 1);
    expect([packer.hasFull, packer.isEmpty]).toEqual([true, false]);
    expect(packer.take("full", 9, 250_000)).toEqual([{ rows: "[1][2]", bytes: 60_000, lastRow: 2 }]);
    expect([packer.hasFull, packer.isEmpty, packer.bytes]).toEqual([false, false, 1]);
    expect(packer.take("full", 9, 250_000)).toEqual([]);
    packer.clear();
    expect([packer.bytes, packer.isEmpty, packer.take("all", 9, 250_000)]).toEqual([0, true, []]);
  });
});

test("§8.7: the request rate is separate per key, shows the rest without using it, and refuses calls beyond", () => {
  const buckets = new RequestBuckets({ perSecond: 10, burst: 2 });
  expect(buckets.left("a", 1_000)).toEqual({ remaining: 2, resetMs: 0 });
  expect(buckets.take("a", 1_000)).toMatchObject({ allowed: true, remaining: 1, resetMs: 100 });
  expect(buckets.take("a", 1_000)).toMatchObject({ allowed: true, remaining: 0, resetMs: 200 });
  expect(buckets.take("a", 1_000)).toMatchObject({ allowed: false, retryAfterMs: 100 });
  expect(buckets.left("a", 1_000)).toEqual({ remaining: 0, resetMs: 200 });
  expect(buckets.left("b", 1_000)).toEqual({ remaining: 2, resetMs: 0 });
  expect(buckets.take("a", 1_100).allowed).toBe(true);
});
