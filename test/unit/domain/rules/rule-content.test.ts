/** Differences between mapping rules, and their size. */
import { describe, expect, test } from "vitest";
import type { MappingCondition } from "../../../../src/domain/rules/comparators.ts";
import {
  movedConditions,
  ruleDifferences,
  ruleSize,
  type RuleContent,
} from "../../../../src/domain/rules/rule-content.ts";

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

const on = (path: string, value?: MappingCondition["value"]): MappingCondition =>
  value === undefined ? { path, operator: "exists" } : { path, operator: "in", value };

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

test("of equal conditions, differences list those that are missing", () => {
  const [before, after]: [RuleContent, RuleContent] = [
    { ...RULE, conditions: [demo, demo, paid] },
    { ...RULE, conditions: [demo, paid, paid] },
  ];
  expect(ruleDifferences(before, after)).toEqual([{ field: "conditions", removed: [demo], added: [paid] }]);
});

describe("a changed order of conditions", () => {
  const [a, b, c, d] = ["a", "b", "c", "d"].map((path) => on(path)) as [
    MappingCondition,
    MappingCondition,
    MappingCondition,
    MappingCondition,
  ];
  test.each([
    ["none moves", [a, b, c], [a, b, c], []],
    ["the last becomes the first", [a, b, c, d], [d, a, b, c], [[d, 4, 1]]],
    ["the first becomes the last", [a, b, c, d], [b, c, d, a], [[a, 1, 4]]],
    ["removed and added ones move no other", [a, b, c], [d, c], []],
    ["of equal ones, each keeps its place", [a, a, b], [b, a, a], [[b, 3, 1]]],
  ])("names the fewest moves: %s", (_, before, after, moves) => {
    const moved = movedConditions(before as MappingCondition[], after as MappingCondition[]);
    expect(moved.map(({ condition, from, to }) => [condition, from, to])).toEqual(moves);
  });
});

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
