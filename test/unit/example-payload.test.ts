/** Spec §2.1: the example of a payload template is one that the template takes, with everything that it names. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { exampleFor } from "../../src/domain/accounts/example-payload.ts";
import {
  ACCOUNT_TARGETS,
  compileTemplate,
  mapAccount,
  PAYLOAD_TYPES,
} from "../../src/domain/accounts/payload-template.ts";
import type { PayloadMapping } from "../../src/domain/accounts/payload-template.ts";

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
