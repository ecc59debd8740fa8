/** Charts as far as they are decided here: d3 has tests of its own. */
import { scaleUtc } from "d3-scale";
import { expect, test } from "vitest";
import { namedTimes } from "../../../src/pages/views/charts.tsx";

const HOUR = 3_600_000;
const TO = Date.parse("2031-03-14T10:30:00Z");

test("below a chart stand at least two times and at most as many as a phone has room for, whatever span it shows", () => {
  for (let hours = 1; hours < 24 * 800; hours += hours < 72 ? 1 : 24) {
    const named = namedTimes(scaleUtc([TO - hours * HOUR, TO], [0, 700]));
    expect(named.length, `${hours} hours`).toBeGreaterThanOrEqual(2);
    expect(named.length, `${hours} hours`).toBeLessThanOrEqual(6);
  }
});
