/** How full a workspace is, in words: from 80 % of the storage on, when it is full, and when calls are refused for it. */
import { describe, expect, test } from "vitest";
import { roomLevel, type RoomLevel } from "../../../src/domain/health/alarm.ts";
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

test.each<[store: number, outbox: number, RoomLevel]>([
  [0, 0, "ok"],
  [799, 999, "ok"],
  [800, 0, "filling"],
  [999, 0, "filling"],
  [1_000, 999, "full"],
  [1_200, 0, "full"],
  [0, 1_000, "refusing"],
  [1_000, 1_000, "refusing"],
])("with %i of 1,000 bytes in the store and %i in the outbox, the level is %s", (store, outbox, level) => {
  const of = (bytes: number) => ({ bytes, maxBytes: 1_000 });
  expect(roomLevel({ store: of(store), outbox: of(outbox) })).toBe(level);
});

test.each([
  [0, 9_000_000_000, "0 bytes of 9 GB, 0.0 %"],
  [999, 9_000_000_000, "999 bytes of 9 GB, 0.0 %"],
  [1_000, 9_000_000_000, "1 KB of 9 GB, 0.0 %"],
  [1_250_000, 9_000_000_000, "1.3 MB of 9 GB, 0.0 %"],
  [8_999_999_999, 9_000_000_000, "9 GB of 9 GB, 99 %"],
  [10_000_000_000_000, 20_000_000_000_000, "10,000 GB of 20,000 GB, 50 %"],
  [99_900, 1_000_000, "99.9 KB of 1 MB, 10.0 %"],
  [109_999, 1_000_000, "110 KB of 1 MB, 10 %"],
])("%i of %i bytes are shown as %s", (bytes, maxBytes, text) => {
  expect(storedSaid(health({ store: { bytes, maxBytes } }))).toBe(text);
});

describe("the notice of the storage", () => {
  const room = { bytes: 100, maxBytes: 1_000 };
  const full = { bytes: 1_000, maxBytes: 1_000 };
  const waiting = { waiting: 12_000, waitingSinceMs: NOW - 3 * HOUR };

  test("does not exist while there is room", () => {
    expect(storageNotice(health(), NOW)).toBeNull();
  });

  test.each<[RoomLevel, Partial<Room>, string, RegExp, RegExp]>([
    [
      "filling",
      { store: { bytes: 855, maxBytes: 1_000 } },
      "warn",
      /^85 % of the storage is used\.$/,
      /^Once it is full.*shorter time, delete people.*ask the operator/,
    ],
    [
      "full",
      { store: full },
      "bad",
      /^The storage is full: signals are accepted, but none is processed\.$/,
      /^12,000 signals wait; the oldest came 3 hours ago\. None is lost.*delete people/,
    ],
    ["refusing", { store: full }, "bad", /503/, /^The storage is full\. 12,000 signals wait;.*delete people/],
    ["refusing", { store: room }, "bad", /503/, /^(?!.*delete)12,000 signals wait;.*The storage has room/],
  ])("at level %s with %j has tone %s and says what to do", (level, more, tone, title, text) => {
    const notice = storageNotice(health({ level, ...waiting, ...more }), NOW);
    expect(notice?.tone).toBe(tone);
    expect(notice?.title).toMatch(title);
    expect(notice?.text).toMatch(text);
  });
});

test("waiting signals are counted with the age of the oldest, if any waits", () => {
  const said = (count: number, waitingSinceMs: number | null) =>
    waitingSaid(health({ waiting: count, waitingSinceMs }), NOW);
  expect(said(1, NOW - 5_000)).toBe("1 signal waits; the oldest came just now.");
  expect([said(0, null), said(0, NOW), said(3, null)]).toEqual(Array(3).fill("No signal waits."));
});

test("the time for which duplicates are found is shown in days, or in hours below one day", () => {
  const said = (duplicatesCoveredMs: number) => duplicatesSaid(health({ duplicatesCoveredMs }));
  expect(said(7 * DAY)).toBe("7 days back.");
  expect(said(7 * DAY - 1)).toMatch(/^6 days back, instead of 7: /);
  expect(said(DAY)).toMatch(/^1 day back, instead of 7: /);
  expect(said(DAY - 1)).toMatch(/^23 hours back, instead of 7: /);
});
