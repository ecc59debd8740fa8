/** Notices about keys that end soon or receive no calls. */
import { describe, expect, test } from "vitest";
import { expiringDays, silentSinceMs, type KeyToWatch } from "../../../../src/domain/notifications/key-notices.ts";

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

describe("a notice about a key's end", () => {
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
  ])("in %s days has the stage %s", (days, stage) => {
    expect(endingIn(days)).toBe(stage);
  });

  test("is not sent for a key without an end", () => {
    expect(expiringDays(KEY, NOW)).toBeNull();
  });

  test("is not sent for a stage that was past when the key was created", () => {
    const createdAtMs = NOW;
    expect(endingIn(5, { createdAtMs })).toBeNull();
    expect(endingIn(1, { createdAtMs: NOW - 4 * DAY_MS })).toBe(1);
    expect(endingIn(0.5, { createdAtMs })).toBeNull();
  });

  test("is sent for a rotated key only on its last day, and only if it is still in use", () => {
    const rotatedAtMs = NOW - 6 * DAY_MS;
    expect(endingIn(7, { rotatedAtMs, lastUsedMs: NOW })).toBeNull();
    expect(endingIn(1, { rotatedAtMs, lastUsedMs: NOW })).toBe(1);
    expect(endingIn(1, { rotatedAtMs, lastUsedMs: rotatedAtMs })).toBeNull();
    expect(endingIn(1, { rotatedAtMs })).toBeNull();
  });
});

describe("a notice about a silent key", () => {
  const silent = (more: Partial<KeyToWatch>) => silentSinceMs({ ...KEY, silentAfterDays: 3, ...more }, NOW);

  test("is sent after the configured days without a call, from the last use or the creation on", () => {
    expect(silent({ lastUsedMs: NOW - 3 * DAY_MS })).toBe(NOW - 3 * DAY_MS);
    expect(silent({ lastUsedMs: NOW - 3 * DAY_MS + 1 })).toBeNull();
    expect(silent({ createdAtMs: NOW - 3 * DAY_MS })).toBe(NOW - 3 * DAY_MS);
    expect(silent({ createdAtMs: NOW - 10 * DAY_MS, lastUsedMs: NOW })).toBeNull();
  });

  test("is not sent if it is not configured, nor for a rotated key", () => {
    expect(silent({ silentAfterDays: null })).toBeNull();
    expect(silent({ rotatedAtMs: NOW - DAY_MS })).toBeNull();
  });
});
