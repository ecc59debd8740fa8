/** Counts of the latest days. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { addToDays, dayOf, latestDays } from "../../../../src/domain/quota/day-counts.ts";
import { DAYS_COUNTED } from "../../../../src/limits.ts";

test("a day begins at midnight UTC", () => {
  const midnight = Date.UTC(2026, 10, 21);
  expect(dayOf(midnight) - dayOf(midnight - 1)).toBe(1);
  expect(dayOf(midnight + 24 * 3_600_000 - 1)).toBe(dayOf(midnight));
});

test("counts by day are stored from the latest day with a count back to the first", () => {
  expect(addToDays("", new Map([[7, 1]]))).toBe("7,1");
  expect(addToDays("7,1", new Map([[7, 1]]))).toBe("7,2");
  expect(addToDays("7,2", new Map([[8, 5]]))).toBe("8,5,2");
  expect(addToDays("8,5,2", new Map([[8, 10]]))).toBe("8,15,2");
  expect(addToDays("8,15,2", new Map([[11, 1]]))).toBe("11,1,0,0,15,2");
  expect(addToDays("11,1,0,0,15,2", new Map([[11, -1]]))).toBe("8,15,2");
  expect(addToDays("8,15,2", new Map([[7, -2]]))).toBe("8,15");
});

describe("counts by day, after any changes", () => {
  /** Mostly the latest days, like real batches; some changes remove more than was added. */
  const day = fc.oneof(fc.integer({ min: 98, max: 101 }), fc.integer({ min: 40, max: 140 }));
  const batch = fc
    .array(fc.tuple(day, fc.integer({ min: -3, max: 12 })), { minLength: 1, maxLength: 4 })
    .map((changes) => new Map(changes));
  const batches = fc.array(batch, { maxLength: 20 });

  /** Day → count, without days that have none. */
  function modelAdd(counts: ReadonlyMap<number, number>, changes: ReadonlyMap<number, number>): Map<number, number> {
    const sums = new Map(counts);
    for (const [at, by] of changes) sums.set(at, (sums.get(at) ?? 0) + by);
    const counted = [...sums].filter(([, count]) => count > 0);
    const latest = Math.max(...counted.map(([at]) => at));
    return new Map(counted.filter(([at]) => at > latest - DAYS_COUNTED));
  }

  test("equal a table of days and counts", () => {
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

  test("do not depend on the order of the changes", () => {
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

test("the latest days include zeros, the oldest first", () => {
  expect(latestDays("10,1,0,3", 10, 4)).toEqual([0, 3, 0, 1]);
  expect(latestDays("10,1,0,3", 12, 4)).toEqual([0, 1, 0, 0]);
  expect(latestDays("10,1,0,3", 9, 3)).toEqual([0, 3, 0]);
  expect(latestDays("", 10, 2)).toEqual([0, 0]);
});
