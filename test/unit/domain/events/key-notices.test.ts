/** When an admin is told that a key is about to end, or that nothing comes with it any more. */
import { describe, expect, test } from "vitest";
import { expiringDays, silentSinceMs, type KeyToWatch } from "../../../../src/domain/events/key-notices.ts";

const DAY_MS = 24 * 3_600_000;
const NOW = 1_000 * DAY_MS;
const KEY: KeyToWatch = {
  id: "key_1",
  createdAtMs: 0,
  endsAtMs: null,
  lastUsedMs: null,
  rotatedAtMs: null,
  silentAfterDays: null,
};
const endingIn = (days: number, more: Partial<KeyToWatch> = {}) =>
  expiringDays({ ...KEY, endsAtMs: NOW + days * DAY_MS, ...more }, NOW);

describe("the end of a key", () => {
  test.each([
    [31, null],
    [30, 30],
    [7.01, 30],
    [7, 7],
    [1.01, 7],
    [1, 1],
    [0.01, 1],
    [0, null],
    [-1, null],
  ])("in %s days is told as one in %s", (days, told) => {
    expect(endingIn(days)).toBe(told);
  });

  test("is not told of a key that has none", () => {
    expect(expiringDays(KEY, NOW)).toBeNull();
  });

  test("is not told ahead by more than the key was ever to live", () => {
    const createdAtMs = NOW;
    expect(endingIn(5, { createdAtMs })).toBeNull();
    expect(endingIn(1, { createdAtMs: NOW - 4 * DAY_MS })).toBe(1);
    expect(endingIn(0.5, { createdAtMs })).toBeNull();
  });

  test("of one that was rotated is told on its last day, and only if it is used since", () => {
    const rotatedAtMs = NOW - 6 * DAY_MS;
    expect(endingIn(7, { rotatedAtMs, lastUsedMs: NOW })).toBeNull();
    expect(endingIn(1, { rotatedAtMs, lastUsedMs: NOW })).toBe(1);
    expect(endingIn(1, { rotatedAtMs, lastUsedMs: rotatedAtMs })).toBeNull();
    expect(endingIn(1, { rotatedAtMs })).toBeNull();
  });
});

describe("a key's silence", () => {
  const silent = (more: Partial<KeyToWatch>) => silentSinceMs({ ...KEY, silentAfterDays: 3, ...more }, NOW);

  test("is told once it has lasted as many days as were chosen, from the last use or the creation on", () => {
    expect(silent({ lastUsedMs: NOW - 3 * DAY_MS })).toBe(NOW - 3 * DAY_MS);
    expect(silent({ lastUsedMs: NOW - 3 * DAY_MS + 1 })).toBeNull();
    expect(silent({ createdAtMs: NOW - 3 * DAY_MS })).toBe(NOW - 3 * DAY_MS);
    expect(silent({ createdAtMs: NOW - 10 * DAY_MS, lastUsedMs: NOW })).toBeNull();
  });

  test("is not told of a key for which nobody asked, nor of one that was rotated", () => {
    expect(silent({ silentAfterDays: null })).toBeNull();
    expect(silent({ rotatedAtMs: NOW - DAY_MS })).toBeNull();
  });
});
