/** Usage by day: the entry of a day, the curve of a period and the counts of each day. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DAY_MS, utcDay } from "../../../../src/domain/duration.ts";
import { NO_VERDICTS } from "../../../../src/domain/quota/quota.ts";
import {
  entryOf,
  signalsPerDay,
  usageCurve,
  verdictsPerDay,
  type UsageDay,
} from "../../../../src/domain/quota/usage-day.ts";

const START = Date.UTC(2031, 2, 1, 10);
const day = (number: number) => Date.UTC(2031, 2, number);
const entry = (number: number, accepted: number, held = 0, periodStartMs = START): UsageDay => ({
  ...NO_VERDICTS,
  periodStartMs,
  dayMs: day(number),
  accepted,
  held,
});

test("a day's entry has the counts of all verdicts; an idle period has none", () => {
  const rejected = { ...entry(5, 0), rejected: 1 };
  const ledger = { ...rejected, signalLimit: 100 };
  expect(entryOf(ledger)).toEqual(rejected);
  expect(entryOf(entry(5, 0, 1))).toEqual(entry(5, 0, 1));
  expect(entryOf(entry(5, 0))).toBeNull();
});

describe("the curve of a period", () => {
  test("begins with zero at the period's start, stays flat on idle days, and ends now", () => {
    const before = entry(1, 99, 0, START - 28 * DAY_MS);
    const now = { ...entry(5, 9, 3), nowMs: day(5) + 7 };
    const curve = usageCurve([before, entry(1, 2), entry(3, 5, 1)], START, now);
    expect(curve.map(({ atMs, accepted, held }) => [atMs, accepted, held])).toEqual([
      [START, 0, 0],
      [day(2), 2, 0],
      [day(3), 2, 0],
      [day(4), 5, 1],
      [day(5), 5, 1],
      [day(5) + 7, 9, 3],
    ]);
  });
});

test("the counts of a day with a release have no negative held count", () => {
  const days = verdictsPerDay([entry(1, 2, 5), entry(2, 6, 2)], day(1), day(4));
  expect(days.map(({ accepted, held }) => [accepted, held])).toEqual([
    [2, 5],
    [4, 0],
    [0, 0],
  ]);
});

describe("signals per day", () => {
  test("are the day's increase, zero on idle days", () => {
    const days = [entry(1, 2), entry(3, 5, 1), entry(4, 9), entry(5, 9)];
    expect(signalsPerDay(days, day(1), day(5))).toEqual([2, 0, 4, 3]);
    expect(signalsPerDay(days, day(2), day(4))).toEqual([0, 4]);
  });

  test("include both periods on the day in which one ends and the next begins", () => {
    const next = day(3) + 10;
    expect(signalsPerDay([entry(2, 7), entry(3, 9), entry(3, 4, 0, next)], day(2), day(4))).toEqual([7, 6]);
  });

  test("add up to all counted signals, for any arrivals", () => {
    const arrivals = fc.array(fc.record({ afterMs: fc.nat(3 * DAY_MS), accepted: fc.nat(50), held: fc.nat(50) }));
    fc.assert(
      fc.property(arrivals, (arrived) => {
        const written: UsageDay[] = [];
        let state = { ...entry(1, 0), dayMs: utcDay(START) };
        let nowMs = START;
        for (const { afterMs, accepted, held } of [...arrived, { afterMs: DAY_MS, accepted: 0, held: 0 }]) {
          nowMs += afterMs;
          const ended = utcDay(nowMs) > state.dayMs ? entryOf(state) : null;
          if (ended !== null) written.push(ended);
          state = {
            ...state,
            dayMs: utcDay(nowMs),
            accepted: state.accepted + accepted,
            held: state.held + held,
          };
        }
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
