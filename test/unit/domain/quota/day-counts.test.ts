/** Counts per day: of the latest days, whatever the order in which they come. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { addToDays, dayOf, latestDays } from "../../../../src/domain/quota/day-counts.ts";
import { DAYS_COUNTED } from "../../../../src/limits.ts";

test("a day begins at midnight UTC", () => {
  const midnight = Date.UTC(2026, 10, 21);
  expect(dayOf(midnight) - dayOf(midnight - 1)).toBe(1);
  expect(dayOf(midnight + 24 * 3_600_000 - 1)).toBe(dayOf(midnight));
});

test("of counts by day the latest day that has any comes first, then its count and those before it, back to the first that has any", () => {
  expect(addToDays("", new Map([[7, 1]]))).toBe("7,1");
  expect(addToDays("7,1", new Map([[7, 1]]))).toBe("7,2");
  expect(addToDays("7,2", new Map([[8, 5]]))).toBe("8,5,2");
  expect(addToDays("8,5,2", new Map([[8, 10]]))).toBe("8,15,2");
  expect(addToDays("8,15,2", new Map([[11, 1]]))).toBe("11,1,0,0,15,2");
  expect(addToDays("11,1,0,0,15,2", new Map([[11, -1]]))).toBe("8,15,2");
  expect(addToDays("8,15,2", new Map([[7, -2]]))).toBe("8,15");
});

test("no day's count falls below zero", () => {
  expect(addToDays("5,2", new Map([[5, -2]]))).toBe("");
  expect(addToDays("5,2", new Map([[5, -3]]))).toBe("");
  expect(addToDays("5,2,1", new Map([[4, -2]]))).toBe("5,2");
});

test("only counts of the days up to DAYS_COUNTED before the latest are kept", () => {
  const days = addToDays("100,1", new Map([[100 + DAYS_COUNTED - 1, 1]]));
  expect(days).toBe(`${100 + DAYS_COUNTED - 1},1${",0".repeat(DAYS_COUNTED - 2)},1`);
  expect(addToDays(days, new Map([[100 + DAYS_COUNTED, 1]]))).toBe(`${100 + DAYS_COUNTED},1,1`);
  // One that comes late is as old as one that came in time.
  expect(addToDays(`${100 + DAYS_COUNTED},1`, new Map([[100, 1]]))).toBe(`${100 + DAYS_COUNTED},1`);
});

describe("counts by day, whatever comes and goes", () => {
  /** Mostly of the latest days, as batches are; more goes than came. */
  const day = fc.oneof(fc.integer({ min: 98, max: 101 }), fc.integer({ min: 40, max: 140 }));
  const batch = fc
    .array(fc.tuple(day, fc.integer({ min: -3, max: 12 })), { minLength: 1, maxLength: 4 })
    .map((changes) => new Map(changes));
  const batches = fc.array(batch, { maxLength: 20 });

  /** Day → count, days without any left out. */
  function modelAdd(counts: ReadonlyMap<number, number>, changes: ReadonlyMap<number, number>): Map<number, number> {
    const sums = new Map(counts);
    for (const [at, by] of changes) sums.set(at, (sums.get(at) ?? 0) + by);
    const counted = [...sums].filter(([, count]) => count > 0);
    const latest = Math.max(...counted.map(([at]) => at));
    return new Map(counted.filter(([at]) => at > latest - DAYS_COUNTED));
  }

  test("are what a table of days and counts has", () => {
    fc.assert(
      fc.property(batches, (all) => {
        let days = "";
        let model = new Map<number, number>();
        for (const changes of all) {
          days = addToDays(days, changes);
          model = modelAdd(model, changes);
          expect(latestDays(days, 140, 101)).toEqual(Array.from({ length: 101 }, (_, ago) => model.get(40 + ago) ?? 0));
          const span = Math.max(...model.keys()) - Math.min(...model.keys()) + 1;
          expect(days === "" ? [] : days.split(",")).toHaveLength(model.size === 0 ? 0 : 1 + span);
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test("are the same in any order and split of what comes", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(60), fc.nat(3)), { maxLength: 20 }), fc.nat(20), (changes, at) => {
        const add = (days: string, some: readonly (readonly [number, number])[]) => {
          const sums = new Map<number, number>();
          for (const [of, by] of some) sums.set(of, (sums.get(of) ?? 0) + by);
          return addToDays(days, sums);
        };
        expect(add(add("", changes.slice(at)), changes.slice(0, at))).toBe(add("", changes));
      }),
    );
  });
});

test("the latest days are shown with zeros between, the oldest first", () => {
  expect(latestDays("10,1,0,3", 10, 4)).toEqual([0, 3, 0, 1]);
  expect(latestDays("10,1,0,3", 12, 4)).toEqual([0, 1, 0, 0]);
  expect(latestDays("10,1,0,3", 9, 3)).toEqual([0, 3, 0]);
  expect(latestDays("", 10, 2)).toEqual([0, 0]);
});
