/** Billing periods: months from the anchor, in UTC, and what happens at their end (spec §8.1, §8.5). */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { billingPeriodAt, closePeriod, type PeriodEnd, type Streak } from "../../../../src/domain/quota/billing.ts";

const DAY_MS = 86_400_000;

function period(anchor: string, now: string): [string, string] {
  const { startMs, endMs } = billingPeriodAt(Date.parse(`${anchor}Z`), Date.parse(`${now}Z`));
  return [new Date(startMs).toISOString().slice(0, 16), new Date(endMs).toISOString().slice(0, 16)];
}

const moments = fc.integer({ min: Date.UTC(2000), max: Date.UTC(2080) });
/** Favours the last days of months, and times around midnight. */
const anchors = fc.oneof(
  moments,
  fc
    .tuple(
      fc.integer({ min: 2020, max: 2032 }),
      fc.nat(11),
      fc.integer({ min: 28, max: 31 }),
      fc.constantFrom(0, 1, 12 * 3_600_000, DAY_MS - 1),
    )
    .map(([year, month, day, time]) => Date.UTC(year, month, day) + time),
);

/** Whether a period begins on this day: the anchor's day, or the last day of a shorter month. */
function isStartDay(dayMs: number, anchorDay: number): boolean {
  const day = new Date(dayMs).getUTCDate();
  return day === anchorDay || (day < anchorDay && new Date(dayMs + DAY_MS).getUTCDate() === 1);
}

/** Walks day by day to the nearest starts before and after the moment. */
function walked(anchorMs: number, nowMs: number): { startMs: number; endMs: number } {
  const time = ((anchorMs % DAY_MS) + DAY_MS) % DAY_MS;
  const anchorDay = new Date(anchorMs).getUTCDate();
  let day = Math.floor(nowMs / DAY_MS) * DAY_MS;
  if (day + time > nowMs) day -= DAY_MS;
  while (!isStartDay(day, anchorDay)) day -= DAY_MS;
  const startMs = day + time;
  do day += DAY_MS;
  while (!isStartDay(day, anchorDay));
  return { startMs, endMs: day + time };
}

describe("a billing period", () => {
  test.each([
    ["includes its start", "2026-01-15T00:00", "2026-01-15T00:00", "2026-01-15T00:00", "2026-02-15T00:00"],
    ["excludes its end", "2026-01-15T00:00", "2026-02-15T00:00", "2026-02-15T00:00", "2026-03-15T00:00"],
    [
      "ends at the anchor's time of day",
      "2026-01-15T09:30",
      "2026-03-15T09:29",
      "2026-02-15T09:30",
      "2026-03-15T09:30",
    ],
    [
      "ends on the last day of a short month",
      "2026-01-31T12:00",
      "2026-02-10T00:00",
      "2026-01-31T12:00",
      "2026-02-28T12:00",
    ],
    [
      "is not shortened by an earlier month",
      "2026-01-31T12:00",
      "2026-02-28T12:00",
      "2026-02-28T12:00",
      "2026-03-31T12:00",
    ],
    ["includes leap days", "2026-01-31T00:00", "2028-02-29T00:00", "2028-02-29T00:00", "2028-03-31T00:00"],
    ["may precede the anchor", "2028-02-29T10:00", "2026-03-01T00:00", "2026-02-28T10:00", "2026-03-29T10:00"],
    ["ignores summer time", "2026-03-15T01:30", "2026-03-29T02:30", "2026-03-15T01:30", "2026-04-15T01:30"],
  ])("%s", (_, anchor, now, start, end) => {
    expect(period(anchor, now)).toEqual([start, end]);
  });

  test("equals the period found by walking the calendar day by day, for any anchor and moment", () => {
    fc.assert(
      fc.property(anchors, fc.oneof(moments, anchors), (anchor, now) => {
        expect(billingPeriodAt(anchor, now)).toEqual(walked(anchor, now));
      }),
      { numRuns: 2_000 },
    );
  });
});

const L = 100;
const NONE: Streak = { streak: 0, extraRoomRemoved: false };
const over: PeriodEnd = { count: L + 1, signalLimit: L, paid: true, overages: false };
const within: PeriodEnd = { ...over, count: L };
const close = (periods: PeriodEnd[], before = NONE): Streak => periods.reduce(closePeriod, before);

describe("§8.5: the end of a billing period", () => {
  const five = (more: Partial<PeriodEnd>) => Array.from({ length: 5 }, () => ({ ...over, ...more }));
  test.each<[string, PeriodEnd[], streak: number, extraRoomRemoved: boolean]>([
    ["two in a row over the allowance leave the extra room", [over, over], 2, false],
    ["the third in a row over the allowance ends the extra room", [over, over, over], 3, true],
    ["exactly the allowance is not over it", [over, over, within], 0, false],
    ["a period within the allowance resets the count", [over, over, within, over, over], 2, false],
    ["an unpaid plan never loses the extra room", five({ paid: false }), 0, false],
    ["a plan with overages never loses the extra room", five({ overages: true }), 0, false],
  ])("%s", (_, periods, streak, extraRoomRemoved) => {
    expect(close(periods)).toEqual({ streak, extraRoomRemoved });
  });

  const periods = fc.array(
    fc.record<PeriodEnd>({
      count: fc.nat(4),
      signalLimit: fc.nat(2),
      paid: fc.oneof(fc.constant(true), fc.boolean()),
      overages: fc.oneof(fc.constant(false), fc.boolean()),
    }),
    { maxLength: 12 },
  );

  test("three consecutive periods over the allowance end the extra room for good", () => {
    fc.assert(
      fc.property(periods, (ends) => {
        const marks = ends
          .map(({ count, signalLimit, paid, overages }) => (count > signalLimit && paid && !overages ? "x" : "."))
          .join("");
        expect(close(ends)).toEqual({
          streak: marks.length - (marks.lastIndexOf(".") + 1),
          extraRoomRemoved: marks.includes("xxx"),
        });
        expect(close(ends, { streak: 0, extraRoomRemoved: true }).extraRoomRemoved).toBe(true);
      }),
    );
  });
});
