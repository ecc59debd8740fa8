/** Design §8.5: how much a rule amounts to. */
import { describe, expect, test } from "vitest";
import { ruleSize } from "../../../../src/domain/rules/rule-size.ts";
import type { MappingCondition } from "../../../../src/domain/rules/mapping-rule.ts";

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
