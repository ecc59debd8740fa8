/** The form of a mapping rule: texts as they are typed, and the rule that they make. */
import { describe, expect, test } from "vitest";
import { MAPPING_OPERATORS, OPERATORS_WITHOUT_VALUE } from "../../src/domain/rules/mapping-rule.ts";
import type { MappingCondition } from "../../src/domain/rules/mapping-rule.ts";
import { BLANK_FORM, changeRows, formOf, previewDays, readRuleForm, ruleOf } from "../../src/pages/rule-form.ts";
import { withoutBlankRows, type ConditionRow, type RuleForm } from "../../src/pages/rule-form.ts";

const FORM: RuleForm = {
  ...BLANK_FORM,
  name: "Asked for a demo",
  event: "Filled Out *",
  conditions: [],
  scoringSignal: "demo",
  points: "20",
};

function conditionFrom(operator: string, value: string): MappingCondition | undefined {
  const made = ruleOf({ ...FORM, conditions: [{ path: "properties.x", operator, value }] });
  return made.ok ? made.value.conditions[0] : undefined;
}

function errorsOf(form: Partial<RuleForm>): Record<string, string> {
  const made = ruleOf({ ...FORM, ...form });
  return made.ok ? {} : made.refusal;
}

describe("values as they are typed", () => {
  test.each([
    ["7", 7],
    ["-2.5", -2.5],
    ["007", "007"],
    ["1e5", "1e5"],
    ["12345678901234567890", "12345678901234567890"],
    ["true", "true"],
    [" demo", " demo"],
    ["a, b", "a, b"],
  ])("%j is %j", (text, value) => {
    expect(conditionFrom("equals", text)).toEqual({ path: "properties.x", operator: "equals", value });
  });

  test.each([
    ["gold, silver,  7", ["gold", "silver", 7]],
    ["Doe, Jane\nRoe, Rick\n", ["Doe, Jane", "Roe, Rick"]],
    ["one", ["one"]],
    ["Doe, Jane\n", ["Doe, Jane"]],
  ])("in takes %j as the list %j", (text, value) => {
    expect(conditionFrom("in", text)).toEqual({ path: "properties.x", operator: "in", value });
  });

  test("operators without a value ignore what is in the field", () => {
    for (const operator of OPERATORS_WITHOUT_VALUE) {
      expect(conditionFrom(operator, "left over")).toEqual({ path: "properties.x", operator });
    }
  });

  test("every operator's condition comes back from the form as it was", () => {
    for (const operator of MAPPING_OPERATORS) {
      const value = operator === "in" ? ["a, b", 3] : "a\nb, 3";
      const condition = OPERATORS_WITHOUT_VALUE.includes(operator)
        ? { path: "properties.x", operator }
        : { path: "properties.x", operator, value };
      const named = { name: "n", event: "e", match: "any" as const, scoringSignal: "s", points: -3 };
      const rule = { ...named, frequency: "once_per_day" as const, enabled: false };
      expect(ruleOf(formOf({ ...rule, conditions: [condition] }))).toEqual({
        ok: true,
        value: { ...rule, conditions: [condition] },
      });
    }
  });
});

describe("what is wrong is said at its field", () => {
  test.each([
    [{ name: " " }, "name"],
    [{ event: "" }, "event"],
    [{ scoringSignal: "" }, "scoring_signal"],
    [{ points: "" }, "points"],
    [{ points: "1.5" }, "points"],
    [{ points: "2000000" }, "points"],
    [{ match: "some" }, "match"],
    [{ frequency: "hourly" }, "frequency"],
  ])("%j: %s", (form, field) => {
    expect(Object.keys(errorsOf(form))).toEqual([field]);
  });

  const rows = (...conditions: Partial<ConditionRow>[]) => ({
    conditions: conditions.map((row) => ({ path: "event", operator: "equals", value: "x", ...row })),
  });
  test.each([
    [rows({}, { path: "form_name" }), "conditions.1.path"],
    [rows({ operator: "matches" }), "conditions.0.operator"],
    [rows({ value: " " }), "conditions.0.value"],
    [rows({ operator: "in", value: " , " }), "conditions.0.value"],
    [rows({ value: "x".repeat(256) }), "conditions.0.value"],
    [rows(...Array.from({ length: 51 }, () => ({}))), "conditions"],
  ])("%#: %s", (form, field) => {
    expect(Object.keys(errorsOf(form))).toEqual([field]);
  });
});

test("rows are added and removed, and blank ones are no conditions", () => {
  const row = { path: "event", operator: "equals", value: "x" };
  const two = changeRows({ ...FORM, conditions: [row] }, "add");
  expect(two.conditions).toHaveLength(2);
  expect(withoutBlankRows(two).conditions).toEqual([row]);
  expect(changeRows(two, "remove-0").conditions).toEqual([{ path: "", operator: "equals", value: "" }]);
  expect(changeRows(two, "remove-9")).toEqual(two);
  expect(changeRows(two, "toString")).toEqual(two);
});

test("a posted form is read row by row, with its line ends", () => {
  const data = new FormData();
  for (const [name, value] of [
    ["name", "n"],
    ["path", "event"],
    ["operator", "in"],
    ["value", "a\r\nb"],
    ["path", "source"],
    ["operator", "exists"],
    ["value", ""],
    ["enabled", "on"],
  ] as const) {
    data.append(name, value);
  }
  const form = readRuleForm(data);
  expect(form.conditions).toEqual([
    { path: "event", operator: "in", value: "a\nb" },
    { path: "source", operator: "exists", value: "" },
  ]);
  expect([form.name, form.enabled, form.points]).toEqual(["n", true, ""]);
});

test.each([
  ["7", 7],
  ["0", 30],
  ["many", 30],
  ["999999", 30],
])("a preview of %j days looks back %i", (days, number) => {
  expect(previewDays({ ...FORM, days })).toBe(number);
});
