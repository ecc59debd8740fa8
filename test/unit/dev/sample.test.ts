import { expect, test } from "vitest";
import { DAY_MS } from "../../../src/domain/duration.ts";
import { sampleHours } from "../../../src/dev/sample.ts";

const KEYS = { campaigns: "sk_1", crm: { key: "sk_2", secret: "" }, accounts: "sk_3", retired: "sk_4" };
/** Two weeks in steps of nine hours and a minute, across the end of a month. */
const TIMES = Array.from({ length: 37 }, (_, n) => Date.UTC(2027, 1, 21) + n * 541 * 60_000);

const signalsOf = ({ calls }: { calls: { body: unknown }[] }): number =>
  calls.map(({ body }) => [JSON.parse(String(body))].flat().length).reduce((sum, count) => sum + count, 0);

test("the sample has as many signals on every day and at every time of day", () => {
  const totals = TIMES.map((nowMs) => sampleHours(nowMs, KEYS).reduce((sum, hour) => sum + signalsOf(hour), 0));
  expect(new Set(totals).size).toBe(1);
});

test("the sample ends before now, is less than a billing period long, and has signals on every day", () => {
  for (const nowMs of TIMES) {
    const hours = sampleHours(nowMs, KEYS);
    const ages = hours.map(({ atMs }) => (nowMs - atMs) / DAY_MS);
    expect(Math.min(...ages)).toBeGreaterThan(0);
    expect(Math.max(...ages)).toBeLessThanOrEqual(28);
    expect(Math.min(...hours.map(signalsOf))).toBeGreaterThan(0);
  }
});

test("a weekend day of the sample has less than half of a weekday's signals", () => {
  for (const nowMs of TIMES) {
    const byDay = Map.groupBy(sampleHours(nowMs, KEYS).slice(1), ({ atMs }) => new Date(atMs).getUTCDay() % 6 === 0);
    const average = (isWeekend: boolean): number => {
      const counts = (byDay.get(isWeekend) ?? []).map(signalsOf);
      return counts.reduce((sum, count) => sum + count, 0) / counts.length;
    };
    expect(average(true)).toBeLessThan(average(false) / 2);
  }
});
