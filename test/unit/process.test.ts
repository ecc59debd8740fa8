/** Design §8.2: by what the consumer lets the store find a signal's duplicates. */
import { describe, expect, test } from "vitest";
import { compileRules } from "../../src/domain/rules/mapping-rule.ts";
import type { CompiledRules, MappingCondition, MappingRule } from "../../src/domain/rules/mapping-rule.ts";
import { compileTemplate } from "../../src/domain/accounts/payload-template.ts";
import { DUPLICATE_WINDOW_WITH_ID_MS } from "../../src/limits.ts";
import type { Envelope } from "../../src/wire/message.ts";
import { processSignal } from "../../src/queue/process.ts";

const template = compileTemplate([
  { target: "external_id", path: "id", type: "string", required: true },
  { target: "plan", path: "plan", type: "string", required: false },
]);
const workings = {
  rules: compileRules([]),
  templates: new Map([
    ["key_1", template],
    ["key_2", template],
  ]),
};
const AT = Date.UTC(2026, 0, 10);

function processed(envelope: Partial<Envelope>, payload: unknown, at = AT, rules = workings.rules) {
  const row = { row: 1, at, period_start: AT, period_end: AT + 1, limit: 10, first: 1, count: 1, accepted: 1 };
  const { work } = processSignal(
    {
      envelope: { id: "sig_1", key: "key_1", ...envelope },
      row,
      verdict: "accepted",
      ordinal: 1,
      endpoint: envelope.endpoint ?? "signal_staging",
      payload: JSON.stringify(payload),
    },
    { ...workings, rules },
  );
  return work;
}

function workOf(envelope: Partial<Envelope>, payload: unknown, at = AT) {
  const work = processed(envelope, payload, at);
  if (work.kind === "dead") throw new Error(work.reason);
  return work;
}

const update = (envelope: Partial<Envelope>, plan = "pro", at = AT) =>
  workOf({ endpoint: "product_org", ...envelope }, { id: "a1", plan }, at);
const hashOf = (...sent: Parameters<typeof update>) => update(...sent).contentHash;

test("§8.5 a signal for which the rules take too many steps is a dead letter that says so, with or without an email", () => {
  // Each reads all elements by itself.
  const ruleOn = (path: string): MappingRule => {
    const conditions: MappingCondition[] = [{ path, operator: "not_exists" }];
    return { id: path, version: 1, event: "*", match: "all", conditions, scoringSignal: "s", points: 1 };
  };
  const rules = Array.from({ length: 60 }, (_, n) => ruleOn(`properties.a[].b${n}`));
  const work = (elements: number, compiled: CompiledRules, more: object) =>
    processed(
      {},
      { event: "e", properties: { a: Array.from({ length: elements }, () => ({})) }, ...more },
      AT,
      compiled,
    );
  const compiled = compileRules(rules);
  for (const who of [{ email: "a@example.com" }, { anonymousId: "a-1" }]) {
    for (const all of [compiled, compileRules([...rules, ruleOn("email")])]) {
      expect(work(1_000, all, who)).toMatchObject({ kind: "dead", reason: expect.stringContaining("50000 steps") });
      expect(work(10, all, who)).toMatchObject({ kind: "signal" });
    }
  }
  expect(work(1_000, compiled, { type: "identify", userId: "u-1" })).toMatchObject({ kind: "identify" });
});

describe("§8.2 an account update", () => {
  test("is no duplicate by its content", () =>
    expect(update({})).toEqual({
      kind: "account",
      account: { externalId: "a1", fields: { plan: "pro" }, attributes: {} },
      contentHash: null,
      duplicateWindowMs: 0,
    }));

  test("is one by its Idempotency-Key, whatever it says, whenever it comes within 7 days", () => {
    expect(update({ idem: "k1:0" }).duplicateWindowMs).toBe(DUPLICATE_WINDOW_WITH_ID_MS);
    expect(hashOf({ idem: "k1:0" })).not.toBeNull();
    expect(hashOf({ idem: "k1:0" }, "free", AT + 6 * 24 * 3_600_000)).toBe(hashOf({ idem: "k1:0" }));
  });

  test("is another one with another key, at another place in the body, or of another API key", () => {
    const hashes = [{ idem: "k1:0" }, { idem: "k2:0" }, { idem: "k1:1" }, { idem: "k1:0", key: "key_2" }];
    expect(new Set(hashes.map((envelope) => hashOf(envelope))).size).toBe(hashes.length);
  });

  test("has the hash that a signal with its Idempotency-Key has", () => {
    const signal = workOf({ idem: "k1:0" }, { event: "A", email: "jane@example.com" });
    const { contentHash, duplicateWindowMs } = update({ idem: "k1:0" });
    expect(signal).toMatchObject({ kind: "signal", contentHash, duplicateWindowMs });
  });
});

describe("§8.2 a signal", () => {
  test("that can be no duplicate has neither hash nor window", () =>
    expect(workOf({}, { event: "A" })).toMatchObject({ contentHash: null, duplicateWindowMs: 0 }));
});
