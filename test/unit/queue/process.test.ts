/** Design §8.2: the duplicate keys that the consumer gives to the store, and the outcome of each signal. */
import { describe, expect, test } from "vitest";
import type { MappingCondition } from "../../../src/domain/rules/comparators.ts";
import { compileRules, type CompiledRules, type MappingRule } from "../../../src/domain/rules/mapping-rule.ts";
import { compileKeyTemplate } from "../../../src/domain/template/key-template.ts";
import { DUPLICATE_WINDOW_WITH_ID_MS } from "../../../src/limits.ts";
import { readAdmission, type CallHead, type ReceivedRow, type ReceivedSignal } from "../../../src/wire/message.ts";
import { givenUpSignal, processRows, processSignal, rowsToRecord } from "../../../src/queue/process.ts";

const template = compileKeyTemplate("product_org", {
  firstKeyId: "key_1",
  version: 1,
  template: [
    { target: "external_id", path: "id", type: "string", required: true },
    { target: "plan", path: "plan", type: "string", required: false },
  ],
});
const input = {
  rules: compileRules([]),
  templates: new Map([
    ["key_1 1", template],
    ["key_2 1", template],
  ]),
};
const AT = Date.UTC(2026, 0, 10);

/** @param payload a text is processed as it is. */
function processed(head: Partial<CallHead>, payload: unknown, at = AT, rules = input.rules) {
  const row = { row: 1, at, period_start: AT, period_end: AT + 1, limit: 10, first: 1, count: 1, accepted: 1 };
  const admission = readAdmission(row, { key: "key_1", ...head }, { id: "sig_1" }, 0);
  const text = typeof payload === "string" ? payload : JSON.stringify(payload);
  return processSignal({ admission, payload: text }, { ...input, rules }).work;
}

function workOf(head: Partial<CallHead>, payload: unknown, at = AT) {
  const work = processed(head, payload, at);
  if (work.kind === "dead") throw new Error(work.reason);
  return work;
}

const update = (head: Partial<CallHead>, plan = "pro", at = AT) =>
  workOf({ endpoint: "product_org", template: 1, ...head }, { id: "a1", plan }, at);
const hashOf = (...sent: Parameters<typeof update>) => update(...sent).contentHash;

test("§8.5 makes a signal with too many rule steps a dead letter with a reason, with and without an email", () => {
  // Each condition reads all elements separately.
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
  test("is never a duplicate because of its content", () =>
    expect(update({})).toEqual({
      kind: "account",
      account: { externalId: "a1", fields: { plan: "pro" }, attributes: {} },
      contentHash: null,
      duplicateWindowMs: 0,
    }));

  test("is a duplicate because of its Idempotency-Key within 7 days, regardless of its content", () => {
    expect(update({ idem: "k1:0" }).duplicateWindowMs).toBe(DUPLICATE_WINDOW_WITH_ID_MS);
    expect(hashOf({ idem: "k1:0" })).not.toBeNull();
    expect(hashOf({ idem: "k1:0" }, "free", AT + 6 * 24 * 3_600_000)).toBe(hashOf({ idem: "k1:0" }));
  });

  test("is no duplicate with another Idempotency-Key, index or API key", () => {
    const hashes = [{ idem: "k1:0" }, { idem: "k2:0" }, { idem: "k1:1" }, { idem: "k1:0", key: "key_2" }];
    expect(new Set(hashes.map((head) => hashOf(head))).size).toBe(hashes.length);
  });

  test("has the same hash as a signal with its Idempotency-Key", () => {
    const signal = workOf({ idem: "k1:0" }, { event: "A", email: "jane@example.com" });
    const { contentHash, duplicateWindowMs } = update({ idem: "k1:0" });
    expect(signal).toMatchObject({ kind: "signal", contentHash, duplicateWindowMs });
  });
});

test("§8.2 a signal that cannot be a duplicate has neither hash nor window", () =>
  expect(workOf({}, { event: "A" })).toMatchObject({ contentHash: null, duplicateWindowMs: 0 }));

describe("the signals of a batch", () => {
  const received = (count: number, payload: object): ReceivedRow[] =>
    [1, 2].map((number) => {
      const row = {
        row: number,
        at: AT,
        period_start: AT,
        period_end: AT + 1,
        limit: 10,
        first: 1,
        count,
        accepted: count,
      };
      const signals = Array.from({ length: count }, (_, index) => ({
        admission: readAdmission(row, { key: "key_1" }, { id: `sig_${number}_${index}` }, index),
        payload: JSON.stringify(payload),
      }));
      return { row, signals };
    });
  const process = async (rows: ReceivedRow[], compiled: CompiledRules) => {
    let turns = 0;
    const others = () => Promise.resolve(void turns++);
    return { toRecord: await processRows(rows, { ...input, rules: compiled }, others), turns: () => turns };
  };

  test("are processed in order, and let other calls run if their rules take long", async () => {
    const conditions: MappingCondition[] = [{ path: "properties.a[]", operator: "equals", value: "x" }];
    const rule: MappingRule = {
      id: "r",
      version: 1,
      event: "*",
      match: "all",
      conditions,
      scoringSignal: "s",
      points: 1,
    };
    const rows = received(1_000, { event: "A", properties: { a: Array.from({ length: 900 }, () => 1) } });
    const { toRecord, turns } = await process(rows, compileRules([rule]));
    expect(toRecord.map(({ row, signals }) => [row, signals.map(({ admission }) => admission.id)])).toEqual(
      rows.map(({ row, signals }) => [row.row, signals.map(({ admission }) => admission.id)]),
    );
    // 2,000 signals of some 2,700 steps, half a million a turn.
    expect(turns()).toBe(10);
  });

  test("do not pause for ordinary rules", async () => {
    const { turns } = await process(received(1_000, { event: "A" }), compileRules([]));
    expect(turns()).toBe(0);
  });
});

test("keeps rows, the order of signals, admissions and payloads", () => {
  const row = { row: 3, at: AT, period_start: AT - 5, period_end: AT + 5, limit: 10, first: 7, count: 2, accepted: 0 };
  const signals = ["sig_a", "sig_b"].map((id, index): ReceivedSignal => {
    const head = { key: "key_1", source: "web", idem: "k:0" };
    return { admission: readAdmission(row, head, { id }, index), payload: `{"event":"${id}"}` };
  });
  const reason = "Again and again";
  for (const process of [
    (signal: ReceivedSignal) => processSignal(signal, input),
    (signal: ReceivedSignal) => givenUpSignal(signal, reason),
  ]) {
    expect(rowsToRecord([{ row, signals }], process)).toMatchObject([{ row: 3, signals }]);
  }
  expect(signals.map((signal) => givenUpSignal(signal, reason).work)).toEqual([
    { kind: "dead", reason },
    { kind: "dead", reason },
  ]);
});

describe("a signal that cannot be processed is a dead letter with a reason:", () => {
  const reasonOf = (head: Partial<CallHead>, payload: unknown): string => {
    const work = processed(head, payload);
    return work.kind === "dead" ? work.reason : "";
  };

  test("an account update of a key without a template, without an object, or that does not fit the template", () => {
    const account = { endpoint: "product_org", template: 1 } as const;
    expect(reasonOf({ ...account, key: "key_9" }, { id: "a1" })).toBe(
      "The payload template of its API key is no longer stored. A key keeps its 20 newest versions, until 90 days after its end.",
    );
    expect(reasonOf(account, ["a1"])).toBe("Could not be processed: Error: an account update is a JSON object");
    expect(reasonOf(account, { plan: "pro" })).toMatch(/^Could not be processed: Error: `id` .* is missing\.$/);
  });

  test("text that is not JSON", () => expect(reasonOf({}, "{")).toMatch(/^Could not be processed: SyntaxError/));
});

describe("the rules", () => {
  const ruleOn = (path: string): CompiledRules => {
    const conditions: MappingCondition[] = [{ path, operator: "exists" }];
    const rule = { id: "rule_1", version: 2, event: "*", match: "all" as const, conditions };
    return compileRules([{ ...rule, scoringSignal: "s", points: 5 }]);
  };

  test("score what they match, and give no outcome for rules that need an unknown email", () => {
    const match = [{ ruleId: "rule_1", ruleVersion: 2, scoringSignal: "s", points: 5 }];
    expect(processed({}, { event: "A", email: "a@example.com" }, AT, ruleOn("email"))).toMatchObject({
      evaluation: { rulesTried: 1, matches: match },
    });
    expect(processed({}, { event: "A", anonymousId: "v-1" }, AT, ruleOn("email"))).toMatchObject({ evaluation: null });
    expect(processed({}, { event: "A", anonymousId: "v-1" }, AT, ruleOn("properties.x"))).toMatchObject({
      evaluation: { rulesTried: 1, matches: [] },
    });
  });

  test("give no outcome for an identify call", () => {
    const call = { type: "identify", userId: "u-1", traits: { email: "a@example.com" } };
    expect(processed({}, call, AT, ruleOn("email"))).toMatchObject({
      kind: "identify",
      evaluation: { rulesTried: 0, matches: [] },
    });
  });
});
