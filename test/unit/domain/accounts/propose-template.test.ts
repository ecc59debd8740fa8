/** Spec §2.1: a payload template proposed from a sample payload. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { compileTemplate, mapAccount } from "../../../../src/domain/accounts/payload-template.ts";
import { proposeTemplate } from "../../../../src/domain/accounts/propose-template.ts";
import type { JsonObject } from "../../../../src/domain/json/json-object.ts";

function lines(sample: JsonObject): string[] {
  return proposeTemplate(sample).map(({ target, path, type }) => `${target} ← ${path} ${type}`);
}

test("a template's fields are found by the names that senders give them, and the rest becomes attributes", () => {
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

test("for a sample without anything like an id the first row of a template waits for its path", () => {
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

test("the id is required and a text, whatever it is in the sample; nothing else is required", () => {
  const rows = proposeTemplate({ id: 7, plan: "pro", extra: 1 });
  expect(rows).toEqual([
    { target: "external_id", path: "id", type: "string", required: true },
    { target: "plan", path: "plan", type: "string", required: false },
    { target: "attributes.extra", path: "extra", type: "number", required: false },
  ]);
  expect(proposeTemplate({})).toEqual([{ target: "external_id", path: "", type: "string", required: true }]);
});

test.each([
  ["12", "number"],
  [" -12.50 ", "number"],
  ["x12", "string"],
  ["12x", "string"],
  ["12.", "string"],
  ["1e3", "string"],
  [12, "number"],
  [true, "boolean"],
])("an amount of %j is proposed as a %s", (value, type) => {
  const typeOf = (name: string) => proposeTemplate({ id: "acme", [name]: value })[1]?.type;
  expect([typeOf("seats"), typeOf("mrr")]).toEqual([type, type]);
  // Of anything else a text stays one.
  if (typeof value === "string") expect([typeOf("plan"), typeOf("region")]).toEqual(["string", "string"]);
});

test("a field is one value, flags are a whole object, and each place is proposed once", () => {
  expect(lines({ id: "acme", plan: { code: "pro" }, features: "all", trial: true })).toEqual([
    "external_id ← id string",
    "trial_status ← trial boolean",
    "attributes.code ← plan.code string",
    "attributes.features ← features string",
  ]);
  expect(lines({ id: "acme", name: "n", company: { name: "m" } })).toEqual([
    "external_id ← id string",
    "name ← company.name string",
    "attributes.name ← name string",
  ]);
  expect(lines({ id: "acme", one: { x: 1 }, two: { x: 2 } })).toEqual([
    "external_id ← id string",
    "attributes.x ← one.x number",
  ]);
});

test("names that no path can say, and empty values, are not proposed for a template", () => {
  const sample = { id: "acme", "": 1, "a.b": 2, "c[0]": 3, "d[]": 4, e: "", f: null, "g[0]h": 5, i: 6 };
  expect(lines(sample)).toEqual([
    "external_id ← id string",
    "attributes.g[0]h ← g[0]h number",
    "attributes.i ← i number",
  ]);
});

test("four levels are looked into, what lies deeper is proposed as a whole; fifteen rows at most", () => {
  expect(lines({ id: "acme", b: { c: { d: { e: { f: 1 } } } } })).toEqual([
    "external_id ← id string",
    "attributes.e ← b.c.d.e json",
  ]);
  const many = Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`x${n}`, n]));
  const rows = lines({ id: "acme", ...many });
  expect(rows).toHaveLength(15);
  expect(rows.at(-1)).toBe("attributes.x13 ← x13 number");
});
