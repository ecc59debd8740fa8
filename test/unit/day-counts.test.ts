/** Counts per day: of the latest days, whatever the order in which they come. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { addToDays, dayOf, latestDays } from "../../src/domain/day-counts.ts";
import { DAYS_COUNTED } from "../../src/limits.ts";

test("a day begins at midnight UTC", () => {
  const midnight = Date.UTC(2026, 10, 21);
  expect(dayOf(midnight) - dayOf(midnight - 1)).toBe(1);
  expect(dayOf(midnight + 24 * 3_600_000 - 1)).toBe(dayOf(midnight));
});

test("days without any are left out, and none falls below zero", () => {
  expect(addToDays({ "5": 2 }, new Map([[5, -2]]))).toEqual({});
  expect(addToDays({ "5": 2 }, new Map([[5, -3]]))).toEqual({});
  expect(addToDays({}, new Map([[7, 1]]))).toEqual({ "7": 1 });
});

test("only the days up to DAYS_COUNTED before the latest are kept", () => {
  const days = addToDays({ "100": 1 }, new Map([[100 + DAYS_COUNTED - 1, 1]]));
  expect(days).toEqual({ "100": 1, [100 + DAYS_COUNTED - 1]: 1 });
  expect(addToDays(days, new Map([[100 + DAYS_COUNTED, 1]]))).toEqual({
    [100 + DAYS_COUNTED - 1]: 1,
    [100 + DAYS_COUNTED]: 1,
  });
  // One that comes late is as old as one that came in time.
  expect(addToDays({ [100 + DAYS_COUNTED]: 1 }, new Map([[100, 1]]))).toEqual({ [100 + DAYS_COUNTED]: 1 });
});

test("any order and split of what comes gives the same", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(60), fc.nat(3)), { maxLength: 20 }), fc.nat(20), (changes, at) => {
      const add = (days: Record<string, number>, some: readonly (readonly [number, number])[]) => {
        const sums = new Map<number, number>();
        for (const [day, by] of some) sums.set(day, (sums.get(day) ?? 0) + by);
        return addToDays(days, sums);
      };
      const split = add(add({}, changes.slice(at)), changes.slice(0, at));
      expect(JSON.stringify(split)).toBe(JSON.stringify(add({}, changes)));
    }),
  );
});

test("the latest days are shown with zeros between, the oldest first", () => {
  expect(latestDays({ "8": 3, "10": 1 }, 10, 4)).toEqual([0, 3, 0, 1]);
});
