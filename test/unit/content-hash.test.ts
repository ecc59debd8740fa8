import { describe, expect, test } from "vitest";
import { UNTIMED_BELOW, bareHash, contentTimeMs, hashesInReach, storedHash } from "../../src/domain/content-hash.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const WEEK = 7 * 24 * HOUR;
const NOON = Date.UTC(2026, 5, 15, 12);

const stored = (receivedAtMs: number, windowMs = 10 * MINUTE, contentMs: number | null = null) =>
  storedHash("h-_Z9", { windowMs, receivedAtMs, contentMs });

describe("design §8.2: a content hash is stored behind its hour", () => {
  test("of receipt, for a short window; those of one hour lie together, in order of time", () => {
    expect(stored(NOON)).toBe(stored(NOON + HOUR - 1));
    expect(stored(NOON) < stored(NOON + HOUR)).toBe(true);
    expect(bareHash(stored(NOON))).toBe("h-_Z9");
  });

  test("that the content tells, for a long window: the same whenever it is received", () => {
    expect(stored(NOON, WEEK, NOON)).toBe(stored(NOON + 6 * 24 * HOUR, WEEK, NOON));
    expect(stored(NOON, WEEK, NOON)).not.toBe(stored(NOON, WEEK, NOON + HOUR));
    expect(hashesInReach(stored(NOON, WEEK, NOON), NOON + WEEK, WEEK)).toEqual([stored(NOON, WEEK, NOON)]);
  });

  test.each(["0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])(
    "which leaves the hash enough room in the index, whatever time the content tells (%s)",
    (time) => {
      expect(stored(NOON, WEEK, Date.parse(time))).toMatch(/^~[0-9a-z]{1,4}~h-_Z9$/);
    },
  );

  test("of which there is none for a long window when the content tells none", () => {
    expect(stored(NOON, WEEK)).toBe(stored(NOON + WEEK, WEEK));
    expect(bareHash(stored(NOON, WEEK))).toBe("h-_Z9");
  });

  test.each([-10, -1, 0, 1, 9, 10, 50, 59])(
    "and is in reach of a twin's, received within the window (minute %d)",
    (n) => {
      const receivedAtMs = NOON + n * MINUTE;
      for (const apart of [-10 * MINUTE, -1, 0, 1, 10 * MINUTE]) {
        const reach = hashesInReach(stored(receivedAtMs), receivedAtMs, 10 * MINUTE);
        expect(reach).toContain(stored(receivedAtMs + apart));
        expect(reach.length).toBeLessThanOrEqual(2);
      }
    },
  );

  test("and sorts behind every hash that was stored without one", () => {
    for (const first of ["-", "_", "A", "Z", "a", "z", "0", "9"]) {
      expect(`${first}abc` < UNTIMED_BELOW).toBe(true);
      expect(hashesInReach(`${first}abc`, NOON, 10 * MINUTE)).toEqual([`${first}abc`]);
      expect(bareHash(`${first}abc`)).toBe(`${first}abc`);
    }
    expect([stored(NOON), stored(NOON, WEEK)].every((hash) => hash >= UNTIMED_BELOW)).toBe(true);
  });
});

test("a CDP's event tells its time in `originalTimestamp`, else in `timestamp`", () => {
  const at = new Date(NOON).toISOString();
  const later = new Date(NOON + HOUR).toISOString();
  expect(contentTimeMs({ originalTimestamp: at, timestamp: later })).toBe(NOON);
  expect(contentTimeMs({ timestamp: at })).toBe(NOON);
  for (const timestamp of ["yesterday", "", 5, {}, null]) expect(contentTimeMs({ timestamp })).toBeNull();
});
