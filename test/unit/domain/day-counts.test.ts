/** Counts of the latest days. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { addToDays, latestDays, dayOf } from "../../../src/domain/duration.ts";
import { DAYS_COUNTED } from "../../../src/limits.ts";

test("a day begins at midnight UTC", () => {
  const midnight = Date.UTC(2026, 10, 21);
  expect([midnight - 1, midnight, midnight + 24 * 3_600_000 - 1].map(dayOf)).toEqual([20_777, 20_778, 20_778]);
});

describe("counts by day", () => {
  test("are stored from the latest day with a count back to the first", () => {
    expect(addToDays("8,15,2", new Map([[11, 1]]))).toBe("11,1,0,0,15,2");
    expect(addToDays("11,1,0,0,15,2", new Map([[11, -1]]))).toBe("8,15,2");
  });

  test("equal a table of days and counts after any changes", () => {
    /** Mostly the latest days, like real batches; some changes remove more than was added. */
    const day = fc.oneof(fc.integer({ min: 98, max: 101 }), fc.integer({ min: 40, max: 140 }));
    const batch = fc
      .array(fc.tuple(day, fc.integer({ min: -3, max: 12 })), { minLength: 1, maxLength: 4 })
      .map((changes) => new Map(changes));
    fc.assert(
      fc.property(fc.array(batch, { maxLength: 20 }), (all) => {
        let days = "";
        let model = new Map<number, number>();
        for (const changes of all) {
          days = addToDays(days, changes);
          for (const [at, by] of changes) model.set(at, (model.get(at) ?? 0) + by);
          const counted = [...model].filter(([, count]) => count > 0);
          const latest = Math.max(...counted.map(([at]) => at));
          model = new Map(counted.filter(([at]) => at > latest - DAYS_COUNTED));
          expect(latestDays(days, 140, 101)).toEqual(Array.from({ length: 101 }, (_, ago) => model.get(40 + ago) ?? 0));
          const span = Math.max(...model.keys()) - Math.min(...model.keys()) + 1;
          expect(days === "" ? [] : days.split(",")).toHaveLength(model.size === 0 ? 0 : 1 + span);
        }
      }),
      { numRuns: 1_000 },
    );
  });
});
