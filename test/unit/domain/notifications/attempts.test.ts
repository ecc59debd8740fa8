/** The outcome of delivery attempts, and when a destination is switched off. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  failedAgain,
  hasFailedTooLong,
  decideAttempt,
  notBeforeMs,
  RETRY_DELAYS_MS,
  RETRY_JITTER,
  RETRY_AFTER_MAX_MS,
  DESTINATION_FAILING_MS,
  FAILURE_RUN_GAP_MS,
  type AttemptResult,
  type Failing,
} from "../../../../src/domain/notifications/attempts.ts";

const DAY_MS = 24 * 3_600_000;
const FAILED: AttemptResult = { atMs: 0, tookMs: 1, status: 500, error: "no", answer: null, retryAfterMs: null };

describe("a delivery attempt", () => {
  test("ends as delivered after any number of failures", () => {
    expect(decideAttempt({ ...FAILED, status: 204, error: null }, 9, 0, 0.5)).toEqual({ outcome: "delivered" });
  });

  test("ends the destination on a 410, even as the last attempt", () => {
    for (const failed of [1, 10])
      expect(decideAttempt({ ...FAILED, status: 410 }, failed, 0, 0)).toEqual({ outcome: "gone" });
  });

  test("is retried by the schedule, never earlier and at most the jitter later", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 9 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (nth, random) => {
          const decided = decideAttempt(FAILED, nth, 1_000, random);
          const delayMs = RETRY_DELAYS_MS[nth - 1] ?? 0;
          if (decided.outcome !== "again") throw new Error(decided.outcome);
          expect(decided.atMs - 1_000).toBeGreaterThanOrEqual(delayMs);
          expect(decided.atMs - 1_000).toBeLessThanOrEqual(delayMs * (1 + RETRY_JITTER));
        },
      ),
    );
  });

  test("gives up at the tenth failure, after about three days", () => {
    expect(decideAttempt(FAILED, 10, 0, 0)).toEqual({ outcome: "given_up" });
    const days = RETRY_DELAYS_MS.reduce((sum, ms) => sum + ms, 0) / DAY_MS;
    expect(days).toBeGreaterThan(3);
    expect(days * (1 + RETRY_JITTER)).toBeLessThan(4);
  });

  test("respects a later Retry-After, up to a day", () => {
    const at = (retryAfterMs: number) => decideAttempt({ ...FAILED, retryAfterMs }, 1, 0, 0);
    expect(at(60_000)).toEqual({ outcome: "again", atMs: 60_000 });
    expect(at(1_000)).toEqual({ outcome: "again", atMs: 5_000 });
    expect(at(1e12)).toEqual({ outcome: "again", atMs: RETRY_AFTER_MAX_MS });
  });
});

test("a failing receiver is left alone from its second failure on, at most for the longest delay or its Retry-After", () => {
  const waits = [1, 2, 3, 99].map((failures) => notBeforeMs(FAILED, failures, 1_000, 0));
  expect(waits).toEqual([0, 6_000, 301_000, 1_000 + DAY_MS]);
  expect(notBeforeMs(FAILED, 2, 1_000, 0.5)).toBe(1_000 + 5_000 * (1 + RETRY_JITTER / 2));
  expect([1, 2].map((failures) => notBeforeMs({ ...FAILED, retryAfterMs: 9_000 }, failures, 0, 0))).toEqual([
    9_000, 9_000,
  ]);
});

describe("a run of failures", () => {
  const run = (times: readonly number[]) =>
    times.reduce<Failing | null>((failing, time) => failedAgain(failing, time), null);

  test("switches a destination off after five days of failures, not before", () => {
    expect(hasFailedTooLong(run([0, 1, 2, 3, 4, 5].map((day) => day * DAY_MS)) ?? { sinceMs: 0, lastMs: 0 })).toBe(
      true,
    );
    expect(hasFailedTooLong(run([0, 1, 2, 3, 4, 4.99].map((day) => day * DAY_MS)) ?? { sinceMs: 0, lastMs: 0 })).toBe(
      false,
    );
  });

  test("starts again after a silence, so that rare failures never switch a destination off", () => {
    expect(run([0, 30 * DAY_MS])).toEqual({ sinceMs: 30 * DAY_MS, lastMs: 30 * DAY_MS });
    fc.assert(
      fc.property(fc.array(fc.integer({ min: FAILURE_RUN_GAP_MS + 1, max: 90 * DAY_MS })), (pauses) => {
        let now = 0;
        const failing = run([0, ...pauses.map((pause) => (now += pause))]);
        expect(failing && hasFailedTooLong(failing)).toBe(false);
      }),
    );
  });

  test("survives the longest delay of the schedule with its jitter", () => {
    expect(Math.max(...RETRY_DELAYS_MS) * (1 + RETRY_JITTER)).toBeLessThan(FAILURE_RUN_GAP_MS);
    expect(RETRY_AFTER_MAX_MS).toBeLessThan(FAILURE_RUN_GAP_MS);
    expect(DESTINATION_FAILING_MS).toBe(5 * DAY_MS);
  });
});
