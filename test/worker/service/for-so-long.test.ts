/** The helper for property tests with a time limit: no case continues after its test. */
import * as fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { assertForSoLong } from "../../support/for-so-long.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] });
});

afterEach(() => {
  vi.useRealTimers();
});

async function oneMore(): Promise<void> {
  vi.advanceTimersByTime(20);
  await new Promise((resolve) => setTimeout(resolve, 0));
}

test("a case in progress at the time limit is completed, and no further case starts", async () => {
  const cases = { begun: 0, ended: 0 };
  const property = fc.asyncProperty(fc.nat(), async () => {
    cases.begun++;
    await oneMore();
    cases.ended++;
  });
  await assertForSoLong(property, { numRuns: 1_000, limitMs: 50, part: 1 });
  expect(cases).toEqual({ begun: 3, ended: 3 });
});

test("cases continue after the time limit until they have reached their subject", async () => {
  let cases = 0;
  const property = fc.asyncProperty(fc.nat(), async () => void cases++);
  await assertForSoLong(property, { numRuns: 1_000, limitMs: 0, isSeen: () => cases >= 7, part: 1 });
  expect(cases).toBe(7);
});

test("a short run does its share of the cases, and more until they reach their subject", async () => {
  const casesUntil = async (seenAfter: number): Promise<number> => {
    let cases = 0;
    const property = fc.asyncProperty(fc.nat(), async () => void cases++);
    await assertForSoLong(property, { numRuns: 80, limitMs: 60_000, isSeen: () => cases >= seenAfter, part: 1 / 8 });
    return cases;
  };
  expect([await casesUntil(1), await casesUntil(50)]).toEqual([10, 50]);
});

test("a failing case is reported even if the time limit ends its shrinking", async () => {
  const property = fc.asyncProperty(fc.nat(), async () => {
    await oneMore();
    throw new Error("it does not hold");
  });
  await expect(assertForSoLong(property, { numRuns: 1_000, limitMs: 50, part: 1 })).rejects.toThrow("Property failed");
});
