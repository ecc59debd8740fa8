/** Differences between mapping rules, and their size. */
import { describe, expect, test } from "vitest";
import type { MappingCondition } from "../../../../src/domain/rules/mapping-condition.ts";
import { ruleDifferences, ruleSize, type RuleContent } from "../../../../src/domain/rules/rule-content.ts";

const demo = { path: "properties.form", operator: "equals", value: "demo" } as const;
const paid = { path: "properties.paid", operator: "is_true" } as const;
const RULE: RuleContent = {
  name: "Asked for a demo",
  event: "Form",
  match: "all",
  conditions: [demo],
  scoringSignal: "demo",
  points: 20,
  frequency: "every_time",
  enabled: true,
};

test("differences list each changed field with both values, in reading order", () => {
  const after: RuleContent = { ...RULE, enabled: false, points: -1, name: "Wants a demo", frequency: "once_ever" };
  expect(ruleDifferences(RULE, after)).toEqual([
    { field: "name", from: "Asked for a demo", to: "Wants a demo" },
    { field: "points", from: 20, to: -1 },
    { field: "frequency", from: "every_time", to: "once_ever" },
    { field: "enabled", from: true, to: false },
  ]);
  expect(ruleDifferences(RULE, { ...RULE, conditions: [{ ...demo }] })).toEqual([]);
});

test("differences list removed and added conditions", () => {
  const changed = ruleDifferences(RULE, { ...RULE, conditions: [paid, { ...demo, value: ["demo"], operator: "in" }] });
  expect(changed).toEqual([
    { field: "conditions", removed: [demo], added: [paid, { ...demo, value: ["demo"], operator: "in" }] },
  ]);
  const two: RuleContent = { ...RULE, conditions: [demo, paid] };
  expect(ruleDifferences(two, { ...two, conditions: [paid, demo] })).toEqual([
    { field: "conditions", removed: [], added: [] },
  ]);
});

const on = (path: string, value?: MappingCondition["value"]): MappingCondition =>
  value === undefined ? { path, operator: "exists" } : { path, operator: "in", value };

describe("§8.5 the size of a rule", () => {
  test.each([
    ["nothing but an event", "Form Filled", [], 0],
    ["each * of the event", "*Form*", [], 2],
    ["a path", "Form", [on("event")], 1],
    ["a path and a value", "Form", [on("event", 7)], 2],
    ["each value of a list", "Form", [on("event", ["a", 1, true])], 4],
    ["an empty value", "Form", [on("event", "")], 2],
    ["a path of 50 characters", "Form", [on("x".repeat(50))], 1],
    ["a path of more than 50 characters", "Form", [on("x".repeat(51))], 2],
    ["a long value", "Form", [on("event", ["x".repeat(255), "x".repeat(50)])], 8],
    ["all conditions", "F*", [on("event"), on("source", "a"), on("email", ["a", "b"])], 7],
  ] as const)("%s", (_, event, conditions, size) =>
    expect(ruleSize({ event, conditions: [...conditions] as MappingCondition[] })).toBe(size),
  );
});
