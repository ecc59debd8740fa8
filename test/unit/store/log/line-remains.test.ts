/** What is left of a line (src/store/log/line-remains.ts), whatever it said of its person. */
import { describe, expect, test } from "vitest";
import { eachTrait } from "../../../../src/domain/signal/traits.ts";
import { decodeFacts, encodeFacts, placeOf } from "../../../../src/store/log/line-cells.ts";
import { afterDeletion, afterPurge, afterRetention, isDropped } from "../../../../src/store/log/line-remains.ts";
import type { Facts } from "../../../../src/store/log/line.ts";

const NOW = Date.UTC(2026, 5, 1);
/** A line that says all that a line can say. */
const FULL: Facts = {
  admission: {
    id: "sig_1",
    keyId: "key_1",
    endpoint: "signal_staging",
    verdict: "held",
    ordinal: 7,
    signalLimit: 10,
    receivedAtMs: NOW,
    periodStartMs: NOW - 5,
    periodEndMs: NOW + 5,
    pathSource: "jane-path",
    idempotencyKey: "jane-key",
  },
  recordedAtMs: NOW + 1,
  kind: "signal",
  status: "held",
  event: "Visit",
  source: "jane-source",
  email: "jane-email",
  userId: "jane-user",
  anonymousId: "jane-visitor",
  traits: eachTrait((trait) => `jane-${trait}`),
  owner: { personId: 17, by: "user_id" },
  listedBy: ["user_id", "anonymous_id"],
  linkedAtMs: NOW + 2,
  duplicateOf: "jane-original",
  rulesTried: 3,
  outcomes: [1, 2],
  deletedAtMs: null,
};
const PLACE_IN_THE_BOOKS = { id: "sig_1", keyId: "key_1", ordinal: 7, periodStartMs: NOW - 5, periodEndMs: NOW + 5 };

describe.each([
  ["after the deletion of its person", (facts: Facts) => afterDeletion(facts, NOW + 3)],
  ["after the end of its period", afterPurge],
  ["after the days for which it is kept", afterRetention],
])("what is left of a line %s", (_, after) => {
  test("says nothing of the person, nor of what they scored", () => {
    const left = after(FULL);
    expect(JSON.stringify(left)).not.toContain("jane");
    expect(left).toMatchObject({
      owner: null,
      listedBy: [],
      linkedAtMs: null,
      rulesTried: 0,
      outcomes: [],
      traits: {},
    });
    expect(left.admission).not.toHaveProperty("pathSource");
    expect(left.admission).not.toHaveProperty("idempotencyKey");
  });

  test("is stored and read back as it is", () => {
    const left = after(FULL);
    const cells = encodeFacts(left);
    expect(decodeFacts((name) => cells[placeOf(name)] ?? 0)).toEqual(left);
  });
});

test("A line keeps its event and its place in the books when its person is deleted, or its period ends", () => {
  for (const left of [afterDeletion(FULL, NOW + 3), afterPurge(FULL)]) {
    expect(left).toMatchObject({ event: "Visit", status: "purged", admission: PLACE_IN_THE_BOOKS });
    expect(isDropped(left)).toBe(false);
  }
});

test("A line that retention has dropped has neither id, key nor event", () => {
  const left = afterRetention(FULL);
  expect(left).toMatchObject({ event: null, status: "released", admission: { id: "", keyId: "", ordinal: 7 } });
  expect(isDropped(left)).toBe(true);
});
