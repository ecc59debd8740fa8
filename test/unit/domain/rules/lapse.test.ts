/** The day on which points lapse. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { DAY_MS } from "../../../../src/domain/duration.ts";
import { lapseDayOf, POINTS_LAST_DAYS } from "../../../../src/domain/rules/mapping-rule.ts";

const lastDays = fc.constantFrom(...POINTS_LAST_DAYS);

test.each([
  ["2026-04-02T00:00:00.000Z", 30, "2026-05-03T00:00:00.000Z"],
  ["2026-04-02T23:59:59.999Z", 30, "2026-05-03T00:00:00.000Z"],
  ["2024-02-28T12:00:00.000Z", 365, "2025-02-28T00:00:00.000Z"],
  ["2025-02-28T12:00:00.000Z", 365, "2026-03-01T00:00:00.000Z"],
] as const)("points of %s that count for %s days lapse at %s", (occurred, days, lapse) => {
  expect(new Date(lapseDayOf(Date.parse(occurred), days) * DAY_MS).toISOString()).toBe(lapse);
});

// Only one whole day is in this range.
test("points count for the full number of days after the signal, and for less than one day more", () => {
  fc.assert(
    fc.property(fc.date({ noInvalidDate: true }), lastDays, (occurred, days) => {
      const counted = lapseDayOf(occurred.getTime(), days) * DAY_MS - occurred.getTime();
      expect(counted).toBeGreaterThan(days * DAY_MS);
      expect(counted).toBeLessThanOrEqual((days + 1) * DAY_MS);
    }),
  );
});
