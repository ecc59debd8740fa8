/** Design §8.5: the signals that mapping rules match. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { evaluate } from "../../../../src/domain/rules/evaluate-rules.ts";
import {
  COMPARATOR_NAMES,
  conditionValue,
  type MappingCondition,
  type ComparatorName,
} from "../../../../src/domain/rules/comparators.ts";
import {
  compileRules,
  eventRange,
  isAboutEvent,
  isEventPattern,
  isRulePath,
  POINTS_LAST_DAYS,
  propertyPaths,
  type MappingRule,
  type RuleMatch,
} from "../../../../src/domain/rules/mapping-rule.ts";
import { readPayload } from "../../../../src/domain/json/json-value.ts";
import type { NormalisedSignal } from "../../../../src/domain/signal/signal.ts";
import { RULE_PATH_MAX_ELEMENTS, RULES_MAX_STEPS } from "../../../../src/limits.ts";

const SCORES = { match: "all", scoringSignal: "Interest", points: 5 } as const;
const rule = (more: Partial<MappingRule>): MappingRule => ({
  ...SCORES,
  id: "r1",
  version: 1,
  event: "*",
  conditions: [],
  ...more,
});
function signal(more: Partial<NormalisedSignal>): NormalisedSignal {
  return { kind: "signal", event: "A", source: "unknown", hasOwnId: false, properties: {}, traits: {}, ...more };
}
function matchesOf(...args: Parameters<typeof evaluate>): RuleMatch[] {
  return evaluate(...args)?.matches ?? [];
}
function matching(rules: MappingRule[], of: NormalisedSignal, email?: string): string[] {
  return matchesOf(compileRules(rules), of, email)
    .map((match) => match.ruleId)
    .toSorted();
}
function holds(condition: MappingCondition, of: NormalisedSignal, email?: string): boolean {
  return matching([rule({ conditions: [condition] })], of, email).length === 1;
}

function onX(operator: ComparatorName, value: MappingCondition["value"]): MappingCondition {
  return value === undefined ? { path: "properties.x", operator } : { path: "properties.x", operator, value };
}

describe("§8.5 an event pattern", () => {
  test.each([
    ["Form Filled", "Form Filled", true],
    ["form filled", "Form Filled", false],
    ["Form", "Form Filled", false],
    [" Form Filled ", "Form Filled", true],
    ["*", "Form Filled", true],
    ["Form Filled*", "Form Filled", true],
    ["Form F*m Filled", "Form Filled", false],
    ["*o*m*F*", "Form Filled", true],
    ["a*bc*cd", "abcd", false],
    ["a.(b)", "a.(b)", true],
    ["a.*", "ab", false],
    ["constructor", "toString", false],
  ])("%j matches %j: %s", (event, name, matches) => {
    expect(matching([rule({ event })], signal({ event: name }))).toEqual(matches ? ["r1"] : []);
    expect(isAboutEvent(compileRules([rule({ event: "Z*" }), rule({ event })]), name)).toBe(matches);
  });

  test("has 1 to 255 characters, not all blank", () => {
    const patterns = ["A", "*", "A*", "x".repeat(255), "", "  ", "x".repeat(256)];
    expect(patterns.map(isEventPattern)).toEqual([true, true, true, true, false, false, false]);
  });

  test("gives the prefix of its events", () => {
    expect(eventRange("Signed Up")).toEqual({ prefix: "Signed Up", exact: true });
    expect(eventRange("  Page *  ")).toEqual({ prefix: "Page ", exact: false });
    expect(eventRange("*Order*")).toEqual({ prefix: "", exact: false });
  });
});

describe("§8.5 the operator", () => {
  type Row = [operator: ComparatorName, sent: unknown, value: MappingCondition["value"], holds: boolean];
  const rows: Row[] = [
    ["equals", "Contact", "contact", true],
    ["equals", "Contact us", "contact", false],
    ["equals", "", "", true],
    ["equals", 5, 5, true],
    ["equals", 5, "5.0", true],
    ["equals", " 5 ", 5, true],
    ["equals", "007", 7, true],
    ["equals", "0x10", 16, false],
    ["equals", "1e3", 1000, false],
    ["equals", "", 0, false],
    ["equals", true, "TRUE", true],
    ["equals", "true", true, true],
    ["equals", true, 1, false],
    ["equals", null, "null", false],
    ["equals", { a: 1 }, "[object Object]", false],
    ["equals", ["a"], "a", false],
    ["equals", "12345678901234567890", "12345678901234567891", false],
    ["equals", "12345678901234567890", "12345678901234567890", true],
    ["not_equals", "Contact", "contact", false],
    ["not_equals", "Other", "contact", true],
    ["not_equals", 5, "5", false],
    ["not_equals", null, "x", true],
    ["not_equals", { a: 1 }, "x", true],
    ["contains", "Pricing Page", "ING p", true],
    ["contains", "Pricing", "page", false],
    ["contains", 12345, "234", true],
    ["contains", ["pricing"], "pricing", false],
    ["contains", null, "", false],
    ["not_contains", "Pricing Page", "page", false],
    ["not_contains", "Pricing", "page", true],
    ["not_contains", null, "page", true],
    ["contains_any", "Mozilla/5.0 HeadlessChrome/120", ["curl/", "headlesschrome"], true],
    ["contains_any", "Mozilla/5.0 Firefox/120", ["curl/", "headlesschrome"], false],
    ["starts_with", "https://Example.com/a", "HTTPS://example", true],
    ["starts_with", "a https://", "https://", false],
    ["ends_with", "report.PDF", ".pdf", true],
    ["ends_with", "report.pdf?x", ".pdf", false],
    ["in", "DE", ["fr", "de"], true],
    ["in", 2, ["1", "2.0"], true],
    ["in", "it", ["fr", "de"], false],
    ["in", "de", "DE", true],
    ["in", "de", [], false],
    ["greater_than", 5, 4, true],
    ["greater_than", 5, 5, false],
    ["greater_than", "10", "9", true],
    ["greater_than", " -1.5", "-2", true],
    ["greater_than", "abc", 1, false],
    ["greater_than", "", -1, false],
    ["greater_than", "0x10", 1, false],
    ["greater_than", "2026-02-01", "2026-01-01", false],
    ["greater_than", 5, "many", false],
    ["greater_than", true, 0, false],
    ["greater_than", null, -1, false],
    ["greater_or_equal", 5, 5, true],
    ["greater_or_equal", 4.99, 5, false],
    ["less_than", ".5", 1, true],
    ["less_than", 1, 1, false],
    ["less_than", null, 1, false],
    ["less_than", "abc", 1, false],
    ["less_or_equal", 1, "1", true],
    ["less_or_equal", 1.01, "1", false],
    ["exists", "x", undefined, true],
    ["exists", "", undefined, true],
    ["exists", false, undefined, true],
    ["exists", {}, undefined, true],
    ["exists", null, undefined, false],
    ["not_exists", null, undefined, true],
    ["not_exists", 0, undefined, false],
    ["is_true", true, undefined, true],
    ["is_true", "True", undefined, true],
    ["is_true", false, undefined, false],
    ["is_true", 1, undefined, true],
    ["is_true", "1", undefined, true],
    ["is_true", 2, undefined, false],
    ["is_true", null, undefined, false],
    ["is_false", false, undefined, true],
    ["is_false", "FALSE", undefined, true],
    ["is_false", true, undefined, false],
    ["is_false", 0, undefined, true],
    ["is_false", 1, undefined, false],
    ["equals", "Cafe\u0301", "caf\u00e9", true],
    ["contains", "Im Cafe\u0301", "CAF\u00c9", true],
    ["starts_with", "caf\u00e9 am", "cafe\u0301", true],
    ["in", "cafe\u0301", ["bar", "Caf\u00e9"], true],
    ["is_false", "", undefined, false],
  ];
  test.each(rows)("%s: %j against %j is %s", (operator, sent, value, expected) =>
    expect(holds(onX(operator, value), signal({ properties: { x: sent } }))).toBe(expected),
  );
  test.each<[sent: string, operator: ComparatorName, value: MappingCondition["value"], expected: boolean]>([
    ["76159173374952512310", "equals", "76159173374952512310", true],
    ["76159173374952512310", "equals", "76159173374952512311", false],
    ["76159173374952512310", "not_equals", "76159173374952512311", true],
    ["7615917337495251231.0e1", "equals", " 76159173374952512310", true],
    ['"76159173374952512310"', "in", ["1", "76159173374952512310.0"], true],
    ["76159173374952512310", "in", ["76159173374952512311", "1"], false],
    ["76159173374952512310", "starts_with", "7615917337495251231", true],
    ["76159173374952512310", "contains", "2310", true],
    ["76159173374952512311", "greater_than", "76159173374952512310", true],
    ["1234567890123456019100.901090099009", "less_than", "1234567890123456090000.0", true],
    ["76159173374952512310", "greater_than", "76159173374952512310", false],
    ["-76159173374952512311", "greater_than", "-76159173374952512310", false],
    ["76159173374952512310", "greater_or_equal", "+76159173374952512310", true],
    ["0.12345678901234567891", "less_than", "0.12345678901234567892", true],
    ["9007199254740993", "less_or_equal", 9007199254740992, false],
    ["1e400", "greater_than", 5, true],
    ["-1e400", "less_than", 5, true],
    ["1e-400", "equals", 0, false],
    ["1e-400", "greater_than", 0, true],
    ["-1e-400", "less_than", 0, true],
    ["0", "greater_than", "-0.00000000000000000001", true],
    ["12345678901234567000", "equals", "12345678901234567000", true],
  ])("a number is compared with all digits that were sent: %s %s %j is %s", (sent, operator, value, expected) => {
    const { x } = readPayload(`{"x":${sent}}`) as { x: unknown };
    expect(holds(onX(operator, value), signal({ properties: { x } }))).toBe(expected);
  });

  test("numbers are compared as exact decimals, however they are written", () => {
    const digits = (maxLength: number) =>
      fc.string({ unit: fc.constantFrom("0", "0", "1", "9"), minLength: 1, maxLength });
    const decimal = fc
      .tuple(fc.constantFrom("", "-"), fc.constantFrom("0", "9", "1234567890123456"), digits(8), digits(22))
      .map(([sign, first, whole, fraction]) => {
        const text = `${sign}${first === "0" ? "0" : first + whole}.${fraction}`;
        return { text, units: BigInt(text.replace(".", "").padEnd(text.length - 1 + 22 - fraction.length, "0")) };
      });
    const near = decimal.chain((one) => fc.tuple(fc.constant(one), fc.oneof(decimal, fc.constant(one))));
    fc.assert(
      fc.property(near, fc.boolean(), ([one, other], asText) => {
        const { x } = readPayload(`{"x":${asText ? JSON.stringify(one.text) : one.text}}`) as { x: unknown };
        const compared = (["less_than", "equals", "greater_than"] as const).map((operator) =>
          holds(onX(operator, other.text), signal({ properties: { x } })),
        );
        const expected = [one.units < other.units, one.units === other.units, one.units > other.units];
        expect([one.text, other.text, compared]).toEqual([one.text, other.text, expected]);
      }),
    );
  });

  test("every operator has rows where it holds and rows where it does not", () => {
    for (const operator of COMPARATOR_NAMES) {
      const results = new Set(rows.filter((row) => row[0] === operator).map((row) => row[3]));
      expect([operator, results.size]).toEqual([operator, 2]);
    }
  });

  test.each(COMPARATOR_NAMES)("%s holds for a missing path only if it is a not_ operator", (operator) => {
    const value = conditionValue(operator) === "none" ? undefined : conditionValue(operator) === "list" ? ["x"] : "x";
    expect(holds(onX(operator, value), signal({ properties: { y: 1 } }))).toBe(operator.startsWith("not_"));
  });
  test.each(["not_equals", "not_contains", "contains_any", "equals", "contains", "in"] as const)(
    "%s without a value, which no validated rule has, never holds",
    (operator) => expect(holds(onX(operator, undefined), signal({ properties: { x: 1 } }))).toBe(false),
  );
});

describe("§8.5 a condition", () => {
  const sent = signal({
    event: "Form Filled",
    source: "Marketing",
    email: "jane@example.com",
    properties: { form: { name: "Contact" }, items: [{ sku: "A1" }, { sku: "B2" }, { x: null }], none: [] },
  });
  test.each<[MappingCondition, boolean]>([
    [{ path: "event", operator: "ends_with", value: "filled" }, true],
    [{ path: "source", operator: "equals", value: "marketing" }, true],
    [{ path: "email", operator: "ends_with", value: "@EXAMPLE.com" }, true],
    [{ path: "properties.form.name", operator: "equals", value: "contact" }, true],
    [{ path: "properties.form.toString", operator: "not_exists" }, true],
    // One element is enough; for a not_ operator no element may match.
    [{ path: "properties.items[].sku", operator: "equals", value: "b2" }, true],
    [{ path: "properties.items[].sku", operator: "equals", value: "c3" }, false],
    [{ path: "properties.items[].sku", operator: "not_equals", value: "b2" }, false],
    [{ path: "properties.items[].sku", operator: "not_equals", value: "c3" }, true],
    [{ path: "properties.items[].x", operator: "exists" }, false],
    [{ path: "properties.none[].x", operator: "not_exists" }, true],
    // No validated rule has this path.
    [{ path: "userId", operator: "not_exists" }, false],
  ])("%j holds: %s", (condition, expected) => expect(holds(condition, sent)).toBe(expected));

  test.each<[path: string, value: string, expected: boolean]>([
    ["properties.fields[name=PLAN].value", "pro", true],
    ["properties.fields[name=size].value", "pro", false],
    ["properties.fields[name=p*].value", "pro", true],
    ["properties.*.sku", "b2", true],
    ["properties.*.sku", "c3", false],
    [`properties."a.b"`, "dotted", true],
    ["properties.utm[source=x]", "named", true],
    ["payload.context.campaign.name", "spring", true],
    ["payload.properties.*.sku", "a1", true],
    ["payload.list[id=1].value", "first", true],
    ["payload.missing", "first", false],
  ])("reads any member, conditions and the signal as sent: %s equals %j is %s", (path, value, expected) => {
    const properties = {
      fields: [
        { name: "plan", value: "pro" },
        { name: "size", value: "5" },
      ],
      x: { sku: "A1" },
      y: { sku: "B2" },
      "a.b": "dotted",
      "utm[source=x]": "named",
    };
    const payload = { properties, context: { campaign: { name: "Spring" } }, list: [{ id: 1, value: "first" }] };
    const condition: MappingCondition = { path, operator: "equals", value };
    expect(isRulePath(path)).toBe(true);
    expect(holds(condition, { ...signal({ properties }), payload } as NormalisedSignal)).toBe(expected);
    const isOfPayload = path.startsWith("payload.");
    expect(holds(condition, signal({ properties }))).toBe(expected && !isOfPayload);
  });

  test("on the email takes the person's if the signal has none", () => {
    const condition: MappingCondition = { path: "email", operator: "equals", value: "jane@example.com" };
    expect([holds(condition, signal({}), "jane@example.com"), holds(condition, signal({}))]).toEqual([true, false]);
    expect(holds({ path: "email", operator: "not_exists" }, signal({}))).toBe(true);
    const asks = (path: string) => compileRules([rule({ conditions: [{ path, operator: "exists" }] })]).asksForEmail;
    expect([asks("email"), asks("properties.email"), compileRules([rule({})]).asksForEmail]).toEqual([
      true,
      false,
      false,
    ]);
  });

  test("has a path to the event, the source, the email or a property", () => {
    const paths = [
      "event",
      "source",
      "email",
      "properties.x",
      "properties.items[].sku",
      "properties.Form Name",
      "payload.a.*",
    ];
    expect(paths.filter((path) => !isRulePath(path))).toEqual([]);
    const invalid = [
      "",
      "Event",
      "properties",
      "properties.",
      "properties..a",
      "payload",
      "payload.",
      "payloads.x",
      "event.x",
      "userId",
      "__proto__",
    ];
    expect([...invalid, `properties.${"x".repeat(255)}`].filter(isRulePath)).toEqual([]);
  });

  const yes: MappingCondition = { path: "event", operator: "exists" };
  const no: MappingCondition = { path: "event", operator: "not_exists" };
  test.each<["all" | "any", MappingCondition[], boolean]>([
    ["all", [], true],
    ["any", [], true],
    ["all", [yes, yes], true],
    ["all", [yes, no], false],
    ["all", [no, yes], false],
    ["any", [no, yes], true],
    ["any", [yes, no], true],
    ["any", [no, no], false],
  ])("of a rule holds with the others: %s of %j is %s", (match, conditions, expected) =>
    expect(matching([rule({ match, conditions })], signal({}))).toEqual(expected ? ["r1"] : []),
  );
});

describe("§8.5 a match", () => {
  test("has rule, version, scoring signal and points; rules count as tried if their event matches", () => {
    const compiled = compileRules([
      rule({ id: "r1", version: 3, event: "A", scoringSignal: "Unsubscribed", points: -20 }),
      rule({ id: "r2", event: "A", conditions: [{ path: "email", operator: "exists" }] }),
      rule({ id: "r3", event: "B" }),
      rule({ id: "r4", event: "A*" }),
      rule({ id: "r5", event: "B*" }),
    ]);
    expect(evaluate(compiled, signal({ event: "A" }))).toEqual({
      rulesTried: 3,
      matches: [
        { ruleId: "r1", ruleVersion: 3, scoringSignal: "Unsubscribed", points: -20 },
        { ruleId: "r4", ruleVersion: 1, scoringSignal: "Interest", points: 5 },
      ],
    });
  });
  test("is a frozen object shared by all matching signals", () => {
    const compiled = compileRules([rule({ event: "A" }), rule({ event: "*" })]);
    const [first, next] = [matchesOf(compiled, signal({})), matchesOf(compiled, signal({}))];
    for (const [index, match] of first.entries()) {
      expect(next[index]).toBe(match);
      expect(() => Object.assign(match, { points: 1_000 })).toThrow("read only");
    }
    expect(next.map((match) => match.points)).toEqual([5, 5]);
  });

  test.each<[Partial<MappingRule>, Partial<RuleMatch>]>([
    [{}, {}],
    [{ frequency: "every_time", pointsLastDays: null }, {}],
    [{ frequency: "once_per_day" }, { frequency: "once_per_day" }],
    [{ frequency: "once_ever" }, { frequency: "once_ever" }],
    ...POINTS_LAST_DAYS.map((days): [object, object] => [{ pointsLastDays: days }, { lastDays: days }]),
  ])("of a rule with %j has %j, and no other field", (more, added) => {
    const match = { ruleId: "r1", ruleVersion: 1, scoringSignal: "Interest", points: 5 };
    expect(matchesOf(compileRules([rule(more)]), signal({}))).toStrictEqual([{ ...match, ...added }]);
  });
});

describe("§8.5 the step budget of an evaluation", () => {
  const inList = (of: string, count: number): MappingCondition => ({
    path: "properties.a[]",
    operator: "in",
    value: Array.from({ length: count }, (_, index) => `${of} ${index}`),
  });
  const elements = (count: number) => signal({ properties: { a: Array.from({ length: count }, (_, n) => n) } });
  const times = (count: number, conditions: MappingCondition[] | ((nth: number) => MappingCondition), event = "*") =>
    compileRules(
      Array.from({ length: count }, (_, nth) =>
        rule({ id: `r${nth}`, event, conditions: Array.isArray(conditions) ? conditions : [conditions(nth)] }),
      ),
    );

  test("ends an evaluation without matches once it is exceeded", () => {
    const compiled = times(200, [inList("v", 200)]);
    const cheap = compileRules([rule({ id: "first" }), rule({ id: "also", conditions: [inList("v", 1)] })]);
    expect(evaluate(cheap, elements(3_000))).toMatchObject({ matches: [{ ruleId: "first" }] });
    expect(evaluate(compiled, elements(3_000))).toBeNull();
    expect(evaluate(compiled, elements(10))).not.toBeNull();
  });

  test.each([
    ["rules", times(RULES_MAX_STEPS + 1, [])],
    ["rules of one event", times(RULES_MAX_STEPS + 1, [], "A")],
    ["parts of patterns", times(1 + RULES_MAX_STEPS / 100, [], `A${"*b".repeat(100)}`)],
    ["conditions", times(1, Array<MappingCondition>(RULES_MAX_STEPS + 1).fill(onX("exists", undefined)))],
    ["elements", times(1 + RULES_MAX_STEPS / 1_000, [{ path: "properties.a[]", operator: "equals", value: "none" }])],
    ["elements of which nothing is taken", times(1 + RULES_MAX_STEPS / 1_000, elementPath)],
    ["characters that are read", times(20, textPath)],
    [
      "characters that are searched several times",
      times(1, [{ path: "properties.text", operator: "contains_any", value: Array.from({ length: 20 }, () => "b") }]),
    ],
    ["characters that are searched", times(20, [{ path: "properties.text", operator: "not_contains", value: "b" }])],
  ])("counts %s", (_, compiled) => {
    const text = "a".repeat(60_000);
    const properties = {
      a: Array.from({ length: 1_000 }, (__, n) => n),
      texts: Array.from({ length: 20 }, (__, n) => text + String(n)),
      text,
      x: 1,
    };
    expect(evaluate(compiled, signal({ properties }))).toBeNull();
  });

  /** Each rule reads the elements separately. */
  function elementPath(nth: number): MappingCondition {
    return { path: `properties.a[].x${nth}`, operator: "not_exists" };
  }
  /** Each rule reads another text. */
  function textPath(nth: number): MappingCondition {
    return { path: `properties.texts[${nth}]`, operator: "exists" };
  }

  test("counts the conversion of a long text once, for any number of paths", () => {
    const paths = times(200, (nth) => ({ path: `properties.texts[${"0".repeat(nth + 1)}]`, operator: "exists" }));
    const sent = signal({ properties: { texts: ["a".repeat(60_000)] } });
    expect(evaluate(paths, sent)).toMatchObject({ rulesTried: 200 });
  });

  test("counts the levels of deep paths", () => {
    const deep = (nth: number) => `properties.${"a.".repeat(110)}${nth}`;
    const paths = times(1_200, (nth) => ({ path: deep(nth), operator: "equals", value: 1 }));
    const nested = Array.from({ length: 28 }).reduce<NormalisedSignal["properties"]>((inner) => ({ a: inner }), {});
    expect(evaluate(paths, signal({ properties: nested }))).toBeNull();
    expect(evaluate(paths, signal({ properties: {} }))).not.toBeNull();
  });

  test.each([
    ["an array", "properties.a[]", 1, (array: unknown[]) => ({ a: array })],
    ["arrays in an array", "properties.l[].m[]", 2, (array: unknown[]) => ({ l: array.map((m) => ({ m: [m] })) })],
  ] as const)("limits the elements read of %s to the first ones", (_, path, looks, propertiesOf) => {
    const seen = RULE_PATH_MAX_ELEMENTS / looks;
    const array = Array.from({ length: seen + 1 }, (__, n) => `e${n}`);
    const sent = signal({ properties: propertiesOf(array) });
    expect(holds({ path, operator: "equals", value: `e${seen - 1}` }, sent)).toBe(true);
    expect(holds({ path, operator: "equals", value: `e${seen}` }, sent)).toBe(false);
  });
});

/** The textbook algorithm: whether `pattern` from `p` on matches `name` from `n` on. */
function globFits(pattern: string, name: string, p = 0, n = 0): boolean {
  if (p === pattern.length) return n === name.length;
  if (pattern[p] === "*")
    return globFits(pattern, name, p + 1, n) || (n < name.length && globFits(pattern, name, p, n + 1));
  return pattern[p] === name[n] && globFits(pattern, name, p + 1, n + 1);
}

test("§8.5 evaluating all rules at once equals evaluating each rule whose pattern matches", () => {
  const pattern = fc.string({ unit: fc.constantFrom("a", "b", "*"), minLength: 1, maxLength: 6 });
  const condition = fc.record({
    path: fc.constantFrom("event", "email", "properties.x", "properties.y", "properties.l[].x"),
    operator: fc.constantFrom(...COMPARATOR_NAMES),
    value: fc.constantFrom<string | number>("a", "1", 1, 2, "true"),
  });
  const anyRule = fc.record({
    event: pattern,
    match: fc.constantFrom<"all" | "any">("all", "any"),
    conditions: fc.array(condition, { maxLength: 3 }),
  });
  const value = fc.constantFrom<unknown>("a", "A", 1, "2", true, null, {}, [{ x: 1 }, { x: "a" }]);
  const anySignal = fc.record({
    event: fc.string({ unit: fc.constantFrom("a", "b"), minLength: 1, maxLength: 6 }),
    properties: fc.record({ x: value, y: value, l: value }, { requiredKeys: [] }),
  });
  fc.assert(
    fc.property(fc.array(anyRule, { maxLength: 12 }), anySignal, (drafts, sent) => {
      const rules = drafts.map((draft, index) => rule({ ...draft, id: `r${index}` }));
      const fitting = rules.filter(({ event }) => globFits(event, sent.event));
      const alone = fitting.filter(
        (fittingRule) => matching([{ ...fittingRule, event: "*" }], signal(sent)).length === 1,
      );
      expect(evaluate(compileRules(rules), signal(sent))?.rulesTried).toBe(fitting.length);
      expect(matching(rules, signal(sent))).toEqual(alone.map(({ id }) => id).toSorted());
    }),
    { numRuns: 500 },
  );
});

describe("the paths of properties", () => {
  test("are those of every value once, of arrays the first element's", () => {
    const samples = [
      { plan: "pro", cart: { items: [{ sku: "a", tags: ["x"] }, { other: 1 }] }, "utm[source]": "s", gone: null },
      { plan: "free", late: true },
    ];
    expect(propertyPaths(samples, 100)).toEqual([
      "properties.plan",
      "properties.cart.items[].sku",
      "properties.cart.items[].tags[]",
      "properties.utm[source]",
      "properties.gone",
      "properties.late",
    ]);
  });

  test("omit values that no path reaches", () => {
    const long = "x".repeat(300);
    const properties = { "": 1, "a[0]": 1, nothing: {}, none: [], "a.b": { "": 2 }, [long]: 1, fine: 1 };
    expect(propertyPaths([properties], 100)).toEqual(["properties.a[0]", "properties.fine"]);
  });

  test("end at the limit without a further look", () => {
    const ownKeys = () => expect.fail("looked at");
    const endless = new Proxy({}, { ownKeys });
    expect(propertyPaths([{ a: 1, b: 2, c: 3, endless }], 2)).toEqual(["properties.a", "properties.b"]);
  });
});
