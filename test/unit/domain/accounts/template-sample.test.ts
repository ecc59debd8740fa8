/** Spec §2.1, design §8.7: samples, proposed templates and example payloads. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  ACCOUNT_TARGETS,
  compileTemplate,
  mapAccount,
  PAYLOAD_TYPES,
  type PayloadMapping,
} from "../../../../src/domain/accounts/payload-template.ts";
import { exampleFor, proposeTemplate, readSample } from "../../../../src/domain/accounts/template-sample.ts";
import type { JsonObject } from "../../../../src/domain/json/json-value.ts";

test.each([
  ["an object", '{"company":{"id":"a"}}', { company: { id: "a" } }],
  ["the first of several", '[{"id":1},{"id":2}]', { id: 1 }],
  ["a payload as large as a call allows", `{"id":"${"ж".repeat(32_000)}"}`, { id: "ж".repeat(32_000) }],
])("%s is read as a payload", (_, text, payload) => expect(readSample(text)).toEqual({ ok: true, value: payload }));

test.each([
  ["nothing", "", /empty/],
  ["invalid JSON", "{ broken", /Not valid JSON at line 1, column 3/],
  ["an empty array", "[]", /holds no signals/],
  ["a text", '"acme"', /A payload is a JSON object such as \{"company":\{"id":"acme-42"\}\}\./],
  ["an array of numbers", "[1]", /A payload is a JSON object/],
  ["a payload too large for a call", `{"id":"${"ж".repeat(33_000)}"}`, /at most 65536/],
  ["lines of JSON", '{"id":1}\n{"id":2}', /another JSON text follows/],
])("%s is rejected with a reason", (_, text, why) => {
  const read = readSample(text);
  expect(read.ok).toBe(false);
  expect(read).toEqual({ ok: false, rejection: expect.stringMatching(why) });
});

function lines(sample: JsonObject): string[] {
  return proposeTemplate(sample).map(({ target, path, type }) => `${target} ← ${path} ${type}`);
}

const ID = "external_id ← id string";

test.each<[what: string, sample: JsonObject, rows: string[]]>([
  [
    "maps known names to fields and the rest to attributes",
    {
      company: { id: 42, name: "Initech", region: "eu" },
      subscription: { planName: "pro", MRR: "1200.50", is_trial: false },
      seats: 12,
      features: { beta: true },
      tags: ["a", "b"],
      empty: null,
    },
    [
      "external_id ← company.id string",
      "name ← company.name string",
      "plan ← subscription.planName string",
      "user_count ← seats number",
      "recurring_revenue ← subscription.MRR number",
      "trial_status ← subscription.is_trial boolean",
      "feature_flags ← features json",
      "attributes.region ← company.region string",
      "attributes.tags ← tags json",
    ],
  ],
  ["leaves the path empty without an id", { plan: "pro" }, ["external_id ←  string", "plan ← plan string"]],
  ["is only the id for an empty sample", {}, ["external_id ←  string"]],
  [
    "prefers a specific name to a bare id",
    { id: "ntf_1", account_id: "acc_1" },
    ["external_id ← account_id string", "attributes.id ← id string"],
  ],
  [
    "maps single values to fields, and only a whole object to flags",
    { id: 7, plan: { code: "pro" }, features: "all", trial: true },
    [ID, "trial_status ← trial boolean", "attributes.code ← plan.code string", "attributes.features ← features string"],
  ],
  [
    "maps each place once",
    { id: "acme", name: "n", company: { name: "m" } },
    [ID, "name ← company.name string", "attributes.name ← name string"],
  ],
  [
    "maps the first of two equal names",
    { id: "acme", one: { x: 1 }, two: { x: 2 } },
    [ID, "attributes.x ← one.x number"],
  ],
  [
    "skips names that no path can express, and empty values",
    { id: "acme", "": 1, "a.b": 2, "c[0]": 3, "d[]": 4, e: "", f: null, "g[0]h": 5, i: 6 },
    [ID, "attributes.g[0]h ← g[0]h number", "attributes.i ← i number"],
  ],
  ["reads four levels", { id: "acme", b: { c: { d: { e: { f: 1 } } } } }, [ID, "attributes.e ← b.c.d.e json"]],
  [
    "has at most fifteen rows",
    { id: "acme", ...Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`x${n}`, n])) },
    [ID, ...Array.from({ length: 14 }, (_, n) => `attributes.x${n} ← x${n} number`)],
  ],
])("a proposal %s", (_, sample, rows) => {
  expect(lines(sample)).toEqual(rows);
  expect(proposeTemplate(sample).map(({ required }) => required)).toEqual(rows.map((__, index) => index === 0));
});

test("a proposal with an id maps its sample, for any sample", () => {
  const name = fc.constantFrom("", ..."id name plan seats mrr trial flags x a.b __proto__ y[0] z[]".split(" "));
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

test.each([
  ["12", "number"],
  [" -12.50 ", "number"],
  ["x12", "string"],
  ["12x", "string"],
  ["12.", "string"],
  ["1e3", "string"],
  [12, "number"],
  [true, "boolean"],
])("a proposal maps an amount of %j as a %s", (value, type) => {
  const typeOf = (name: string) => proposeTemplate({ id: "acme", [name]: value })[1]?.type;
  expect([typeOf("seats"), typeOf("mrr")]).toEqual([type, type]);
  // In other fields a text stays a text.
  if (typeof value === "string") expect([typeOf("plan"), typeOf("region")]).toEqual(["string", "string"]);
});

function row(target: string, path: string, type: PayloadMapping["type"] = "string"): PayloadMapping {
  return { target, path, type, required: false };
}

test.each<[what: string, template: PayloadMapping[], example: JsonObject]>([
  [
    "reads like a real payload",
    [
      row("external_id", "company.id"),
      row("name", "company.name"),
      row("user_count", "seats", "number"),
      row("feature_flags", "flags", "json"),
      row("trial_status", "trial", "boolean"),
      row("attributes.sku", "items[].sku"),
    ],
    {
      company: { id: "acme-42", name: "Acme Inc." },
      seats: 25,
      flags: { beta_reports: true },
      trial: true,
      items: [{ sku: "example" }],
    },
  ],
  [
    "writes conflicting paths as dotted names",
    [row("external_id", "company.id"), row("name", "company"), row("attributes.all", "company.address", "json")],
    { company: "Acme Inc.", "company.id": "acme-42", "company.address": { example: true } },
  ],
  [
    "nests paths of up to eight steps",
    [row("name", "a.b.c.d.e.f.g.h"), row("plan", "x.b.c.d.e.f.g.h.i")],
    { a: { b: { c: { d: { e: { f: { g: { h: "Acme Inc." } } } } } } }, "x.b.c.d.e.f.g.h.i": "growth" },
  ],
  [
    "nests the first four elements",
    [row("name", "a[3]"), row("plan", "a[4]")],
    { a: [null, null, null, "Acme Inc."], "a[4]": "growth" },
  ],
  [
    "has the first element for any element",
    [row("name", "a[1].x"), row("plan", "a[0].y"), row("external_id", "a[].x")],
    { a: [{ x: "acme-42", y: "growth" }, { x: "Acme Inc." }] },
  ],
  [
    "has the values of paths below a json mapping",
    [row("attributes.all", "company", "json"), row("name", "company.name")],
    { company: { name: "Acme Inc." } },
  ],
  [
    "has one value for two json mappings",
    [row("attributes.all", "company", "json"), row("attributes.x", "company", "json")],
    { company: { example: true } },
  ],
  [
    "has a star and a condition as names",
    [row("name", "a.*.b"), row("plan", "list[id=x].plan"), row("external_id", '"c.d".e')],
    { a: { "*": { b: "Acme Inc." } }, "list[id=x].plan": "growth", "c.d": { e: "acme-42" } },
  ],
])("an example %s", (_, mappings, example) => expect(exampleFor(mappings)).toEqual(example));

const segment = fc
  .tuple(
    fc.constantFrom("a", "b", "id", "utm[source]", "__proto__", "constructor", "*", '"q.r"'),
    fc.constantFrom("", "", "[]", "[0]", "[1]", "[99999]", "[id=x]", "[a.b=x*][0]"),
  )
  .map((parts) => parts.join(""));
const path = fc.array(segment, { minLength: 1, maxLength: 12 }).map((segments) => segments.join("."));
const targets = [...ACCOUNT_TARGETS, "attributes.one", "attributes.two"];
const template = fc
  .uniqueArray(
    fc.record({
      target: fc.constantFrom(...targets),
      path,
      type: fc.constantFrom(...PAYLOAD_TYPES),
      required: fc.boolean(),
    }),
    { selector: ({ target }) => target, maxLength: 9 },
  )
  .chain((rows) =>
    fc
      .record({ path, type: fc.constantFrom("string" as const, "number" as const, "json" as const) })
      .map((id) => [
        ...rows.filter(({ target }) => target !== "external_id"),
        { target: "external_id", required: true, ...id },
      ]),
  );

test("an example maps back to every field of its template, for any template", () => {
  fc.assert(
    fc.property(template, (rows) => {
      // The payload arrives as JSON.
      const payload = JSON.parse(JSON.stringify(exampleFor(rows)));
      const mapped = mapAccount(compileTemplate(rows), payload);
      if (!mapped.ok) throw new Error(JSON.stringify({ payload, errors: mapped.rejection }));
      const { fields, attributes } = mapped.value;
      expect(Object.keys(fields).length + Object.keys(attributes).length).toBe(rows.length - 1);
    }),
    { numRuns: 1_000 },
  );
});

const values = (...rows: PayloadMapping[]) => Object.values(exampleFor(rows))[0];

test.each([
  ["external_id", "string", "acme-42"],
  ["external_id", "json", "acme-42"],
  ["external_id", "number", 4_711],
  ["external_id", "boolean", 1],
  ["name", "string", "Acme Inc."],
  ["plan", "string", "growth"],
  ["user_count", "string", "25"],
  ["user_count", "number", 25],
  ["recurring_revenue", "string", "1200.50"],
  ["recurring_revenue", "number", 1200.5],
  ["trial_status", "string", "active"],
  ["trial_status", "boolean", true],
  ["attributes.x", "string", "example"],
  ["attributes.x", "number", 42],
  ["attributes.x", "json", { example: true }],
  ["feature_flags", "json", { beta_reports: true }],
] as const)("an example has a typical value for %s as %s", (target, type, value) => {
  expect(values(row(target, "x", type))).toEqual(value);
});

test("an example value satisfies all mappings that read it, the id first", () => {
  expect(values(row("trial_status", "x", "boolean"), row("attributes.n", "x", "number"))).toBe(1);
  expect(values(row("trial_status", "x", "boolean"), row("attributes.t", "x"))).toBe("true");
  expect(values(row("trial_status", "x", "boolean"), row("attributes.j", "x", "json"))).toBe(true);
  expect(values(row("attributes.n", "x"), row("external_id", "x"))).toBe("acme-42");
  expect(values(row("attributes.n", "x", "number"), row("external_id", "x"))).toBe(4_711);
});

test("an example has __proto__ as an ordinary own property", () => {
  const example = exampleFor([row("name", "__proto__.a")]);
  expect(Object.getPrototypeOf(example)).toBe(Object.prototype);
  expect(Object.getOwnPropertyDescriptor(example, "__proto__")).toEqual({
    value: { a: "Acme Inc." },
    enumerable: true,
    configurable: true,
    writable: true,
  });
});
