/** Usage by day: what is written when a day ends, and the curve and the daily counts that are made of it. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DAY_MS } from "../../../../src/domain/duration.ts";
import {
  countingDay,
  endedDay,
  lastDay,
  signalsPerDay,
  usageCurve,
  utcDay,
  type Counting,
  type UsageDay,
} from "../../../../src/domain/quota/usage-day.ts";

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
    expect(endedDay(counting(), day(6) - 1)).toBeNull();
    expect(countingDay(day(5), day(6) - 1)).toBe(day(5));
  });

  test("one entry is written with the first millisecond of the next day", () => {
    expect(endedDay(counting(), day(6))).toEqual(counting());
    expect(countingDay(day(5), day(6))).toBe(day(6));
  });

  test("after several idle days it is still one entry, for the last day on which something came", () => {
    expect(endedDay(counting(), day(20) + 5)).toEqual(counting());
  });

  test("a period in which nothing has come has no entries", () => {
    expect(endedDay(counting({ accepted: 0, held: 0, rejected: 0 }), day(9))).toBeNull();
  });

  test("refused signals alone make an entry", () => {
    expect(endedDay(counting({ accepted: 0, held: 0 }), day(9))).toMatchObject({ rejected: 1 });
  });

  test("a clock that goes back opens no ended day again", () => {
    expect(endedDay(counting(), day(4))).toBeNull();
    expect(countingDay(day(5), day(4))).toBe(day(5));
  });

  test("a period that closes keeps its last day, unless it was idle", () => {
    expect(lastDay(counting())).toEqual(counting());
    expect(lastDay(counting({ accepted: 0, held: 0, rejected: 0 }))).toBeNull();
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
        const end = (ms: number): void => {
          const ended = endedDay(state, ms);
          if (ended !== null) written.push(ended);
        };
        for (const { afterMs, accepted, held } of arrived) {
          nowMs += afterMs;
          end(nowMs);
          state = { ...state, dayMs: countingDay(state.dayMs, nowMs) };
          state = { ...state, accepted: state.accepted + accepted, held: state.held + held };
        }
        nowMs += DAY_MS;
        end(nowMs);
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
