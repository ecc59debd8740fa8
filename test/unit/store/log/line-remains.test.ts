/** The facts that a deletion, a purge and retention leave of a line (src/store/log/line.ts). */
import { describe, expect, test } from "vitest";
import { eachTrait } from "../../../../src/domain/signal/traits.ts";
import { COLUMNS, decodeFacts, encodeFacts } from "../../../../src/store/log/columns.ts";
import {
  afterDeletion,
  afterPurge,
  afterRetention,
  isDropped,
  type SignalFacts,
} from "../../../../src/store/log/line.ts";

const NOW = Date.UTC(2026, 5, 1);
/** A line with a value in each field. */
const FULL: SignalFacts = {
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
    templateVersion: 2,
    around: '{"key":"jane-member"}',
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
  timelineIds: ["user_id", "anonymous_id"],
  linkedAtMs: NOW + 2,
  linkedRulesVersion: 3,
  duplicateOf: "jane-original",
  sameId: true,
  rulesTried: 3,
  outcomes: [1, 2],
  excludedBy: "exc_1",
  problems: { traits: "Group traits that are not used: “jane-trait”." },
  mapped: true,
  topic: "jane-topic",
  deletedAtMs: null,
};
const PLACE_IN_THE_BOOKS = { id: "sig_1", keyId: "key_1", ordinal: 7, periodStartMs: NOW - 5, periodEndMs: NOW + 5 };

describe.each([
  ["after a deletion", (facts: SignalFacts) => afterDeletion(facts, NOW + 3)],
  ["after a purge", afterPurge],
  ["after retention", afterRetention],
])("a line %s", (_, after) => {
  test("has nothing of the person or their scores", () => {
    const left = after(FULL);
    expect(JSON.stringify(left)).not.toContain("jane");
    expect(left).toMatchObject({
      person: null,
      timelineIds: [],
      linkedAtMs: null,
      linkedRulesVersion: null,
      rulesTried: 0,
      outcomes: [],
      excludedBy: null,
      traits: {},
      mapped: false,
    });
    expect(left.admission).not.toHaveProperty("pathSource");
    expect(left.admission).not.toHaveProperty("idempotencyKey");
  });

  test("survives storing and reading", () => {
    const left = after(FULL);
    const cells = encodeFacts(left);
    const places = new Map(COLUMNS.map(({ name }, place) => [name, place] as const));
    expect(decodeFacts((name) => cells[places.get(name) ?? -1] ?? 0)).toEqual(left);
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
