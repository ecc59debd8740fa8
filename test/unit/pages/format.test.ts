/** Times in words. */
import { expect, test } from "vitest";
import { ago, later } from "../../../src/pages/kit/format.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

test.each([
  [10_000, "in less than a minute", "just now"],
  [59_000, "in 1 minute", "1 minute ago"],
  [59.6 * MINUTE, "in 1 hour", "1 hour ago"],
  [47 * HOUR, "in 2 days", "2 days ago"],
  [30 * DAY - 1_000, "in 30 days", "30 days ago"],
  [90 * DAY - 5_000, "in 90 days", "90 days ago"],
  [120 * DAY, "in 4 months", "4 months ago"],
  [3 * 365 * DAY, "in 3 years", "3 years ago"],
])("%i ms are rounded, and up to 90 days are days: %s, %s", (ms, future, past) => {
  const nowMs = Date.UTC(2031, 2, 4);
  expect([ago(nowMs + ms, nowMs), ago(nowMs - ms, nowMs)]).toEqual([future, past]);
});

test.each([
  [1_072, "+1.07 s"],
  [3 * MINUTE, "+3 min"],
  [26 * HOUR, "+26 h"],
  [9 * DAY, "+9 days"],
])("%i ms between two steps are %s", (ms, text) => {
  expect(later(ms)).toBe(text);
});
