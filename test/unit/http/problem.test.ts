/** Problem details: where a code is explained, when to send again, and how much of a detail is stored. */
import { describe, expect, test } from "vitest";
import { explanationOf, retryAfter, storedDetail } from "../../../src/http/problem.ts";

test.each([
  [0, "1"],
  [1, "1"],
  [1_000, "1"],
  [1_001, "2"],
  [60_000, "60"],
])("a sender that has to wait %d ms is asked for whole seconds, at least one: %s", (ms, seconds) => {
  expect(retryAfter(ms)).toEqual({ "retry-after": seconds });
});

test.each([
  ["event_missing", "/docs/senders/codes#event_missing"],
  ["not_found", "/docs/senders/codes#not_found"],
  ["method_not_allowed", "/docs/senders/codes#method_not_allowed"],
  ["slug_differs", "/docs/api/codes#slug_differs"],
])("the code %s is explained at %s", (code, address) => {
  expect(explanationOf(code)).toBe(address);
});

describe("the stored detail of a rejection", () => {
  test("is cut after 1,500 characters", () => {
    const detail = storedDetail({ code: "event_invalid", detail: "x".repeat(10_000) });
    expect(detail).toBe(`${"x".repeat(1_500)}…`);
  });

  test("of a code whose answers are all the same is the text of the answer", () => {
    expect(storedDetail({ code: "rate_limited", retryAfterMs: 1 })).toMatch(/^Requests came faster/);
  });
});
