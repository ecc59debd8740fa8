/** Exclusions: which signals they cover, and how a list of them changes. */
import { describe, expect, test } from "vitest";
import type { MappingCondition } from "../../../../src/domain/rules/comparators.ts";
import { evaluate, TOO_MANY_STEPS } from "../../../../src/domain/rules/evaluate-rules.ts";
import {
  afterExclusionImport,
  isSameExclusion,
  repeatedNames,
  withIds,
  type Exclusion,
} from "../../../../src/domain/rules/exclusion.ts";
import { exclusionsSize } from "../../../../src/domain/rules/rule-content.ts";
import { compileRules, isEvaluable, type MappingRule } from "../../../../src/domain/rules/mapping-rule.ts";

const RULE: MappingRule = {
  id: "r1",
  version: 1,
  event: "Visit",
  match: "all",
  conditions: [],
  scoringSignal: "visited",
  points: 5,
};
const STAFF = on("staff", [{ path: "email", operator: "ends_with", value: "@own.example" }]);
const TESTS = on("tests", [
  { path: "source", operator: "equals", value: "staging" },
  { path: "payload.test", operator: "is_true" },
]);

function on(id: string, conditions: MappingCondition[], match: "all" | "any" = "any"): Exclusion {
  return { id, name: `Name of ${id}`, match, conditions };
}

const sent = { event: "Visit", source: "web", properties: {} };

describe("an exclusion", () => {
  test.each([
    ["the email", { ...sent, email: "ann@own.example" }, "staff"],
    ["another email", { ...sent, email: "ann@example.com" }, undefined],
    ["the source", { ...sent, source: "Staging" }, "tests"],
    ["the payload", { ...sent, payload: { test: true } }, "tests"],
    ["the first that holds", { ...sent, source: "staging", email: "ann@own.example" }, "staff"],
  ] as const)("covers a signal by %s", (_, signal, id) => {
    const evaluation = evaluate(compileRules([RULE], [STAFF, TESTS]), signal);
    expect(evaluation?.excludedBy).toBe(id);
    // What its rules match is known, so that the signal scores as before once it is not excluded any more.
    expect(evaluation?.matches).toMatchObject([{ ruleId: "r1" }]);
  });

  test("takes the person's email if the signal has none", () => {
    const rules = compileRules([RULE], [STAFF]);
    expect(rules.asksForEmail).toBe(true);
    expect(evaluate(rules, sent)).not.toHaveProperty("excludedBy");
    expect(evaluate(rules, sent, "ann@own.example")?.excludedBy).toBe("staff");
    expect(compileRules([RULE], [TESTS]).asksForEmail).toBe(false);
  });

  test("with all conditions covers a signal for which each holds", () => {
    const both = compileRules([], [{ ...TESTS, match: "all" }]);
    expect(evaluate(both, { ...sent, source: "staging" })).not.toHaveProperty("excludedBy");
    expect(evaluate(both, { ...sent, source: "staging", payload: { test: true } })?.excludedBy).toBe("tests");
  });

  test("concerns signals of each event", () => {
    expect(isEvaluable(compileRules([RULE]), "Other")).toBe(false);
    expect(isEvaluable(compileRules([RULE]), "Visit")).toBe(true);
    expect(isEvaluable(compileRules([RULE], [STAFF]), "Other")).toBe(true);
  });

  test("counts its steps", () => {
    const value = Array.from({ length: 200 }, (_, n) => `no-${n}`);
    const slow = on("slow", [{ path: "properties.text", operator: "contains_any", value }]);
    const text = "a".repeat(60_000);
    expect(evaluate(compileRules([], [slow]), { ...sent, properties: { text } }), TOO_MANY_STEPS).toBeNull();
  });
});

describe("a list of exclusions", () => {
  const newIds = () => {
    let made = 0;
    return () => `new-${++made}`;
  };
  const ids = (exclusions: readonly Exclusion[]) => exclusions.map(({ id }) => id);
  const content = (name: string) => ({ name, match: "any" as const, conditions: STAFF.conditions });

  test("keeps the id of an exclusion by its id, else by its name", () => {
    const items = [content("other"), { ...content("renamed"), id: "staff" }, content(TESTS.name)];
    expect(ids(withIds(items, [STAFF, TESTS], newIds()))).toEqual(["new-1", "staff", "tests"]);
  });

  test("gives an id to one exclusion only", () => {
    const items = [{ ...content("renamed"), id: "staff" }, content(STAFF.name), { ...content("also"), id: "staff" }];
    expect(ids(withIds(items, [STAFF], newIds()))).toEqual(["staff", "new-1", "new-2"]);
  });

  test("after an import has changed and added exclusions, and those that it does not name", () => {
    const after = afterExclusionImport([STAFF, TESTS], [content("more"), content(TESTS.name)], newIds());
    expect(ids(after)).toEqual(["staff", "tests", "new-1"]);
    expect(after[1]?.conditions).toEqual(STAFF.conditions);
  });

  test("has each name once", () => {
    expect(repeatedNames([content("a"), content("b"), content("a"), content("a")])).toEqual([2, 3]);
  });

  test("is as large as its paths and values", () => {
    expect(exclusionsSize([STAFF, TESTS])).toBe(2 + 3);
  });

  test("knows an exclusion without its id", () => {
    expect(isSameExclusion(STAFF, { ...STAFF, conditions: [...STAFF.conditions] })).toBe(true);
    expect(isSameExclusion(STAFF, { ...STAFF, match: "all" })).toBe(false);
  });
});
