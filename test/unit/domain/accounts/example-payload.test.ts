/** Spec §2.1: the example of a payload template is one that the template takes, with everything that it names. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { exampleFor } from "../../../../src/domain/accounts/example-payload.ts";
import {
  ACCOUNT_TARGETS,
  compileTemplate,
  mapAccount,
  PAYLOAD_TYPES,
} from "../../../../src/domain/accounts/payload-template.ts";
import type { PayloadMapping } from "../../../../src/domain/accounts/payload-template.ts";

function row(target: string, path: string, type: PayloadMapping["type"] = "string"): PayloadMapping {
  return { target, path, type, required: false };
}

test("an example reads like a real payload", () => {
  const template = [
    row("external_id", "company.id"),
    row("name", "company.name"),
    row("user_count", "seats", "number"),
    row("feature_flags", "flags", "json"),
    row("trial_status", "trial", "boolean"),
    row("attributes.sku", "items[].sku"),
  ];
  expect(exampleFor(template)).toEqual({
    company: { id: "acme-42", name: "Acme Inc." },
    seats: 25,
    flags: { beta_reports: true },
    trial: true,
    items: [{ sku: "example" }],
  });
});

test("paths that are in each other's way are written as dotted names, which are read as well", () => {
  const template = [
    row("external_id", "company.id"),
    row("name", "company"),
    row("attributes.all", "company.address", "json"),
  ];
  expect(exampleFor(template)).toEqual({
    company: "Acme Inc.",
    "company.id": "acme-42",
    "company.address": { example: true },
  });
});

const segment = fc
  .tuple(
    fc.constantFrom("a", "b", "id", "utm[source]", "__proto__", "constructor"),
    fc.constantFrom("", "", "[]", "[0]", "[1]", "[99999]"),
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

test("mapping the example of any template back gives every field that the template names", () => {
  fc.assert(
    fc.property(template, (rows) => {
      // As it arrives: through JSON.
      const payload = JSON.parse(JSON.stringify(exampleFor(rows)));
      const mapped = mapAccount(compileTemplate(rows), payload);
      if (!mapped.ok) throw new Error(JSON.stringify({ payload, errors: mapped.refusal }));
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
] as const)("the example of %s as %s is what such a field mostly holds", (target, type, value) => {
  expect(values(row(target, "x", type))).toEqual(value);
});

test("one place that several mappings read has a value that is all that they ask for, the id before all", () => {
  expect(values(row("trial_status", "x", "boolean"), row("attributes.n", "x", "number"))).toBe(1);
  expect(values(row("trial_status", "x", "boolean"), row("attributes.t", "x"))).toBe("true");
  expect(values(row("trial_status", "x", "boolean"), row("attributes.j", "x", "json"))).toBe(true);
  expect(values(row("attributes.n", "x"), row("external_id", "x"))).toBe("acme-42");
  expect(values(row("attributes.n", "x", "number"), row("external_id", "x"))).toBe(4_711);
});

test("paths are drawn as nested objects and short arrays; long ones, and far elements, as one name", () => {
  const nested = (at: string) => exampleFor([row("name", at)]);
  expect(nested("a.b.c.d.e.f.g.h")).toEqual({ a: { b: { c: { d: { e: { f: { g: { h: "Acme Inc." } } } } } } } });
  expect(nested("a.b.c.d.e.f.g.h.i")).toEqual({ "a.b.c.d.e.f.g.h.i": "Acme Inc." });
  expect(nested("a[3]")).toEqual({ a: [null, null, null, "Acme Inc."] });
  expect(nested("a[4]")).toEqual({ "a[4]": "Acme Inc." });
  expect(exampleFor([row("name", "a[1].x"), row("plan", "a[0].y"), row("external_id", "a[].x")])).toEqual({
    a: [{ x: "acme-42", y: "growth" }, { x: "Acme Inc." }],
  });
});

test("a mapping that takes whatever is there is content with what the others have put below it", () => {
  expect(exampleFor([row("attributes.all", "company", "json"), row("name", "company.name")])).toEqual({
    company: { name: "Acme Inc." },
  });
  expect(exampleFor([row("attributes.all", "company", "json"), row("attributes.x", "company", "json")])).toEqual({
    company: { example: true },
  });
});

test("an example is plain data: what it has under __proto__ can be changed and listed as anything else", () => {
  const example = exampleFor([row("name", "__proto__.a")]);
  expect(Object.getPrototypeOf(example)).toBe(Object.prototype);
  expect(Object.getOwnPropertyDescriptor(example, "__proto__")).toEqual({
    value: { a: "Acme Inc." },
    enumerable: true,
    configurable: true,
    writable: true,
  });
});
