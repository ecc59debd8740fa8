/** Usage by day: what is written when a day ends, and the curve and the daily counts that are made of it. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DAY_MS } from "../../src/domain/duration.ts";
import {
  countingDay,
  endedDays,
  lastDay,
  signalsPerDay,
  usageCurve,
  utcDay,
  type Counting,
  type UsageDay,
} from "../../src/domain/quota/usage-day.ts";

const START = Date.UTC(2031, 2, 1, 10);
const day = (number: number) => Date.UTC(2031, 2, number);
const counting = (more: Partial<Counting> = {}): Counting => ({
  periodStartMs: START,
  dayMs: day(5),
  accepted: 8,
  held: 2,
  rejected: 1,
  ...more,
});
const entry = (number: number, accepted: number, held = 0, periodStartMs = START): UsageDay => ({
  periodStartMs,
  dayMs: day(number),
  accepted,
  held,
  rejected: 0,
});

describe("the end of a day", () => {
  test("nothing is written on the same day, up to its last millisecond", () => {
    expect(endedDays(counting(), day(6) - 1)).toEqual([]);
    expect(countingDay(day(5), day(6) - 1)).toBe(day(5));
  });

  test("one entry is written with the first millisecond of the next day", () => {
    expect(endedDays(counting(), day(6))).toEqual([counting()]);
    expect(countingDay(day(5), day(6))).toBe(day(6));
  });

  test("after several idle days it is still one entry, for the last day on which something came", () => {
    expect(endedDays(counting(), day(20) + 5)).toEqual([counting()]);
  });

  test("a period in which nothing has come has no entries", () => {
    expect(endedDays(counting({ accepted: 0, held: 0, rejected: 0 }), day(9))).toEqual([]);
  });

  test("refused signals alone make an entry", () => {
    expect(endedDays(counting({ accepted: 0, held: 0 }), day(9))).toHaveLength(1);
  });

  test("a clock that goes back opens no ended day again", () => {
    expect(endedDays(counting(), day(4))).toEqual([]);
    expect(countingDay(day(5), day(4))).toBe(day(5));
  });

  test("counts from before days were noted are spread evenly over the period so far", () => {
    const spread = endedDays(counting({ dayMs: 0, accepted: 40, held: 4, rejected: 0 }), day(4) + 1);
    expect(spread).toEqual([entry(1, 10, 1), entry(2, 20, 2), entry(3, 30, 3)]);
    expect(endedDays(counting({ dayMs: 0 }), day(1) + 1)).toEqual([]);
  });

  test("a period that closes keeps its last day, also where no day was noted, unless it was idle", () => {
    expect(lastDay(counting(), day(32))).toEqual(counting());
    expect(lastDay(counting({ dayMs: 0 }), day(32))).toEqual(counting({ dayMs: day(31) }));
    expect(lastDay(counting({ accepted: 0, held: 0, rejected: 0 }), day(32))).toBeNull();
  });
});

describe("the curve of a period", () => {
  test("begins at the period's start with nothing, goes flat over idle days, and ends now", () => {
    const now = { nowMs: day(5) + 7, accepted: 9, held: 3, rejected: 1 };
    const curve = usageCurve([entry(1, 2), entry(3, 5, 1)], START, now);
    expect(curve.map(({ atMs, accepted, held }) => [atMs, accepted, held])).toEqual([
      [START, 0, 0],
      [day(2), 2, 0],
      [day(3), 2, 0],
      [day(4), 5, 1],
      [day(5), 5, 1],
      [day(5) + 7, 9, 3],
    ]);
  });

  test("knows nothing of another period's days", () => {
    const before = { ...entry(1, 99), periodStartMs: START - 28 * DAY_MS };
    const curve = usageCurve([before], START, { nowMs: day(2), accepted: 0, held: 0, rejected: 0 });
    expect(curve.every(({ accepted }) => accepted === 0)).toBe(true);
  });
});

describe("signals per day", () => {
  test("are what a day added, idle days none", () => {
    expect(signalsPerDay([entry(1, 2), entry(3, 5, 1)], day(1), day(5))).toEqual([2, 0, 4, 0]);
  });

  test("a day in which a period ended and another began has those of both", () => {
    const next = day(3) + 10;
    expect(signalsPerDay([entry(2, 7), entry(3, 9), entry(3, 4, 0, next)], day(2), day(4))).toEqual([7, 6]);
  });

  test("add up to all that was counted, whatever comes when", () => {
    const arrivals = fc.array(fc.record({ afterMs: fc.nat(3 * DAY_MS), accepted: fc.nat(50), held: fc.nat(50) }));
    fc.assert(
      fc.property(arrivals, (arrived) => {
        const written: UsageDay[] = [];
        let state: Counting = { periodStartMs: START, dayMs: utcDay(START), accepted: 0, held: 0, rejected: 0 };
        let nowMs = START;
        for (const { afterMs, accepted, held } of arrived) {
          nowMs += afterMs;
          written.push(...endedDays(state, nowMs));
          state = { ...state, dayMs: countingDay(state.dayMs, nowMs) };
          state = { ...state, accepted: state.accepted + accepted, held: state.held + held };
        }
        nowMs += DAY_MS;
        written.push(...endedDays(state, nowMs));
        const perDay = signalsPerDay(written, utcDay(START), utcDay(nowMs));
        expect(perDay.reduce((sum, count) => sum + count, 0)).toBe(state.accepted + state.held);
        expect(perDay.every((count) => count >= 0)).toBe(true);
        const curve = usageCurve(written, START, { nowMs, ...state });
        for (const [index, point] of curve.entries()) {
          expect(point.accepted).toBeGreaterThanOrEqual(curve[index - 1]?.accepted ?? 0);
          expect(point.atMs).toBeGreaterThanOrEqual(curve[index - 1]?.atMs ?? START);
        }
      }),
    );
  });
});
