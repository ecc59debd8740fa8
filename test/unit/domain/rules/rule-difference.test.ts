/** What of a mapping rule is something else than it was. */
import { expect, test } from "vitest";
import type { RuleContent } from "../../../../src/domain/rules/rule-content.ts";
import { ruleDifferences } from "../../../../src/domain/rules/rule-difference.ts";

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

test("each field of a rule that is something else is named with what it was and is, in the order in which a rule is read", () => {
  const after: RuleContent = { ...RULE, enabled: false, points: -1, name: "Wants a demo", frequency: "once_ever" };
  expect(ruleDifferences(RULE, after)).toEqual([
    { field: "name", from: "Asked for a demo", to: "Wants a demo" },
    { field: "points", from: 20, to: -1 },
    { field: "frequency", from: "every_time", to: "once_ever" },
    { field: "enabled", from: true, to: false },
  ]);
  expect(ruleDifferences(RULE, { ...RULE, conditions: [{ ...demo }] })).toEqual([]);
});

test("of a rule's conditions it is said which went and which came", () => {
  const changed = ruleDifferences(RULE, { ...RULE, conditions: [paid, { ...demo, value: ["demo"], operator: "in" }] });
  expect(changed).toEqual([
    { field: "conditions", removed: [demo], added: [paid, { ...demo, value: ["demo"], operator: "in" }] },
  ]);
  const two: RuleContent = { ...RULE, conditions: [demo, paid] };
  expect(ruleDifferences(two, { ...two, conditions: [paid, demo] })).toEqual([
    { field: "conditions", removed: [], added: [] },
  ]);
});
