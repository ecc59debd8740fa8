/** How full a workspace is, in words: from 80 % of the storage on, when it is full, and when calls are refused for it. */
import { describe, expect, test } from "vitest";
import type { RoomLevel } from "../../../src/domain/health/alarm.ts";
import { roomLevel } from "../../../src/domain/health/alarm.ts";
import { duplicatesSaid, storageNotice, storedSaid, waitingSaid } from "../../../src/pages/usage/storage-copy.ts";
import type { Room } from "../../../src/workspace/read-health.ts";

const NOW = Date.UTC(2031, 2, 1);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

function health(more: Partial<Room> = {}): Room {
  return {
    level: "ok",
    store: { bytes: 1_250_000, maxBytes: 9_000_000_000 },
    outbox: { bytes: 20_000, maxBytes: 5_000_000_000 },
    waiting: 0,
    waitingSinceMs: null,
    duplicatesCoveredMs: 7 * DAY,
    ...more,
  };
}

describe("how full the storage is", () => {
  const of = (bytes: number) => ({ bytes, maxBytes: 1_000 });

  test.each<[store: number, outbox: number, RoomLevel]>([
    [0, 0, "ok"],
    [799, 999, "ok"],
    [800, 0, "filling"],
    [999, 0, "filling"],
    [1_000, 999, "full"],
    [1_200, 0, "full"],
    [0, 1_000, "refusing"],
    [1_000, 1_000, "refusing"],
  ])("with %i of 1,000 bytes in the store and %i in the outbox: %s", (store, outbox, level) => {
    expect(roomLevel({ store: of(store), outbox: of(outbox) })).toBe(level);
  });

  test("is said in bytes, as they are read easily", () => {
    const said = (bytes: number, maxBytes = 9_000_000_000) => storedSaid(health({ store: { bytes, maxBytes } }));
    expect(said(0)).toBe("0 bytes of 9 GB, 0.0 %");
    expect(said(999)).toBe("999 bytes of 9 GB, 0.0 %");
    expect(said(1_000)).toBe("1 KB of 9 GB, 0.0 %");
    expect(said(1_250_000)).toBe("1.3 MB of 9 GB, 0.0 %");
    expect(said(8_999_999_999)).toBe("9 GB of 9 GB, 99 %");
    expect(said(10_000_000_000_000, 20_000_000_000_000)).toBe("10,000 GB of 20,000 GB, 50 %");
  });
});

describe("notices of the storage", () => {
  const ROOM = { bytes: 100, maxBytes: 1_000 };
  const FULL = { bytes: 1_000, maxBytes: 1_000 };
  const waiting = { waiting: 12_000, waitingSinceMs: NOW - 3 * HOUR };

  test("there is none while there is room", () => {
    expect(storageNotice(health(), NOW)).toBeNull();
  });

  test("a warning comes before it is full, an alarm once nothing is processed, with what to do", () => {
    expect(storageNotice(health({ level: "filling", store: { bytes: 855, maxBytes: 1_000 } }), NOW)).toMatchObject({
      tone: "warn",
      title: "85 % of the storage is used.",
      text: expect.stringMatching(/^Once it is full.*shorter time, delete people.*ask the operator/),
    });
    expect(storageNotice(health({ level: "full", store: FULL, ...waiting }), NOW)).toMatchObject({
      tone: "bad",
      text: expect.stringMatching(/^12,000 signals wait; the oldest came 3 hours ago\. None is lost.*delete people/),
    });
  });

  test("say that calls are refused, for want of room in the storage or for another reason", () => {
    const full = storageNotice(health({ level: "refusing", store: FULL, ...waiting }), NOW);
    expect(full).toMatchObject({ tone: "bad", title: expect.stringContaining("503") });
    expect(full?.text).toMatch(/^The storage is full\. 12,000 signals wait;.*delete people/);
    const other = storageNotice(health({ level: "refusing", store: ROOM, ...waiting }), NOW);
    expect(other?.text).toMatch(/^12,000 signals wait;.*The storage has room/);
    expect(other?.text).not.toContain("delete");
  });
});

describe("what waits, and how far back duplicates are found", () => {
  test("is said of one, and of none", () => {
    expect(waitingSaid(health(), NOW)).toBe("No signal waits.");
    expect(waitingSaid(health({ waiting: 1, waitingSinceMs: NOW - 5_000 }), NOW)).toBe(
      "1 signal waits; the oldest came just now.",
    );
  });

  test("is said in seven days, or less in days and hours", () => {
    const said = (duplicatesCoveredMs: number) => duplicatesSaid(health({ duplicatesCoveredMs }));
    expect(said(7 * DAY)).toBe("7 days back.");
    expect(said(7 * DAY - 1)).toMatch(/^6 days back, instead of 7: /);
    expect(said(DAY)).toMatch(/^1 day back, instead of 7: /);
    expect(said(DAY - 1)).toMatch(/^23 hours back, instead of 7: /);
  });
});

test("each notice says what holds, whether anything is lost, and what can be done", () => {
  const room = { waiting: 2, waitingSinceMs: NOW - 3 * HOUR };
  const said = (level: RoomLevel) => storageNotice(health({ level, ...room }), NOW);
  expect(said("full")).toMatchObject({
    tone: "bad",
    title: "The storage is full: signals are accepted, but none is processed.",
  });
});

test("waiting signals are not mentioned if none waits or their age is unknown", () => {
  const said = (waiting: number, waitingSinceMs: number | null) =>
    waitingSaid(health({ waiting, waitingSinceMs }), NOW);
  expect([said(0, null), said(0, NOW), said(3, null)]).toEqual([
    "No signal waits.",
    "No signal waits.",
    "No signal waits.",
  ]);
});

test("the fill level of the storage is a whole number from ten percent", () => {
  const said = (bytes: number) => storedSaid(health({ store: { bytes, maxBytes: 1_000_000 } }));
  expect([said(99_900), said(100_000), said(109_999)]).toEqual([
    "99.9 KB of 1 MB, 10.0 %",
    "100 KB of 1 MB, 10 %",
    "110 KB of 1 MB, 10 %",
  ]);
});
