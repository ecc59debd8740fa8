/** The helper for property tests with a time limit: no case continues after its test. */
import * as fc from "fast-check";
import { expect, onTestFinished, test, vi } from "vitest";
import { assertForSoLong } from "../../support/for-so-long.ts";

/** A case that takes 20 ms. */
async function work(): Promise<void> {
  vi.advanceTimersByTime(20);
  await Promise.resolve();
}

test("completes the case in progress at the time limit, starts no further case, and reports a failure", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  onTestFinished(() => void vi.useRealTimers());
  const cases = { begun: 0, ended: 0 };
  const property = fc.asyncProperty(fc.nat(), async () => {
    cases.begun++;
    await work();
    cases.ended++;
  });
  await assertForSoLong(property, { numRuns: 1_000, limitMs: 50, part: 1 });
  expect(cases).toEqual({ begun: 3, ended: 3 });
  const failing = fc.asyncProperty(fc.nat(), async () => {
    await work();
    throw new Error("it does not hold");
  });
  await expect(assertForSoLong(failing, { numRuns: 1_000, limitMs: 50, part: 1 })).rejects.toThrow("Property failed");
});

test.each([
  ["after the time limit, until they reach their subject", { numRuns: 1_000, limitMs: 0, part: 1 }, 7, 7],
  ["up to the share of a short run", { numRuns: 80, limitMs: 60_000, part: 1 / 8 }, 1, 10],
  ["beyond the share, until they reach their subject", { numRuns: 80, limitMs: 60_000, part: 1 / 8 }, 50, 50],
])("runs cases %s", async (_, limits, seenAfter, expected) => {
  let cases = 0;
  const property = fc.asyncProperty(fc.nat(), async () => void cases++);
  await assertForSoLong(property, { ...limits, isSeen: () => cases >= seenAfter });
  expect(cases).toBe(expected);
});
