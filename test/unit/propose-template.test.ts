/** Spec §2.1: a payload template proposed from a sample payload. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { compileTemplate, mapAccount } from "../../src/domain/accounts/payload-template.ts";
import { proposeTemplate } from "../../src/domain/accounts/propose-template.ts";
import type { JsonObject } from "../../src/domain/signal/signal.ts";

function lines(sample: JsonObject): string[] {
  return proposeTemplate(sample).map(({ target, path, type }) => `${target} ← ${path} ${type}`);
}

test("fields are found by the names that senders give them, and the rest becomes attributes", () => {
  const sample = {
    company: { id: 42, name: "Initech", region: "eu" },
    subscription: { planName: "pro", MRR: "1200.50", is_trial: false },
    seats: 12,
    features: { beta: true },
    tags: ["a", "b"],
    empty: null,
  };
  expect(lines(sample)).toEqual([
    "external_id ← company.id string",
    "name ← company.name string",
    "plan ← subscription.planName string",
    "user_count ← seats number",
    "recurring_revenue ← subscription.MRR number",
    "trial_status ← subscription.is_trial boolean",
    "feature_flags ← features json",
    "attributes.region ← company.region string",
    "attributes.tags ← tags json",
  ]);
});

test("a name that says it all wins over a bare id", () => {
  expect(lines({ id: "evt_1", account_id: "acc_1" })[0]).toBe("external_id ← account_id string");
});

test("without anything like an id the first row waits for its path", () => {
  expect(lines({ plan: "pro" })).toEqual(["external_id ←  string", "plan ← plan string"]);
});

test("whatever the sample, a proposal that found an id maps it", () => {
  const name = fc.constantFrom(
    "id",
    "name",
    "plan",
    "seats",
    "mrr",
    "trial",
    "flags",
    "x",
    "a.b",
    "",
    "__proto__",
    "y[0]",
    "z[]",
  );
  const value = fc.letrec<{ value: unknown; object: JsonObject }>((tie) => ({
    object: fc.dictionary(name, tie("value"), { maxKeys: 6 }),
    value: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom<unknown>("", "text", "12", 12, 1.5, 2 ** 60, true, null, [], [1], "null"),
      tie("object"),
    ),
  }));
  fc.assert(
    fc.property(value.object, (sample) => {
      const rows = proposeTemplate(sample);
      if (rows.some(({ path }) => path === "")) return;
      expect(mapAccount(compileTemplate(rows), sample)).toMatchObject({ ok: true });
    }),
    { numRuns: 1_000 },
  );
});
