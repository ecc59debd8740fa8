/** Spec §6.3: the mapping rule pre-filled from a signal of the queue. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type MappingCondition } from "../../../../src/domain/rules/comparators.ts";
import { compileRules, isRulePath, isEventPattern } from "../../../../src/domain/rules/mapping-rule.ts";
import { evaluate } from "../../../../src/domain/rules/evaluate-rules.ts";
import { normalise } from "../../../../src/domain/signal/normalise.ts";
import { proposeRule } from "../../../../src/domain/rules/propose-conditions.ts";
import type { JsonObject } from "../../../../src/domain/json/json-value.ts";
import type { NormalisedSignal } from "../../../../src/domain/signal/signal.ts";
import { fitsName } from "../../../../src/domain/signal/validate-signal.ts";
import { newRule } from "../../../../src/use-cases/rule-schema.ts";
import { cpuMs } from "../../../support/cpu-ms.ts";

function signal(properties: JsonObject, more: Partial<NormalisedSignal> = {}): NormalisedSignal {
  return { kind: "signal", event: "A", source: "unknown", hasOwnId: false, properties, traits: {}, ...more };
}
function conditionsOf(properties: JsonObject): MappingCondition[] {
  return proposeRule(signal(properties)).conditions;
}
/** `path operator value`, without `properties.`. */
function proposed(properties: JsonObject): string[] {
  return conditionsOf(properties).map(({ path, operator, value }) =>
    [path.replace(/^properties\./, ""), operator, ...(value === undefined ? [] : [value])].join(" "),
  );
}
function matchesItsSample(sample: NormalisedSignal): boolean {
  const rule = { ...proposeRule(sample), id: "r1", version: 1 };
  return evaluate(compileRules([rule]), sample)?.matches.length === 1;
}

describe("§6.3 the rule proposed for a real payload", () => {
  test("has no condition that repeats the event", () => {
    const properties = { event_type: "Form_Response", form_title: "Contact sales" };
    const sent = normalise({ event: "form_response", email: "jane@acme.example", properties }, undefined);
    const { name, conditions } = proposeRule(sent);
    expect(name).toBe("form_response: Contact sales");
    expect(conditions).toEqual([{ path: "properties.form_title", operator: "equals", value: "Contact sales" }]);
  });

  test("names the form of a marketing template, not the person", () => {
    const sent = normalise(
      {
        email: "jane@acme.example",
        event: "Filled Out Form",
        source: "marketing-automation",
        properties: {
          lead_id: 1042,
          first_name: "Jane",
          last_name: "Doe",
          company: "Acme & Sons",
          title: "Engineer",
          form_name: "Contact us",
          page_url: "https://www.acme.example/contact?utm_source=x#top",
        },
      },
      undefined,
    );
    expect(proposeRule(sent)).toEqual({
      name: "Filled Out Form: Contact us",
      event: "Filled Out Form",
      match: "all",
      conditions: [
        { path: "properties.form_name", operator: "equals", value: "Contact us" },
        { path: "properties.page_url", operator: "contains", value: "www.acme.example/contact" },
      ],
      scoringSignal: "Filled Out Form",
      points: 1,
    });
  });

  test("names a CDP's page and its address from the context", () => {
    const sent = {
      type: "page",
      messageId: "022bb90d",
      anonymousId: "507f191e810c19729de860ea",
      name: "Pricing",
      properties: { title: "Pricing", referrer: "https://search.example/?q=acme", search: "?plan=pro" },
      context: { page: { url: "https://acme.example/pricing?plan=pro" } },
    };
    const { event, conditions } = proposeRule(normalise(sent, undefined));
    expect(event).toBe("Page Viewed");
    // The name has the same value as the title.
    expect(conditions).toEqual([
      { path: "properties.title", operator: "equals", value: "Pricing" },
      { path: "properties.url", operator: "contains", value: "acme.example/pricing" },
    ]);
  });

  test("names the products of an order, not the order", () => {
    const order = {
      order_id: "ord-77",
      total: 129.9,
      currency: "EUR",
      ordered_at: "2026-02-12T19:11:01.152Z",
      is_gift: false,
      products: [
        { product_id: "p1", name: "Starter Kit", category: "Kits", price: 99 },
        { product_id: "p2", name: "Cable", category: "Parts", price: 30.9 },
      ],
    };
    expect(proposed(order)).toEqual([
      "products[].name equals Starter Kit",
      "products[].category equals Kits",
      "is_gift is_false",
    ]);
  });

  test("has only the event without properties that say more", () => {
    expect(proposeRule(signal({ id: 5 }, { event: "Signed Up" }))).toMatchObject({
      name: "Signed Up",
      event: "Signed Up",
      conditions: [],
    });
  });

  test("has only conditions that all samples share", () => {
    const sample = signal({ form_name: "Demo request", plan: "pro", is_gift: true });
    const similar = signal({ form_name: "Newsletter", plan: "Pro", is_gift: true });
    expect(proposeRule(sample, [similar]).conditions.map(({ path }) => path)).toEqual([
      "properties.plan",
      "properties.is_gift",
    ]);
    expect(proposeRule(sample, [similar, signal({})])).toMatchObject({ name: sample.event, conditions: [] });
  });

  test("has no condition on source or email", () => {
    const sample = signal({}, { source: "segment", email: "jane@example.com" });
    expect(proposeRule(sample).conditions).toEqual([]);
  });
});

describe("§6.3 a condition", () => {
  test.each<[JsonObject, string]>([
    [{ form_name: "Contact" }, "form_name equals Contact"],
    [{ programName: "Webinar 2026" }, "programName equals Webinar 2026"],
    [{ "Form Name": "Contact" }, "Form Name equals Contact"],
    [{ "form.name": "Contact" }, "form.name equals Contact"],
    [{ plan: { name: "Pro" } }, "plan.name equals Pro"],
    [{ user_role: "admin" }, "user_role equals admin"],
    [{ member_status: "Attended" }, "member_status equals Attended"],
    [{ tags: ["news", "product"] }, "tags[] equals news"],
    [{ channel: "email" }, "channel equals email"],
    [{ type: "email" }, "type equals email"],
    [{ items: [{ type: "subscription" }] }, "items[].type equals subscription"],
    [{ answers: [{ type: "email", email: "a@b.example" }], form_name: "Demo" }, "form_name equals Demo"],
    [{ variant: "B" }, "variant equals B"],
    [{ topic: "Fabaceae" }, "topic equals Fabaceae"],
    [{ step: 1_234 }, "step equals 1234"],
    [{ level: "2" }, "level equals 2"],
    [{ is_trial: true }, "is_trial is_true"],
    [{ is_trial: "False" }, "is_trial is_false"],
    [{ user: { subscribed: true } }, "user.subscribed is_true"],
    [{ colour: "blue" }, "colour equals blue"],
    [{ campaign: "spring-sale-2026-newsletter-emea" }, "campaign equals spring-sale-2026-newsletter-emea"],
    [{ product: "JavaScriptIntroduction" }, "product equals JavaScriptIntroduction"],
    ...[
      ["https://example.com/pricing?x=1#top", "contains example.com/pricing"],
      ["HTTP://Example.com:8080/A", "contains Example.com:8080/A"],
      ["//example.com/pricing", "contains example.com/pricing"],
      ["https://example.com?token=1", "contains example.com"],
      ["https://jane:secret@example.com/a", "contains example.com/a"],
      ["https://example.com/orders/1042/receipt", "contains example.com/orders/"],
      ["https://example.com/o/022bb90c-bbac-11e4-8dfc-aa07a5b093db", "contains example.com/o/"],
      ["https://example.com/u/jane@example.com/a", "contains example.com/u/"],
      ["https://example.com/u/jane%40example.com", "contains example.com/u/"],
      ["https://example.com/@jane", "contains example.com/"],
      ["app://screen/home", "contains screen/home"],
      ["/pricing?x=1", "starts_with /pricing"],
      ["/docs/install/12/step", "starts_with /docs/install/"],
      ["/docs/@jane/posts", "starts_with /docs/"],
      ["/docs/v12/step", "starts_with /docs/v12/step"],
      ["/docs/12x/step", "starts_with /docs/12x/step"],
    ].map(([url, expected]): [JsonObject, string] => [{ url }, `url ${expected}`]),
  ])("of %j is: %s", (properties, expected) => expect(proposed(properties)).toEqual([expected]));

  test.each<JsonObject>([
    { form_id: "contact", leadId: "a" },
    { first_name: "Jane", lastName: "Doe", user: { name: "Jane Doe" } },
    // Under any name: an address, a UUID, a hash, a token, a key, a word that is too long.
    { form: "jane@example.com" },
    { form: "022bb90c-bbac-11e4-8dfc-aa07a5b093db" },
    { form: "d41d8cd98f00b204" },
    { form: "dGhpcyBpcyBhIHRva2Vu" },
    { form: "sk_Zb3kQ9xY1mN7pR4tV8wA2cD6fG0hJ5lS3uE9" },
    // Times, amounts and numbers that are no step.
    { stage: "2026-02-12T19:11:01.152Z" },
    { stage: "12.2.2026 morning" },
    { colour: 12.5, price: "99 EUR", step: 12_345, width: 3 },
    { form: "Order 10423", plan: "2026-1" },
    // Free text.
    { topic: "word ".repeat(17), message: "Call me" },
    { topic: "one\ntwo", plan: "demo\n" },
    { referrer: "https://example.com/a", avatar_url: "https://example.com/a.png" },
    { path: "/1042/a", page_path: "/" },
    { topic: "see https://example.com/?token=1 now" },
    // The type of an answer is the same whatever was answered.
    { answers: [{ type: "email", email: "jane@example.com" }] },
    { answers: [{ type: "text", text: "jane@example.com", field: { id: "a", type: "short_text" } }] },
    { form: { fields: [{ fieldType: "Phone Number", value: "jane@example.com" }] } },
    // Placeholders and nothing.
    { form_name: "{{form.Name}}", plan: "undefined", campaign: "(not set)" },
    { form_name: null, plan: "", tags: [], type: {} },
  ])("is not proposed for %j", (properties) => expect(proposed(properties)).toEqual([]));

  test("is not proposed for a trait or id of the person, under any name", () => {
    const sample = signal(
      { kind: "Acme", type: "ENGINEER", form: "u-7", plan: "Pro" },
      { traits: { company: "Acme", title: "Engineer" }, userId: "u-7" },
    );
    expect(proposeRule(sample).conditions.map(({ path }) => path)).toEqual(["properties.plan"]);
  });

  test("ranks first by kind, then by the payload's order, five at most", () => {
    const properties = { colour: "blue", beta: true, plan: "Pro", alpha: true, form_name: "Contact" };
    expect(proposed(properties)).toEqual([
      "plan equals Pro",
      "form_name equals Contact",
      "beta is_true",
      "alpha is_true",
    ]);
    const flags = Object.fromEntries(["a", "b", "c", "d", "e", "f"].map((name) => [name, true]));
    expect(proposed(flags)).toEqual(["a", "b", "c", "d", "e"].map((name) => `${name} is_true`));
  });

  test("is proposed once for the same value", () => {
    expect(proposed({ form_name: "Contact", page_title: "contact" })).toEqual(["form_name equals Contact"]);
  });

  test("is not proposed for names that no path reaches", () => {
    expect(proposed({ "": "x", ".": "x", "a..b": "x", "a.b": { c: "x" }, [`long${"g".repeat(255)}`]: "x" })).toEqual(
      [],
    );
    expect(proposed({ plan: { name: "Pro" }, "plan.name": "Free" })).toEqual(["plan.name equals Free"]);
  });
});

describe("§6.3 a proposed rule", () => {
  const word = fc.constantFrom(..."form name plan user id url is_trial a.b tags __proto__ x[0]".split(" "));
  const fieldName = fc.oneof(
    word,
    fc.string({ unit: "binary", maxLength: 8 }),
    fc.tuple(word, word).map((two) => two.join(".")),
  );
  const text = fc.oneof(
    fc.string({ unit: "binary", maxLength: 300 }),
    fc.webUrl({ withQueryParameters: true }),
    fc.constantFrom("Contact us", " Pro ", "ΟΔΟΣ", "İstanbul", "/a?b", "true", "3", "https://example.com/ΑΣ?x"),
  );
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: "small" },
      text,
      fc.boolean(),
      fc.double(),
      fc.integer(),
      fc.constant(null),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(fieldName, tie("value"), { maxKeys: 5 }),
    ),
  }));
  // Properties as JSON.parse returns them, including __proto__.
  const properties = fc
    .dictionary(fieldName, value, { maxKeys: 8 })
    .map((sent): JsonObject => JSON.parse(JSON.stringify(sent)));
  const event = fc.string({ unit: "grapheme", maxLength: 60 }).map((sent) => `E${sent.normalize("NFC")}*!`);

  test("is valid and matches its own sample, for any payload", () => {
    let withConditions = 0;
    fc.assert(
      fc.property(properties, event, (sent, name) => {
        const sample = signal(sent, { event: name });
        const draft = proposeRule(sample);
        if (draft.conditions.length > 0) withConditions += 1;
        expect(matchesItsSample(sample)).toBe(true);
        expect(draft.conditions.length).toBeLessThanOrEqual(5);
        expect(draft.conditions.every(({ path }) => isRulePath(path))).toBe(true);
        const { scoringSignal, ...rest } = draft;
        expect(newRule.parse({ ...rest, scoring_signal: scoringSignal })).toMatchObject(rest);
      }),
      { numRuns: 1_000 },
    );
    expect(withConditions).toBeGreaterThan(300);
  });

  test("is valid for an event with invisible characters", () => {
    const { scoringSignal, ...rest } = proposeRule(signal({}, { event: "De\u200Bmo\u200E" }));
    expect([rest.name, rest.event, scoringSignal]).toEqual(["Demo", "De\u200Bmo\u200E", "Demo"]);
    expect(newRule.safeParse({ ...rest, scoring_signal: scoringSignal }).success).toBe(true);
  });

  test("is valid with the longest event name and value", () => {
    const draft = proposeRule(signal({ form_name: "n".repeat(40) }, { event: "😀".repeat(255) }));
    expect(draft.conditions).toHaveLength(1);
    expect(isEventPattern(draft.event)).toBe(true);
    expect(fitsName(draft.name)).toBe(true);
    expect(fitsName(draft.scoringSignal)).toBe(true);
    expect(proposed({ url: `https://example.com/${"a/".repeat(200)}` })).toEqual([]);
  });

  test("is computed without delay for hostile texts", () => {
    const [a, at] = ["a".repeat(60_000), "a@".repeat(30_000)];
    const hostile = [`//${a} `, `/${a} `, at, `//${at} `];
    const ms = cpuMs(() => {
      for (const url of hostile) expect(proposed({ url })).toEqual([]);
    });
    expect(ms).toBeLessThan(1_000);
  });
});

describe("§6.3 the shape of a proposed text", () => {
  const isProposed = (form: string) => proposed({ form }).length === 1;

  test.each([
    ["abcdef1", true],
    ["abcdef12", false],
    ["abcdefgh", true],
    ["xabcdef12", true],
    ["abcdef12x", true],
    ["aB1cD2eF3gH4iJ5", true],
    ["aB1cD2eF3gH4iJ5k", false],
    ["a".repeat(40), true],
    ["a".repeat(41), false],
    ["Contact us", true],
    ["contact/us", true],
    ["word ".repeat(16).padEnd(80, "s"), true],
    ["word ".repeat(16).padEnd(81, "s"), false],
  ])("of %s: %s", (text, expected) => {
    expect(isProposed(text)).toBe(expected);
  });

  test("is truncated in the rule's name, without spaces at the ends", () => {
    const event = "e".repeat(250);
    expect(proposeRule(signal({ form: " x y " }, { event })).name).toBe(`${event}: x y`);
    expect(proposeRule(signal({ form: "xy z" }, { event: "e".repeat(251) })).name).toBe(`${"e".repeat(251)}: xy`);
    expect(proposeRule(signal({ form: " Demo " })).name).toBe("A: Demo");
  });
});
