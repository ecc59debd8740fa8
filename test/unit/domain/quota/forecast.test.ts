/** §8: the forecast of a period's usage and of the day on which it reaches a limit. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { expectedUsage, paceOf, whenReached } from "../../../../src/domain/quota/forecast.ts";
import { DAY_MS } from "../../../../src/domain/duration.ts";
import { NO_VERDICTS } from "../../../../src/domain/quota/quota.ts";
import type { UsageDay } from "../../../../src/domain/quota/usage-day.ts";

const day = (number: number) => Date.UTC(2031, 2, number);
const START = day(1);
const END = day(32);
const end = (number: number, accepted: number, periodStartMs = START): UsageDay => ({
  ...NO_VERDICTS,
  periodStartMs,
  dayMs: day(number),
  accepted,
});
const at = (nowMs: number, used: number, periodStartMs = START) => ({ nowMs, periodStartMs, periodEndMs: END, used });

test("the expected usage continues the pace, rounded to two digits, and is never below the present usage", () => {
  expect(expectedUsage(214, at(day(2), 200))).toBe(6_600);
  expect(expectedUsage(0, at(day(2), 123_456))).toBe(123_456);
  expect(expectedUsage(50, at(END + 5, 7))).toBe(7);
});

describe("the pace", () => {
  const february = Date.UTC(2031, 1, 1);
  const noon = day(2) + DAY_MS / 2;
  const HALF_DAY_LATER = day(3) + DAY_MS / 2;

  test.each<[string, UsageDay[], number | null, ReturnType<typeof at>, [perDay: number, fullDays: number] | null]>([
    [
      "is the mean of 7 full days",
      [end(1, 1_000), end(2, 1_001), end(9, 1_071)],
      day(1),
      at(day(10) + 5, 9_999),
      [10, 7],
    ],
    ["includes idle days since the first signal's day", [end(2, 6), end(3, 18)], day(2), at(day(6), 18), [4, 3]],
    ["leaves out the first day", [end(2, 1), end(3, 25), end(4, 49)], day(2), at(day(5), 49), [24, 2]],
    [
      "includes the period before",
      [end(-1, 50, february), end(0, 70, february), end(1, 15)],
      day(-3),
      at(day(2), 15),
      [21.25, 4],
    ],
    ["covers the time since the first day", [end(2, 12)], day(2), at(HALF_DAY_LATER, 18), [12, 0]],
    ["covers a day at its end", [end(2, 12)], day(2), at(day(3), 12), [12, 0]],
    ["begins with the period", [end(2, 12, noon)], day(2), at(day(3), 12, noon), [24, 0]],
    ["counts today in a new period", [end(2, 12)], day(2), at(HALF_DAY_LATER, 6, day(3)), [12, 0]],
    ["is today's on the first day", [], null, at(day(1) + DAY_MS / 4, 10), [40, 0]],
    ["is unknown within the first hour", [], null, at(day(1) + DAY_MS / 24 - 1, 10), null],
    ["is known after the first hour", [], null, at(day(1) + DAY_MS / 24, 10), [240, 0]],
    ["begins with today's period", [], null, at(day(1) + DAY_MS / 2, 10, day(1) + DAY_MS / 4), [40, 0]],
  ])("%s", (_, days, firstDayMs, now, pace) => {
    expect(paceOf(days, firstDayMs, now)).toEqual(pace && { perDay: pace[0], fullDays: pace[1] });
  });
});

describe("the day on which a limit is reached", () => {
  test.each<[string, target: number, perDay: number, now: ReturnType<typeof at>, ReturnType<typeof whenReached>]>([
    ["lies as many days ahead as the pace needs", 150, 25, at(day(10), 100), day(12)],
    ["is null at the period's end", 110, 10, at(day(31), 100), null],
    ["is null without a pace", 110, 0, at(day(10), 100), null],
    ["is reached once usage equals the limit", 100, 5, at(day(10), 100), "reached"],
    ["lies ahead before that", 100, 5, at(day(10), 99), day(10) + DAY_MS / 5],
  ])("%s", (_, target, perDay, now, reached) => expect(whenReached(target, perDay, now)).toBe(reached));

  test("is within the period, not in the past, and not later for the limit than for twice the limit", () => {
    const number = fc.integer({ min: 0, max: 1_000_000 });
    fc.assert(
      fc.property(number, fc.integer({ min: 1, max: 1_000_000 }), number, (used, limit, perDay) => {
        const now = at(day(10), used);
        const [first, second] = [whenReached(limit, perDay, now), whenReached(2 * limit, perDay, now)];
        for (const reached of [first, second]) {
          expect(typeof reached !== "number" || (reached >= now.nowMs && reached <= END)).toBe(true);
        }
        if (typeof second === "number") expect(first === "reached" || (first !== null && first <= second)).toBe(true);
        if (second === "reached") expect(first).toBe("reached");
      }),
    );
  });
});
