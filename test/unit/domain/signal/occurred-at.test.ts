/** When a signal occurred, as its payload says (src/domain/signal/occurred-at.ts, design §8.6). */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { occurredAt, readTime, timeProblemOf } from "../../../../src/domain/signal/occurred-at.ts";

const RECEIVED = Date.UTC(2026, 10, 25, 12);
const WHEN = Date.UTC(2025, 4, 3, 10, 20, 30, 400);
const ISO = "2025-05-03T10:20:30.400Z";
const cdp = { type: "track", event: "E", messageId: "m", anonymousId: "a" };

describe("the source of the time", () => {
  test.each([
    ["`timestamp` before all others", { ...cdp, timestamp: ISO, originalTimestamp: 1 }, WHEN, "timestamp"],
    ["`timestamp` of a universal signal too", { event: "E", timestamp: ISO, occurred_at: 1 }, WHEN, "timestamp"],
    ["`originalTimestamp` without a `timestamp`", { ...cdp, originalTimestamp: ISO }, WHEN, "originalTimestamp"],
    [
      "`originalTimestamp` plus the difference between the CDP's clock and the sender's",
      { ...cdp, originalTimestamp: ISO, sentAt: "2025-05-03T10:20:31Z", receivedAt: "2025-05-03T11:20:31Z" },
      WHEN + 3_600_000,
      "originalTimestamp",
    ],
    ["`occurred_at` of a universal signal", { event: "E", occurred_at: ISO }, WHEN, "occurred_at"],
    [
      "the receipt, because `occurred_at` of a CDP call means nothing",
      { ...cdp, occurred_at: ISO },
      RECEIVED,
      "received",
    ],
    ["the receipt without any time", { event: "E" }, RECEIVED, "received"],
    [
      "the next field after an unreadable time",
      { ...cdp, timestamp: "soon", originalTimestamp: ISO },
      WHEN,
      "originalTimestamp",
    ],
    ["the next field after a time before 2000", { event: "E", timestamp: 0, occurred_at: ISO }, WHEN, "occurred_at"],
    ["a time at the start of 2000", { event: "E", timestamp: "2000-01-01" }, Date.UTC(2000, 0, 1), "timestamp"],
    ["the receipt for a time just after it", { event: "E", timestamp: RECEIVED + 600_000 }, RECEIVED, "timestamp"],
    [
      "the next field after a time in the future",
      { event: "E", timestamp: "2558-07-03", occurred_at: ISO },
      WHEN,
      "occurred_at",
    ],
    ["the receipt, not a time in the future", { event: "E", timestamp: RECEIVED + 600_001 }, RECEIVED, "received"],
  ])("is %s", (_, payload, ms, from) => {
    expect(occurredAt(payload, RECEIVED)).toEqual({ ms, from });
  });
});

test.each([
  [ISO, WHEN],
  ["2025-05-03T12:20:30,4+02:00", WHEN],
  ["2025-05-03 10:20:30.4009Z", WHEN],
  ["2025-05-03T05:20:30.400-0500", WHEN],
  ["2025-05-03", Date.UTC(2025, 4, 3)],
  ["2013-10-17 14:55:23-04", Date.UTC(2013, 9, 17, 18, 55, 23)],
  ["2020-12-01T20:00:00+00", Date.UTC(2020, 11, 1, 20)],
  ["20241210T173646Z", Date.UTC(2024, 11, 10, 17, 36, 46)],
  ["20241210t173646.5+0130", Date.UTC(2024, 11, 10, 16, 6, 46, 500)],
  ["2024-12-10T17", Date.UTC(2024, 11, 10, 17)],
  ["2016-12-31T23:59:60Z", Date.UTC(2016, 11, 31, 23, 59, 59)],
  ["20240230T000000Z", null],
  [1_719_252_562_123_456, 1_719_252_562_123],
  ["1719252562123456", 1_719_252_562_123],
  ["1719252562123456789", 1_719_252_562_123],
  ["2025-05-03T10:20", Date.UTC(2025, 4, 3, 10, 20)],
  [WHEN, WHEN],
  [String(WHEN), WHEN],
  [WHEN / 1_000, WHEN],
  ["1746267630", 1_746_267_630_000],
  [99_999_999_999, 99_999_999_999_000],
  [100_000_000_000, 100_000_000_000],
  // The limits between seconds, milliseconds, microseconds and nanoseconds.
  [99_999_999_999_999, 99_999_999_999_999],
  [100_000_000_000_000, 100_000_000_000],
  [100_000_000_000_000_000, 100_000_000_000],
  [1e20, null],
  ["2025-02-30", null],
  ["2025-13-01", null],
  ["2025-05-03T25:00:00Z", null],
  ["May 3, 2025", null],
  ["2025", null],
  ["", null],
  [1e300, null],
  [Number.NaN, null],
  [true, null],
  [{ iso: ISO }, null],
])("reads the time %j as %j", (value, ms) => {
  expect(readTime(value)).toBe(ms);
});

test("any payload has a time between 2000 and the receipt, and every ISO 8601 time is read back", () => {
  const value = fc.oneof(fc.anything(), fc.date({ noInvalidDate: true }).map(String), fc.double(), fc.integer());
  fc.assert(
    fc.property(value, value, value, (timestamp, originalTimestamp, occurred_at) => {
      const { ms } = occurredAt({ timestamp, originalTimestamp, occurred_at }, RECEIVED);
      expect(ms).toBeGreaterThanOrEqual(Date.UTC(2000, 0, 1));
      expect(ms).toBeLessThanOrEqual(RECEIVED);
    }),
  );
  fc.assert(fc.property(fc.integer({ min: 0, max: 4e12 }), (ms) => readTime(new Date(ms).toISOString()) === ms));
});

test.each([
  [
    { event: "E", timestamp: "yesterday" },
    "Its `timestamp` cannot be read: send ISO 8601, or milliseconds since 1970.",
  ],
  [{ event: "E", occurred_at: 12 }, "Its `occurred_at` is before the year 2000, so it is not used."],
  [
    { event: "E", timestamp: "2558-07-03T20:39:39+0700" },
    "Its `timestamp` is more than ten minutes after the receipt, so it is not used.",
  ],
  [{ event: "E", timestamp: RECEIVED + 600_000 }, null],
  [{ event: "E", timestamp: "2000-01-01" }, null],
  [{ ...cdp, occurred_at: "never" }, null],
  [{ event: "E", timestamp: ISO, occurred_at: "never" }, null],
  [{ event: "E" }, null],
  ["no object", null],
])("explains the unused time of %j", (payload, problem) => {
  expect(timeProblemOf(payload, RECEIVED)).toBe(problem);
});
