/** Nothing is silent (design §1.3): which fields of a payload are not used, and why. */
import { expect, test } from "vitest";
import type { JsonObject } from "../../../../src/domain/json/json-value.ts";
import { problemsOf } from "../../../../src/domain/signal/normalise.ts";
import { timeProblemOf } from "../../../../src/domain/signal/occurred-at.ts";

const RECEIVED = Date.UTC(2026, 0, 10);
const found = (payload: JsonObject, traits: string | null = null) =>
  problemsOf(payload, { traits, time: timeProblemOf(payload, RECEIVED) });

test("a signal whose fields are all used has no problem", () => {
  expect(found({ event: "A" })).toBeUndefined();
  expect(found({ event: "A", email: "a@example.com", userId: 7, timestamp: RECEIVED })).toBeUndefined();
});

test("each field that is not used has its problem, and no other has one", () => {
  expect(found({ event: "A", email: "a@b@c" })).toEqual({ email: expect.stringContaining("email address") });
  expect(found({ event: "A", userId: "null" })).toEqual({ id: expect.stringContaining("`userId`") });
  expect(found({ event: "A", timestamp: "yesterday" })).toEqual({ time: expect.stringContaining("`timestamp`") });
  expect(found({ event: "A" }, "Of a group call.")).toEqual({ traits: "Of a group call." });
});
