/** Conditions about the same element of a list. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isJsonObject, type JsonObject } from "../../../../src/domain/json/json-value.ts";
import {
  COMPARATOR_NAMES,
  type ComparatorName,
  type MappingCondition,
} from "../../../../src/domain/rules/comparators.ts";
import { evaluate } from "../../../../src/domain/rules/evaluate-rules.ts";
import { compileRules, type MappingRule } from "../../../../src/domain/rules/mapping-rule.ts";
import { RULE_PATH_MAX_ELEMENTS, RULES_MAX_STEPS } from "../../../../src/limits.ts";
import { newExclusion, newRule } from "../../../../src/use-cases/rule-schema.ts";

const SCORES = { id: "r1", version: 1, event: "*", match: "all", scoringSignal: "Interest", points: 5 } as const;

function evaluated(properties: JsonObject, conditions: MappingCondition[], match: MappingRule["match"] = "all") {
  return evaluate(compileRules([{ ...SCORES, match, conditions }]), { event: "A", source: "unknown", properties });
}

function holds(...args: Parameters<typeof evaluated>): boolean {
  return evaluated(...args)?.matches.length === 1;
}

type Text = [path: string, operator: ComparatorName, value?: string | number];

/** The conditions of a rule; `+` before a path: about the same element as the condition before. */
function conditionsOf(...texts: Text[]): MappingCondition[] {
  return texts.map(([path, operator, value]) => ({
    path: `properties.${path.replace(/^\+/, "")}`,
    operator,
    ...(value !== undefined && { value }),
    ...(path.startsWith("+") && { same_element: true }),
  }));
}

const ORDER = {
  total: 150,
  items: [
    { sku: "A1", price: 5, tags: ["new"], fields: [{ name: "size", value: "L" }], parts: [{ id: 1, count: 9 }] },
    {
      sku: "B2",
      price: 100,
      tags: ["sale"],
      "a.b": "dotted",
      parts: [
        { id: 2, count: 1 },
        { id: 3, count: 5 },
      ],
    },
  ],
  ids: ["x1", "y2"],
  none: [],
  some: [null, { x: 1 }],
  text: "B2",
};

describe("conditions about the same element", () => {
  test.each<[holds: boolean, ...Text[]]>([
    [true, ["items[].sku", "equals", "A1"], ["+items[].price", "less_than", 10]],
    [false, ["items[].sku", "equals", "A1"], ["+items[].price", "greater_than", 10]],
    // Without the same element, each condition may be met by another one.
    [true, ["items[].sku", "equals", "A1"], ["items[].price", "greater_than", 10]],
    // Negations are about the element.
    [true, ["items[].sku", "not_equals", "A1"], ["+items[].price", "greater_than", 10]],
    [false, ["items[].sku", "not_equals", "A1"], ["+items[].price", "less_than", 10]],
    [true, ["items[].sku", "equals", "A1"], ["+items[].a.b", "not_exists"]],
    [false, ["items[].sku", "equals", "B2"], ["+items[].a.b", "not_exists"]],
    [true, ["items[].a.b", "equals", "dotted"], ["+items[].tags[0]", "equals", "sale"]],
    // An element is needed.
    [false, ["none[].x", "not_exists"], ["+none[].y", "not_exists"]],
    [false, ["missing[].x", "not_exists"], ["+missing[].y", "not_exists"]],
    [false, ["text[].x", "not_exists"], ["+text[].y", "not_exists"]],
    [true, ["some[].x", "not_exists"], ["+some[].y", "not_exists"]],
    // The element itself, and what selectors find in it.
    [true, ["ids[]", "starts_with", "x"], ["+ids[]", "ends_with", "1"]],
    [false, ["ids[]", "starts_with", "x"], ["+ids[]", "ends_with", "2"]],
    [true, ["items[].fields[name=size].value", "equals", "L"], ["+items[].sku", "equals", "A1"]],
    [false, ["items[].fields[name=size].value", "equals", "L"], ["+items[].sku", "equals", "B2"]],
    // The element of the last list.
    [true, ["items[].parts[].id", "equals", 3], ["+items[].parts[].count", "equals", 5]],
    [false, ["items[].parts[].id", "equals", 2], ["+items[].parts[].count", "equals", 5]],
    [true, ["items[0].parts[].id", "equals", 1], ["+items[0].parts[].count", "equals", 9]],
    // Groups and other conditions.
    [true, ["total", "equals", 150], ["items[].sku", "equals", "B2"], ["+items[].price", "equals", 100]],
    [
      false,
      ["total", "equals", 1],
      ["items[].sku", "equals", "B2"],
      ["+items[].price", "equals", 100],
      ["items[].sku", "equals", "A1"],
    ],
    [
      true,
      ["items[].sku", "equals", "A1"],
      ["+items[].price", "equals", 5],
      ["items[].sku", "equals", "B2"],
      ["+items[].price", "equals", 100],
    ],
    [false, ["items[].sku", "equals", "A1"], ["+items[].price", "equals", 5], ["+items[].tags[0]", "equals", "sale"]],
    // No validated rule has these.
    [false, ["+items[].sku", "equals", "A1"], ["+total", "equals", 150]],
    [false, ["items[].sku", "equals", "A1"], ["+ids[]", "exists"]],
    [false, ["items[].sku", "equals", "A1"], ["+items[].price", "equals"]],
  ])("%s: %j %j %j %j", (expected, ...texts) => {
    expect(holds(ORDER, conditionsOf(...texts.filter((text) => text !== undefined)))).toBe(expected);
  });

  test("count as one condition of a rule of which any must hold", () => {
    const [a1, b2]: [Text, Text] = [
      ["items[].sku", "equals", "A1"],
      ["items[].sku", "equals", "B2"],
    ];
    const [cheap, dear]: [Text, Text] = [
      ["+items[].price", "equals", 5],
      ["+items[].price", "equals", 100],
    ];
    const any = (...texts: Text[]): boolean => holds(ORDER, conditionsOf(...texts), "any");
    expect([any(a1, dear), any(a1, cheap), any(a1, dear, b2, cheap), any(a1, dear, b2, dear)]).toEqual([
      false,
      true,
      false,
      true,
    ]);
    expect([any(["total", "equals", 150], a1, dear), any(["total", "equals", 1], a1, dear)]).toEqual([true, false]);
  });

  test("look at the first elements of a list only", () => {
    const items = Array.from({ length: RULE_PATH_MAX_ELEMENTS + 1 }, (_, n) => ({ n, x: n }));
    const at = (n: number) => conditionsOf(["items[].n", "equals", n], ["+items[].x", "equals", n]);
    expect([RULE_PATH_MAX_ELEMENTS - 1, RULE_PATH_MAX_ELEMENTS].map((n) => holds({ items }, at(n)))).toEqual([
      true,
      false,
    ]);
  });

  test("take no further step from rules without them, and are within the budget of steps", () => {
    const steps = (conditions: MappingCondition[], properties: JsonObject = ORDER): number => {
      const count = { steps: 0 };
      evaluate(compileRules([{ ...SCORES, conditions }]), { event: "A", source: "s", properties }, undefined, count);
      return count.steps;
    };
    const [sku, price]: [Text, Text] = [
      ["items[].sku", "equals", "A1"],
      ["items[].price", "equals", 5],
    ];
    // The pattern, the rule; a condition, two elements, two values, a comparison each.
    expect(steps(conditionsOf(sku, price))).toBe(2 + 2 * 6);
    const items = Array.from({ length: RULE_PATH_MAX_ELEMENTS }, (_, n) => ({ n }));
    const group = conditionsOf(
      ["items[].n", "exists"],
      ...Array.from({ length: 25 }, (): Text => ["+items[].n", "equals", -1]),
    );
    const many = Array.from({ length: 49 }, (): Text => ["+items[].n", "not_equals", -1]);
    const long = conditionsOf(["items[].n", "exists"], ...many, ["+items[].n", "equals", -1]);
    // It ends soon after the limit.
    const beyond = steps(long, { items });
    expect([beyond > RULES_MAX_STEPS, beyond < RULES_MAX_STEPS + 200]).toEqual([true, true]);
    const rules = (count: number) => Array.from({ length: count }, () => ({ ...SCORES, conditions: group }));
    const signal = { event: "A", source: "s", properties: { items } };
    expect(evaluate(compileRules(rules(5)), signal)).not.toBeNull();
    expect(evaluate(compileRules(rules(RULES_MAX_STEPS / RULE_PATH_MAX_ELEMENTS)), signal)).toBeNull();
  });

  test("hold as if each element were alone in its list", () => {
    const scalar = fc.constantFrom<unknown>("a", "b", 1, 2, true, null);
    const part = fc.oneof(scalar, fc.record({ x: scalar, y: scalar }, { requiredKeys: [] }));
    const item = fc.oneof(
      scalar,
      fc.record({ x: scalar, y: scalar, m: fc.oneof(scalar, fc.array(part, { maxLength: 3 })) }, { requiredKeys: [] }),
    );
    const properties = fc.record(
      { l: fc.oneof(fc.array(item, { maxLength: 4 }), scalar), x: scalar },
      { requiredKeys: [] },
    );
    const condition = fc.record({
      tail: fc.constantFrom("", ".x", ".y", ".*"),
      operator: fc.constantFrom(...COMPARATOR_NAMES),
      value: fc.constantFrom<string | number>("a", "b", 1),
    });
    const group = fc.record({
      list: fc.constantFrom("l[]", "l[].m[]"),
      conditions: fc.array(condition, { minLength: 2, maxLength: 4 }),
    });
    const rule = fc.record({
      groups: fc.array(group, { minLength: 1, maxLength: 3 }),
      match: fc.constantFrom<"all" | "any">("all", "any"),
    });
    fc.assert(
      fc.property(properties, rule, (sent, { groups, match }) => {
        const written = groups.map(({ list, conditions }) =>
          conditions.map(({ tail, operator, value }): MappingCondition => ({
            path: `properties.${list}${tail}`,
            operator,
            value,
          })),
        );
        const grouped = written.flatMap(([first, ...joined]) => [
          ...(first === undefined ? [] : [first]),
          ...joined.map((one) => ({ ...one, same_element: true })),
        ]);
        const each = groups.map(({ list }, index) =>
          elementsAlone(sent, list).some((alone) => (written[index] ?? []).every((one) => holds(alone, [one]))),
        );
        expect(holds(sent, grouped, match)).toBe(match === "all" ? each.every(Boolean) : each.some(Boolean));
      }),
      { numRuns: 2_000 },
    );
  });
});

/** The properties with one element of the list, for each element. */
function elementsAlone({ l, ...rest }: JsonObject, list: string): JsonObject[] {
  const outer = Array.isArray(l) ? (l as unknown[]) : [];
  if (list === "l[]") return outer.map((element) => ({ ...rest, l: [element] }));
  return outer.flatMap((element) => {
    if (!isJsonObject(element)) return [];
    const { m, ...others } = element;
    return Array.isArray(m) ? m.map((part: unknown) => ({ ...rest, l: [{ ...others, m: [part] }] })) : [];
  });
}

describe("a rule and an exclusion with conditions about the same element", () => {
  const errorsOf = (...texts: Text[]): [path: string, message: string][] => {
    const [conditions, base] = [conditionsOf(...texts), { name: "n", event: "e", scoring_signal: "s", points: 1 }];
    const [rule, exclusion] = [
      newRule.safeParse({ ...base, conditions }),
      newExclusion.safeParse({ name: "n", conditions }),
    ];
    const errors = (rule.error?.issues ?? []).map(({ path, message }): [string, string] => [path.join("."), message]);
    expect(exclusion.error?.issues.map(({ path, message }) => [path.join("."), message]) ?? []).toEqual(errors);
    return errors;
  };
  const beginWith = (list: string) =>
    `it is about the same element as the condition before it: begin the path with “${list}”, and write no further “[]”`;

  test.each<[errors: [string, string][], ...Text[]]>([
    [[], ["items[].sku", "exists"], ["+items[].price", "exists"], ["+items[]", "exists"]],
    [[], ["items[].fields[name=a].x", "exists"], ["+items[].fields[name=b].x", "exists"]],
    [[], ["a[b[]=x].c[].d", "exists"], ["+a[b[]=x].c[].e", "exists"]],
    [
      [["conditions.0.same_element", "the first condition has none before it: leave “same_element” out"]],
      ["+items[].sku", "exists"],
      ["+total", "exists"],
    ],
    [
      [
        [
          "conditions.0.path",
          "the next condition is about the same element: write a path with “[]”, such as properties.items[].sku",
        ],
      ],
      ["items[0].sku", "exists"],
      ["+items[0].price", "exists"],
    ],
    [[["conditions.1.path", beginWith("properties.items[]")]], ["items[].sku", "exists"], ["+items[0].sku", "exists"]],
    [[["conditions.1.path", beginWith("properties.items[]")]], ["items[].sku", "exists"], ["+total", "exists"]],
    [
      [["conditions.2.path", beginWith("properties.items[]")]],
      ["items[].sku", "exists"],
      ["+items[].price", "exists"],
      ["+items[].parts[].id", "exists"],
    ],
    [
      [["conditions.2.path", beginWith("properties.items[].parts[]")]],
      ["total", "exists"],
      ["items[].parts[].id", "exists"],
      ["+items[].sku", "exists"],
    ],
    [
      [["conditions.1.path", beginWith("properties.a[b[]=x].c[]")]],
      ["a[b[]=x].c[].d", "exists"],
      ["+a[b[]=x].d", "exists"],
    ],
    [[["conditions.1.path", beginWith("properties.items[]")]], ["items[].sku", "exists"], ["+items[]x.sku", "exists"]],
  ])("is rejected with %j", (errors, ...texts) => {
    expect(errorsOf(...texts.filter((text) => text !== undefined))).toEqual(errors);
  });

  test("name a wrong path only, and never repeat a key", () => {
    const key = `sk_${"A1b2C3d4E5".repeat(4)}`;
    const wrong = "use event, source, email, or a path such as properties.form_name";
    expect(errorsOf(["items[]..sku", "exists"], ["+items[].price", "exists"])).toEqual([["conditions.0.path", wrong]]);
    expect(errorsOf(["items[].sku", "exists"], ["+items[]..price", "exists"])).toEqual([["conditions.1.path", wrong]]);
    expect(JSON.stringify(errorsOf([`${key}[].x`, "exists"], ["+total", "exists"]))).not.toContain(key);
  });

  test("are stored as they are meant: false is the same as nothing", () => {
    const [path, operator] = ["properties.items[].sku", "exists"] as const;
    const conditions = [
      { path, operator, same_element: false },
      { operator, same_element: true, path },
    ];
    const { data } = newExclusion.safeParse({ name: "n", conditions });
    expect(JSON.stringify(data?.conditions)).toBe(
      JSON.stringify([
        { path, operator },
        { path, operator, same_element: true },
      ]),
    );
  });
});
