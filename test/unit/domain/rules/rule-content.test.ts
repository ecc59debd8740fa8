/** Differences between mapping rules, and their size. */
import { describe, expect, test } from "vitest";
import type { MappingCondition } from "../../../../src/domain/rules/comparators.ts";
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
  pointsLastDays: null,
  enabled: true,
};

test("differences list each changed field with both values, in reading order", () => {
  const changes = {
    enabled: false,
    points: -1,
    name: "Wants a demo",
    frequency: "once_ever",
    pointsLastDays: 90,
  } as const;
  expect(ruleDifferences(RULE, { ...RULE, ...changes })).toEqual([
    { field: "name", from: "Asked for a demo", to: "Wants a demo" },
    { field: "points", from: 20, to: -1 },
    { field: "frequency", from: "every_time", to: "once_ever" },
    { field: "pointsLastDays", from: null, to: 90 },
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
    ["Form Filled", [], 0],
    ["*Form*", [], 2],
    ["Form", [on("event")], 1],
    ["Form", [on("event", 7)], 2],
    ["Form", [on("event", ["a", 1, true])], 4],
    ["Form", [on("event", "")], 2],
    ["Form", [on("x".repeat(50))], 1],
    ["Form", [on("x".repeat(51))], 2],
    ["Form", [on("event", ["x".repeat(255), "x".repeat(50)])], 8],
    ["F*", [on("event"), on("source", "a"), on("email", ["a", "b"])], 7],
  ] as const)("is right for the event %s with the conditions %j: %i", (event, conditions, size) =>
    expect(ruleSize({ event, conditions: [...conditions] as MappingCondition[] })).toBe(size),
  );
});
