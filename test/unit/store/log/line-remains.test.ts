/** Facts that a deletion, a purge and retention leave of a line (src/store/log/line.ts). */
import { describe, expect, test } from "vitest";
import { eachTrait } from "../../../../src/domain/signal/traits.ts";
import {
  afterDeletion,
  afterPurge,
  afterRetention,
  decodeFacts,
  encodeFacts,
  isDropped,
  placeOf,
  type Facts,
} from "../../../../src/store/log/line.ts";

const NOW = Date.UTC(2026, 5, 1);
/** A line with a value in each field. */
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
  occurred: { ms: NOW - 9, from: "timestamp" },
  kind: "signal",
  status: "held",
  event: "Visit",
  source: "jane-source",
  email: "jane-email",
  userId: "jane-user",
  anonymousId: "jane-visitor",
  traits: eachTrait((trait) => `jane-${trait}`),
  person: { personId: 17, by: "user_id" },
  listedBy: ["user_id", "anonymous_id"],
  linkedAtMs: NOW + 2,
  duplicateOf: "jane-original",
  rulesTried: 3,
  outcomes: [1, 2],
  deletedAtMs: null,
};
const PLACE_IN_THE_BOOKS = { id: "sig_1", keyId: "key_1", ordinal: 7, periodStartMs: NOW - 5, periodEndMs: NOW + 5 };

describe.each([
  ["after a deletion", (facts: Facts) => afterDeletion(facts, NOW + 3)],
  ["after a purge", afterPurge],
  ["after retention", afterRetention],
])("a line %s", (_, after) => {
  test("has nothing of the person or their scores", () => {
    const left = after(FULL);
    expect(JSON.stringify(left)).not.toContain("jane");
    expect(left).toMatchObject({
      person: null,
      listedBy: [],
      linkedAtMs: null,
      rulesTried: 0,
      outcomes: [],
      traits: {},
    });
    expect(left.admission).not.toHaveProperty("pathSource");
    expect(left.admission).not.toHaveProperty("idempotencyKey");
  });

  test("survives storing and reading", () => {
    const left = after(FULL);
    const cells = encodeFacts(left);
    expect(decodeFacts((name) => cells[placeOf(name)] ?? 0)).toEqual(left);
  });
});

test("a line keeps its event and its place in the books after a deletion or a purge", () => {
  for (const left of [afterDeletion(FULL, NOW + 3), afterPurge(FULL)]) {
    expect(left).toMatchObject({ event: "Visit", status: "purged", admission: PLACE_IN_THE_BOOKS });
    expect(isDropped(left)).toBe(false);
  }
});

test("a line that retention dropped has no id, key or event", () => {
  const left = afterRetention(FULL);
  expect(left).toMatchObject({ event: null, status: "released", admission: { id: "", keyId: "", ordinal: 7 } });
  expect(isDropped(left)).toBe(true);
});
