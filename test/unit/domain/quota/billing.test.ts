/** Billing periods: months from the anchor, in UTC (spec §8.1, §8.5). What closing one does is in quota.test.ts. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { billingPeriodAt } from "../../../../src/domain/quota/billing.ts";

const DAY_MS = 86_400_000;

function period(anchor: string, now: string): [string, string] {
  const { startMs, endMs } = billingPeriodAt(Date.parse(anchor), Date.parse(now));
  return [new Date(startMs).toISOString().slice(0, 19), new Date(endMs).toISOString().slice(0, 19)];
}

describe("the period that holds a moment", () => {
  test.each([
    [
      "starts at the anchor",
      "2026-01-15T00:00:00Z",
      "2026-01-15T00:00:00Z",
      "2026-01-15T00:00:00",
      "2026-02-15T00:00:00",
    ],
    [
      "does not hold its end, which belongs to the next",
      "2026-01-15T00:00:00Z",
      "2026-02-15T00:00:00Z",
      "2026-02-15T00:00:00",
      "2026-03-15T00:00:00",
    ],
    [
      "holds the moment before its end",
      "2026-01-15T00:00:00Z",
      "2026-02-14T23:59:59.999Z",
      "2026-01-15T00:00:00",
      "2026-02-15T00:00:00",
    ],
    [
      "lasts until the anchor's time of day",
      "2026-01-15T09:30:15Z",
      "2026-03-15T09:30:14Z",
      "2026-02-15T09:30:15",
      "2026-03-15T09:30:15",
    ],
    [
      "begins at the anchor's time of day",
      "2026-01-15T09:30:15Z",
      "2026-03-15T09:30:15Z",
      "2026-03-15T09:30:15",
      "2026-04-15T09:30:15",
    ],
    [
      "anchor on the 31st: a short February ends it",
      "2026-01-31T12:00:00Z",
      "2026-02-10T00:00:00Z",
      "2026-01-31T12:00:00",
      "2026-02-28T12:00:00",
    ],
    [
      "anchor on the 31st: March has its 31st again after a short February",
      "2026-01-31T12:00:00Z",
      "2026-02-28T12:00:00Z",
      "2026-02-28T12:00:00",
      "2026-03-31T12:00:00",
    ],
    [
      "anchor on the 31st: April has 30",
      "2026-01-31T12:00:00Z",
      "2026-04-30T11:59:59Z",
      "2026-03-31T12:00:00",
      "2026-04-30T12:00:00",
    ],
    [
      "anchor on the 31st: 29 February in a leap year",
      "2026-01-31T00:00:00Z",
      "2028-02-29T00:00:00Z",
      "2028-02-29T00:00:00",
      "2028-03-31T00:00:00",
    ],
    [
      "anchor on the 30th: February's last day",
      "2026-01-30T00:00:00Z",
      "2026-03-01T00:00:00Z",
      "2026-02-28T00:00:00",
      "2026-03-30T00:00:00",
    ],
    [
      "anchor on the 29th: 28 February",
      "2026-01-29T00:00:00Z",
      "2027-02-28T06:00:00Z",
      "2027-02-28T00:00:00",
      "2027-03-29T00:00:00",
    ],
    [
      "anchor on 29 February: the 29th elsewhere",
      "2028-02-29T00:00:00Z",
      "2028-03-29T00:00:00Z",
      "2028-03-29T00:00:00",
      "2028-04-29T00:00:00",
    ],
    [
      "anchor on 29 February: 28 February next year",
      "2028-02-29T00:00:00Z",
      "2029-02-28T00:00:00Z",
      "2029-02-28T00:00:00",
      "2029-03-29T00:00:00",
    ],
    [
      "anchor on the 28th: the 28th in a leap year",
      "2026-01-28T00:00:00Z",
      "2028-02-28T00:00:00Z",
      "2028-02-28T00:00:00",
      "2028-03-28T00:00:00",
    ],
    [
      "no leap day in 2100",
      "2026-01-31T00:00:00Z",
      "2100-03-01T00:00:00Z",
      "2100-02-28T00:00:00",
      "2100-03-31T00:00:00",
    ],
    [
      "over the turn of the year",
      "2025-11-30T23:59:59Z",
      "2025-12-31T12:00:00Z",
      "2025-12-30T23:59:59",
      "2026-01-30T23:59:59",
    ],
    [
      "an anchor yet to come: periods lead up to it",
      "2026-05-31T00:00:00Z",
      "2026-05-30T00:00:00Z",
      "2026-04-30T00:00:00",
      "2026-05-31T00:00:00",
    ],
    [
      "an anchor years ahead",
      "2028-02-29T10:00:00Z",
      "2026-03-01T00:00:00Z",
      "2026-02-28T10:00:00",
      "2026-03-29T10:00:00",
    ],
    [
      "a change to summer time moves nothing",
      "2026-03-15T01:30:00Z",
      "2026-03-29T02:30:00Z",
      "2026-03-15T01:30:00",
      "2026-04-15T01:30:00",
    ],
  ])("%s", (_, anchor, now, start, end) => {
    expect(period(anchor, now)).toEqual([start, end]);
  });
});

const moments = fc.integer({ min: Date.UTC(2000), max: Date.UTC(2080) });
/** The days that months differ in, and the moments around midnight, more often than chance has them. */
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

/** Whether a period begins on this day, going by the calendar alone: is it the anchor's day, or the month's last and too short? */
function isStartDay(dayMs: number, anchorDay: number): boolean {
  const day = new Date(dayMs).getUTCDate();
  return day === anchorDay || (day < anchorDay && new Date(dayMs + DAY_MS).getUTCDate() === 1);
}

/** Walks day by day from the moment to the nearest starts before and after it. */
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

describe("for any anchor and any moment", () => {
  test("the period is the one found by walking the calendar day by day", () => {
    fc.assert(
      fc.property(anchors, fc.oneof(moments, anchors), (anchor, now) => {
        expect(billingPeriodAt(anchor, now)).toEqual(walked(anchor, now));
      }),
      { numRuns: 2_000 },
    );
  });

  test("periods follow each other without a gap or an overlap, and hold each of their moments", () => {
    fc.assert(
      fc.property(anchors, moments, fc.double({ min: 0, max: 1, noNaN: true }), (anchor, now, share) => {
        let { startMs, endMs } = billingPeriodAt(anchor, now);
        expect(startMs <= now && now < endMs).toBe(true);
        for (let month = 0; month < 14; month++) {
          const inside = Math.min(endMs - 1, startMs + Math.floor(share * (endMs - startMs)));
          for (const moment of [startMs, inside, endMs - 1]) {
            expect(billingPeriodAt(anchor, moment)).toEqual({ startMs, endMs });
          }
          const next = billingPeriodAt(anchor, endMs);
          expect(next.startMs).toBe(endMs);
          ({ startMs, endMs } = next);
        }
      }),
    );
  });

  test("the anchor itself begins a period", () => {
    fc.assert(
      fc.property(anchors, (anchor) => {
        expect(billingPeriodAt(anchor, anchor).startMs).toBe(anchor);
        expect(billingPeriodAt(anchor, anchor - 1).endMs).toBe(anchor);
      }),
    );
  });
});
