/** What the property tests of this folder rely on: no case goes on after its test. */
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

test("a case that is under way when the time is up is waited for, and none begins after it", async () => {
  const cases = { begun: 0, ended: 0 };
  const property = fc.asyncProperty(fc.nat(), async () => {
    cases.begun++;
    await oneMore();
    cases.ended++;
  });
  await assertForSoLong(property, { numRuns: 1_000, limitMs: 50, part: 1 });
  expect(cases).toEqual({ begun: 3, ended: 3 });
});

test("where they have not come upon what they are about, cases go on when the time is up", async () => {
  let cases = 0;
  const property = fc.asyncProperty(fc.nat(), async () => void cases++);
  await assertForSoLong(property, { numRuns: 1_000, limitMs: 0, isSeen: () => cases >= 7, part: 1 });
  expect(cases).toBe(7);
});

test("a short run has a share of the cases, and more until they meet what they are about", async () => {
  const casesUntil = async (seenAfter: number): Promise<number> => {
    let cases = 0;
    const property = fc.asyncProperty(fc.nat(), async () => void cases++);
    await assertForSoLong(property, { numRuns: 80, limitMs: 60_000, isSeen: () => cases >= seenAfter, part: 1 / 8 });
    return cases;
  };
  expect([await casesUntil(1), await casesUntil(50)]).toEqual([10, 50]);
});

test("a case that does not hold is told, also when the time is up before it is as small as can be", async () => {
  const property = fc.asyncProperty(fc.nat(), async () => {
    await oneMore();
    throw new Error("it does not hold");
  });
  await expect(assertForSoLong(property, { numRuns: 1_000, limitMs: 50, part: 1 })).rejects.toThrow("Property failed");
});
