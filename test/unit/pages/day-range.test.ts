/** The range of days in the address of a list. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { uuidv7, uuidv7From } from "../../../src/platform/ids.ts";
import { readDayRange, shownRange } from "../../../src/pages/day-range.ts";

describe("a range of days", () => {
  test("begins with its first day and ends with the last one's end", () => {
    expect(readDayRange({ from: "2031-03-01", to: "2031-03-01" })).toEqual({
      from: "2031-03-01",
      to: "2031-03-01",
      sinceMs: Date.UTC(2031, 2, 1),
      untilMs: Date.UTC(2031, 2, 2),
    });
  });

  test.each(["", "yesterday", "2031-02-31", "2031-13-01", "2031-3-1", "0000-00-00", "2031-03-01T00:00"])(
    "has no bound for the invalid day %j",
    (day) => {
      const range = readDayRange({ from: day, to: day });
      expect([range.sinceMs, range.untilMs, shownRange(range)]).toEqual([null, null, {}]);
    },
  );
});

test("ids made before a time sort before its first id, all others after it", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 47 }), fc.integer({ min: 0, max: 2 ** 47 }), (madeMs, ms) => {
      const id = uuidv7(madeMs, new Uint8Array(10).fill(madeMs % 251));
      expect(id >= uuidv7From(ms)).toBe(madeMs >= ms);
    }),
  );
});
