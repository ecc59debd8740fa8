/** §8: the forecast of a period's usage and of the day on which it reaches a limit. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { expected, paceOf, reaches } from "../../../../src/domain/quota/forecast.ts";
import { DAY_MS } from "../../../../src/domain/duration.ts";
import type { UsageDay } from "../../../../src/domain/quota/usage-day.ts";

const day = (number: number) => Date.UTC(2031, 2, number);
const START = day(1);
const END = day(32);
const end = (number: number, accepted: number, periodStartMs = START): UsageDay => ({
  periodStartMs,
  dayMs: day(number),
  accepted,
  held: 0,
  rejected: 0,
});
const at = (nowMs: number, used: number) => ({ nowMs, periodStartMs: START, periodEndMs: END, used });

describe("the expected usage of a period", () => {
  test("continues the pace until the period's end, rounded to two digits", () => {
    expect(expected(214, { ...at(day(2), 200), periodEndMs: END })).toBe(6_600);
  });

  test("is never below the present usage, whatever the rounding", () => {
    expect(expected(0, at(day(2), 123_456))).toBe(123_456);
    expect(expected(50, at(END + 5, 7))).toBe(7);
  });
});

describe("the pace", () => {
  test("is the mean of the last seven full days, without today and earlier days", () => {
    const days = [end(1, 1_000), end(2, 1_001), end(9, 1_071)];
    expect(paceOf(days, day(1), at(day(10) + 5, 9_999))).toEqual({ perDay: 10, fullDays: 7 });
  });

  test("includes idle days, but no days before counting began", () => {
    expect(paceOf([end(2, 6), end(3, 18)], day(2), at(day(6), 18))).toEqual({ perDay: 4, fullDays: 3 });
  });

  test("does not count the day of the first signal as a full day", () => {
    // The first signal came in the evening of 2 March; on each day since then there were 24.
    const days = [end(2, 1), end(3, 25), end(4, 49)];
    expect(paceOf(days, day(2), at(day(5), 49))).toEqual({ perDay: 24, fullDays: 2 });
  });

  test("covers the time since the first signal's day until a full day is over", () => {
    expect(paceOf([end(2, 12)], day(2), at(day(3) + DAY_MS / 2, 18))).toEqual({ perDay: 12, fullDays: 0 });
    expect(paceOf([end(2, 12)], day(2), at(day(3), 12))).toEqual({ perDay: 12, fullDays: 0 });
    // The period, and with it the counting, began at noon.
    const noon = day(2) + DAY_MS / 2;
    const now = { ...at(day(3), 12), periodStartMs: noon };
    expect(paceOf([end(2, 12, noon)], day(2), now)).toEqual({ perDay: 24, fullDays: 0 });
    // Another period began at midnight.
    const next = { nowMs: day(3) + DAY_MS / 2, periodStartMs: day(3), used: 6 };
    expect(paceOf([end(2, 12)], day(2), next)).toEqual({ perDay: 12, fullDays: 0 });
  });

  test("includes days of the period before", () => {
    const before = Date.UTC(2031, 1, 1);
    const days = [end(-1, 50, before), end(0, 70, before), end(1, 15)];
    // Counting began on 25 February: 50 came on the 27th, 20 on the 28th, 15 on 1 March.
    expect(paceOf(days, Date.UTC(2031, 1, 25), at(day(2), 15))).toEqual({ perDay: (50 + 20 + 15) / 4, fullDays: 4 });
  });

  test("is today's pace without a full day, and null within the first hour", () => {
    expect(paceOf([], null, at(day(1) + DAY_MS / 4, 10))).toEqual({ perDay: 40, fullDays: 0 });
    expect(paceOf([], null, at(day(1) + DAY_MS / 24 - 1, 10))).toBeNull();
    expect(paceOf([], null, at(day(1) + DAY_MS / 24, 10))).toEqual({ perDay: 240, fullDays: 0 });
    expect(paceOf([], null, { ...at(day(1) + DAY_MS / 2, 10), periodStartMs: day(1) + DAY_MS / 4 })?.perDay).toBe(40);
  });
});

describe("the day on which a limit is reached", () => {
  test("lies as many days ahead as the pace needs for the rest", () => {
    expect(reaches(150, 25, at(day(10), 100))).toBe(day(12));
  });

  test("is null if it would be at the period's end or later, or if no signals come", () => {
    expect(reaches(110, 10, { ...at(day(31), 100), periodEndMs: day(32) })).toBeNull();
    expect(reaches(109, 10, { ...at(day(31), 100), periodEndMs: day(32) })).not.toBeNull();
    expect(reaches(110, 0, at(day(10), 100))).toBeNull();
  });

  test("is 'reached' once usage equals the limit", () => {
    expect(reaches(100, 5, at(day(10), 100))).toBe("reached");
    expect(reaches(100, 5, at(day(10), 99))).not.toBe("reached");
  });

  // oxlint-disable-next-line vitest/expect-expect -- the property contains the expectations
  test("is within the period, not in the past, and not later for the limit than for twice the limit", () => {
    const number = fc.integer({ min: 0, max: 1_000_000 });
    fc.assert(
      fc.property(number, fc.integer({ min: 1, max: 1_000_000 }), number, (used, limit, perDay) => {
        const now = at(day(10), used);
        const [first, second] = [reaches(limit, perDay, now), reaches(2 * limit, perDay, now)];
        for (const reached of [first, second]) {
          if (typeof reached === "number") expect(reached >= now.nowMs && reached <= END).toBe(true);
        }
        if (typeof second === "number") expect(first === "reached" || (first !== null && first <= second)).toBe(true);
        if (second === "reached") expect(first).toBe("reached");
      }),
    );
  });
});
