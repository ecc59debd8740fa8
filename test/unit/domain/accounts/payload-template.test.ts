/** Spec §2.1, design §8.7: payload templates map account updates, or reject them. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  compileTemplate,
  isAccountTarget,
  mapAccount,
  recordOfGroup,
  templateRejection,
  type AccountRecord,
  type PayloadMapping,
  type TemplateError,
} from "../../../../src/domain/accounts/payload-template.ts";
import { readPayload, type JsonObject } from "../../../../src/domain/json/json-value.ts";

const ID: PayloadMapping = { target: "external_id", path: "id", type: "string", required: true };

/** @param sent JSON text, or its value. */
function map(template: PayloadMapping[], sent: string | JsonObject): ReturnType<typeof mapAccount> {
  return mapAccount(compileTemplate(template), typeof sent === "string" ? JSON.parse(sent) : sent);
}
function mapped(template: PayloadMapping[], sent: string | JsonObject): AccountRecord {
  const result = map(template, sent);
  if (!result.ok) throw new Error(JSON.stringify(result.rejection));
  return result.value;
}
function errorsOf(template: PayloadMapping[], sent: string | JsonObject): TemplateError[] {
  const result = map(template, sent);
  if (result.ok) throw new Error(`${JSON.stringify(result.value)} was not rejected`);
  return result.rejection;
}
function attribute(name: string, more: Partial<PayloadMapping> = {}): PayloadMapping {
  return { target: `attributes.${name}`, path: name, type: "json", required: false, ...more };
}

describe("§8.7 an account record", () => {
  test("reads each field from its path, with its type", () => {
    const template: PayloadMapping[] = [
      { ...ID, path: "workspace.id" },
      { target: "name", path: "workspace.name", type: "string", required: true },
      { target: "plan", path: "subscriptions[0].plan", type: "string", required: false },
      { target: "user_count", path: "usage.seats", type: "number", required: false },
      { target: "recurring_revenue", path: "mrr", type: "number", required: false },
      { target: "trial_status", path: "trial", type: "boolean", required: false },
      { target: "feature_flags", path: "flags", type: "json", required: false },
      { target: "attributes.region", path: "geo.region", type: "string", required: false },
    ];
    const payload = {
      workspace: { id: " ws_42 ", name: " Initech " },
      subscriptions: [{ plan: "pro" }, { plan: "old" }],
      usage: { seats: "40" },
      mrr: 1299.5,
      trial: "No",
      flags: { beta: true },
      geo: { region: "eu" },
    };
    expect(mapped(template, payload)).toEqual({
      externalId: "ws_42",
      fields: {
        name: " Initech ",
        plan: "pro",
        user_count: 40,
        recurring_revenue: 1299.5,
        trial_status: false,
        feature_flags: { beta: true },
      },
      attributes: { region: "eu" },
    });
  });

  test.each(["null", `""`, `"  "`, undefined])("omits a field sent as %s", (json) => {
    const template = [ID, attribute("x"), attribute("y", { type: "number" }), attribute("zero"), attribute("no")];
    const sent = json === undefined ? `"zero":0,"no":false` : `"x":${json},"y":${json},"zero":0,"no":false`;
    expect(mapped(template, `{"id":"a1",${sent}}`).attributes).toStrictEqual({ zero: 0, no: false });
  });

  test("reads own properties only, never the prototype's", () => {
    const names = ["constructor", "toString", "__proto__"];
    const template = [ID, ...names.map((path) => attribute(`of_${path}`, { path }))];
    expect(mapped(template, { id: "a1" }).attributes).toStrictEqual({});
    const sent = `{"id":"a1","constructor":"Bob"}`;
    expect(mapped(template, sent).attributes).toStrictEqual({ of_constructor: "Bob" });
    expect(mapped([ID, attribute("constructor")], sent).attributes).toStrictEqual({ constructor: "Bob" });
  });

  test("depends only on its payload, not on earlier ones", () => {
    const compiled = compileTemplate([ID, attribute("x")]);
    const first = mapAccount(compiled, { id: "a1", x: 1 });
    const second = mapAccount(compiled, { id: "b2", other: [] });
    expect(first).toEqual({ ok: true, value: { externalId: "a1", fields: {}, attributes: { x: 1 } } });
    expect(second).toEqual({ ok: true, value: { externalId: "b2", fields: {}, attributes: {} } });
  });
});

describe("§8.7 types", () => {
  test.each([
    ["string", `"as sent "`, "as sent "],
    ["string", "42", "42"],
    ["string", "-0.5", "-0.5"],
    ["string", "9007199254740991", "9007199254740991"],
    ["number", "12", 12],
    ["number", "1e3", 1000],
    ["number", `"12"`, 12],
    ["number", `" -1.50 "`, -1.5],
    ["number", `".5"`, 0.5],
    ["number", "0", 0],
    ...["true", "1", `"TRUE"`, `"Yes"`, `" on "`, `"1"`].map((json) => ["boolean", json, true] as const),
    ...["false", "0", `"False"`, `"no"`, `"OFF"`, `"0"`].map((json) => ["boolean", json, false] as const),
    ["json", `{"a":[null]}`, { a: [null] }],
    ["json", "[]", []],
    ["json", "false", false],
  ] as const)("%s accepts %s", (type, json, value) => {
    expect(mapped([ID, attribute("x", { type })], `{"id":"a1","x":${json}}`).attributes).toStrictEqual({ x: value });
  });

  const MUST_BE = { string: "a text", number: "a number such as 1200.5", boolean: "true or false" };
  const INEXACT = "a number too large to keep its digits";
  test.each([
    ["string", "true", "true"],
    ["string", "[]", "an array"],
    ["string", "{}", "an object"],
    ["string", "9007199254740993", INEXACT],
    ...[`"many"`, `"1,200"`, `"1e3"`, `"0x10"`, `"Infinity"`].map((json) => ["number", json, "a text"] as const),
    ["number", "true", "true"],
    ["number", "[1]", "an array"],
    ["number", "1e999", INEXACT],
    ["boolean", "2", "a number"],
    ["boolean", `"active"`, "a text"],
    ["boolean", `"constructor"`, "a text"],
    ["boolean", `["true"]`, "an array"],
  ] as const)("%s rejects %s, even in an optional field", (type, json, sent) => {
    const detail = `\`x\` (for \`attributes.x\`) must be ${MUST_BE[type]}, but is ${sent}.`;
    expect(errorsOf([ID, attribute("x", { type })], `{"id":"a1","x":${json}}`)).toEqual([
      expect.objectContaining({ target: "attributes.x", path: "x", code: "wrong_type", detail }),
    ]);
  });
});

describe("§8.7 an external id", () => {
  const NAMES_NONE =
    '`id` (for `external_id`) must name one account: 0, a single letter, a word such as "unknown", or more than 255 characters names none.';

  test.each([
    [`" a-1 "`, "a-1"],
    ["42", "42"],
    [`"007"`, "007"],
    [`"12345678901234567890"`, "12345678901234567890"],
  ])("sent as %s is %s with any declared type, with all its digits", (json, externalId) => {
    const types = (["string", "json"] as const).map((type) => mapped([{ ...ID, type }], `{"id":${json}}`).externalId);
    expect(types).toEqual([externalId, externalId]);
    const number = map([{ ...ID, type: "number" }], `{"id":${json}}`);
    expect(number).toMatchObject(externalId === "a-1" ? { ok: false } : { ok: true, value: { externalId } });
  });

  test.each([
    ["nothing", "{}", "missing", "`id` (for `external_id`) is required, but is missing."],
    ["null", `{"id":null}`, "missing", "`id` (for `external_id`) is required, but is null."],
    ["blank", `{"id":" "}`, "missing", "`id` (for `external_id`) is required, but is blank."],
    ["a single letter", `{"id":"a"}`, "wrong_type", NAMES_NONE],
    ["a filler word", `{"id":"undefined"}`, "wrong_type", NAMES_NONE],
    ["0", `{"id":0}`, "wrong_type", NAMES_NONE],
    ["too long", `{"id":"${"x".repeat(256)}"}`, "wrong_type", NAMES_NONE],
    [
      "a rounded number",
      `{"id":12345678901234567890}`,
      "wrong_type",
      "`id` (for `external_id`) must be a text, but is a number too large to keep its digits.",
    ],
    ["an object", `{"id":{}}`, "wrong_type", "`id` (for `external_id`) must be a text, but is an object."],
  ])("%s is rejected", (_, json, code, detail) => {
    const error = expect.objectContaining({ target: "external_id", path: "id", code, detail }) as unknown;
    expect(errorsOf([ID], json)).toEqual([error]);
    expect(errorsOf([{ ...ID, type: "json", required: false }], json)).toEqual([error]);
  });
});

describe("§8.7 rejections", () => {
  test("list every error at once, in the template's order", () => {
    const template: PayloadMapping[] = [
      { target: "user_count", path: "usage.seats", type: "number", required: true },
      ID,
      { target: "plan", path: "plan", type: "string", required: true },
      attribute("optional", { type: "number" }),
    ];
    const errors = errorsOf(template, { usage: { seats: "a few" }, optional: {} });
    expect(errors.map(({ path, code }) => [path, code])).toEqual([
      ["usage.seats", "wrong_type"],
      ["id", "missing"],
      ["plan", "missing"],
      ["optional", "wrong_type"],
    ]);
    expect(templateRejection(errors)).toEqual({
      code: "template_mismatch",
      detail: errors.map(({ detail }) => detail).join(" "),
      sent: '"a few" at `usage.seats`',
    });
  });

  test("stay short, and count the errors that do not fit", () => {
    const many = Array.from({ length: 99 }, (_, i) =>
      attribute(`a${i}`, { path: `${"p".repeat(200)}${i}`, required: true }),
    );
    const errors = errorsOf([ID, ...many], {});
    const { detail } = templateRejection(errors);
    const more = Number(/ And (\d+) more\.$/.exec(detail)?.[1]);
    expect(detail.length).toBeLessThan(1_100);
    expect(detail).toContain("`id`");
    expect(detail.match(/is required/g)?.length).toBe(errors.length - more);
  });

  test.each([
    ["a text's beginning", "twelve seats, or so", '"twelve seats, or"…'],
    ["a number", 12, "12"],
    ["no number whose digits are lost", 2 ** 60, undefined],
    ["nothing of what is blank", " ", undefined],
    ["nothing of an object", { secret: 1 }, undefined],
    ["nothing of a key", `sk_${"A1b".repeat(13)}x`, '"•••"'],
  ])("repeat %s to the sender only, outside the detail", (_, x, sent) => {
    const errors = errorsOf([ID, attribute("x", { type: "boolean", required: true })], { id: "a1", x });
    expect(errors).toHaveLength(1);
    expect(errors[0]?.sent).toBe(sent);
    expect(templateRejection(errors).sent).toBe(sent === undefined ? undefined : `${sent} at \`x\``);
    expect(templateRejection(errors).detail).not.toMatch(/twelve|12|A1b/);
  });

  test("name a mapping in each error, and keep only typed values, for any payload", () => {
    const types = ["string", "number", "boolean"] as const;
    const template = [ID, ...types.map((type) => attribute(type, { type }))];
    const compiled = compileTemplate(template);
    const value = fc.oneof(fc.jsonValue({ maxDepth: 1 }), fc.constantFrom("1", "yes", 1, "id-1"));
    const anyPayload = fc.record({ id: value, string: value, number: value, boolean: value }, { requiredKeys: [] });
    fc.assert(
      fc.property(anyPayload, (payload) => {
        const result = mapAccount(compiled, payload);
        if (result.ok) {
          expect(result.value.externalId).toMatch(/\S/);
          for (const [type, kept] of Object.entries(result.value.attributes)) expect(typeof kept).toBe(type);
        } else {
          const targets = template.map(({ target }) => target);
          for (const { target, path, detail } of result.rejection) {
            expect(targets).toContain(target);
            expect(detail.startsWith(`\`${path}\` (for \`${target}\`) `)).toBe(true);
          }
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe("§8.7 the traits of a group", () => {
  test("set fields and attributes by name, without blank, unnameable and large values, and with masked keys", () => {
    const key = `sk_${"A1b".repeat(13)}x`;
    const traits = { name: " Acme ", seats: 5, plan: " ", region: null, "a.b": 1, note: `my ${key}`, external_id: "x" };
    const sized = { most: "x".repeat(998), more: "x".repeat(999), wide: "ж".repeat(500) };
    expect(recordOfGroup("acme", { ...traits, ...sized })).toEqual({
      externalId: "acme",
      fields: { name: "Acme" },
      attributes: { seats: 5, note: "my sk_A1bA1…A1bx", external_id: "x", most: sized.most },
    });
  });

  test("are the first 50", () => {
    const traits = Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`t${n}`, n]));
    expect(Object.keys(recordOfGroup("acme", traits).attributes)).toEqual(Object.keys(traits).slice(0, 50));
  });

  test("keep the digits of a long number as a text, and are plain data", () => {
    const traits = readPayload(
      '{"crm":7615917337495251231,"all":{"ids":[7615917337495251231]},"seats":12}',
    ) as JsonObject;
    const { attributes } = structuredClone(recordOfGroup("acme", traits));
    expect(attributes).toEqual({
      crm: "7615917337495251231",
      all: { ids: [7615917337495251231n].map(Number) },
      seats: 12,
    });
  });
});

describe("§2.1 templates", () => {
  const targets = [
    "external_id",
    "name",
    "feature_flags",
    "attributes.region",
    "attributes.Größe",
    "attributes.constructor",
  ];
  const none = ["", "id", "attributes", "attributes.", "attributes.a.b", "attributes.a b", "attributes.__proto__"];
  test("have a target among the fields of an account, or an attribute", () => {
    expect(targets.filter((target) => !isAccountTarget(target))).toEqual([]);
    expect([...none, "constructor"].filter(isAccountTarget)).toEqual([]);
  });
  test.each([
    ["without an external_id", [attribute("x")]],
    ["with an invalid path", [ID, attribute("x", { path: "a..b" })]],
    ["with an invalid target", [ID, attribute("__proto__")]],
  ])("%s cannot be compiled", (_, template) => expect(() => compileTemplate(template)).toThrow(Error));
});

describe("the step budget of a payload", () => {
  const payloadOf = (elements: number) => ({ id: "a1", list: Array.from({ length: elements }, () => ({})), last: 1 });
  const paths = Array.from({ length: 99 }, (_, nth) => attribute(`x${nth}`, { path: `list[].x${nth}`, type: "json" }));

  test("lets each of 100 mappings read 1,000 elements", () => {
    expect(mapAccount(compileTemplate([ID, ...paths]), payloadOf(1_000))).toMatchObject({ ok: true });
  });

  test("rejects an update beyond it, naming the path that was not reached", () => {
    const errors = errorsOf([ID, ...paths, attribute("last", { path: "last", type: "json" })], payloadOf(1_100));
    expect(errors).toMatchObject([{ code: "out_of_reach", path: "list[].x90" }]);
    expect(errors[0]?.detail).toBe(
      "`list[].x90` (for `attributes.x90`) is behind more array elements than an update may read.",
    );
  });

  test("is shared by the updates of a request; a rejection says what to do", () => {
    const template = compileTemplate([ID, attribute("x", { path: "list[].x", type: "json" })]);
    const request = { stepsLeft: 1_500 };
    const results = [1, 2].map(() => mapAccount(template, payloadOf(1_000), request));
    expect(results[0]).toMatchObject({ ok: true });
    expect(results[1]).toMatchObject({ ok: false, rejection: [{ code: "out_of_reach", path: "list[].x" }] });
    const [error] = results[1]?.ok === false ? results[1].rejection : [];
    expect(error?.detail).toContain("than all updates of a request may read: send fewer.");
  });

  test("allows any list if its first element has the value", () => {
    const [first] = paths;
    const payload = { id: "a1", list: Array.from({ length: 200_000 }, () => ({ x0: 1 })) };
    expect(mapAccount(compileTemplate([ID, ...(first === undefined ? [] : [first])]), payload)).toMatchObject({
      ok: true,
      value: { attributes: { x0: 1 } },
    });
  });

  test("limits the text of a number or boolean to 1,000 characters", () => {
    for (const [type, word] of [
      ["number", "12"],
      ["boolean", "yes"],
    ] as const) {
      const template = compileTemplate([ID, attribute("x", { type })]);
      expect(mapAccount(template, { id: "a1", x: word.padEnd(1_000) }).ok).toBe(true);
      expect(mapAccount(template, { id: "a1", x: word.padEnd(1_001) }).ok).toBe(false);
    }
  });
});
