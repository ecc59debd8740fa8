/** Imports of mapping rules, and files of rules. */
import { describe, expect, test } from "vitest";
import { contentOf, type RuleContent } from "../../../../src/domain/rules/rule-content.ts";
import { afterImport, planImport } from "../../../../src/domain/rules/rule-import.ts";
import { WORKSPACE_MAX_RULES } from "../../../../src/limits.ts";
import { readRuleFile, ruleFileOf } from "../../../../src/use-cases/import-rules.ts";

const rule = (name: string, more: Partial<RuleContent> = {}): RuleContent => ({
  name,
  event: "Form",
  match: "all",
  conditions: [],
  scoringSignal: "s",
  points: 1,
  frequency: "every_time",
  pointsLastDays: null,
  enabled: true,
  ...more,
});
const existingRule = (id: string, name: string, more: Partial<RuleContent> = {}) => ({ id, ...rule(name, more) });

describe("an imported rule", () => {
  test("changes the rule with its id, else the rule with its name, else is added", () => {
    const existing = [existingRule("r1", "One"), existingRule("r2", "Two"), existingRule("r3", "Three")];
    const steps = planImport(existing, [
      { ...rule("Renamed"), id: "r1" },
      { ...rule("Two", { points: 2 }), id: "elsewhere" },
      rule("Three"),
      rule("Four"),
    ]);
    expect(steps).toEqual([
      { result: "changed", rule: rule("Renamed"), before: existing[0] },
      { result: "changed", rule: rule("Two", { points: 2 }), before: existing[1] },
      { result: "unchanged", before: existing[2] },
      { result: "added", rule: rule("Four") },
    ]);
  });

  test("is rejected if several rules have its name, or an earlier one changes the same rule", () => {
    const existing = [existingRule("r1", "One"), existingRule("r2", "One"), existingRule("r3", "Three")];
    const steps = planImport(existing, [
      rule("One"),
      { ...rule("One"), id: "r2" },
      rule("Three"),
      { ...rule("3"), id: "r3" },
    ]);
    expect(steps).toMatchObject([
      { result: "rejected", why: "name_ambiguous" },
      { result: "unchanged" },
      { result: "unchanged" },
      { result: "rejected", why: "twice" },
    ]);
  });

  test("is rejected if an earlier new rule has its name, because the next import could not distinguish them", () => {
    const file = [rule("One"), { ...rule("One", { points: 2 }), id: "elsewhere" }, rule("Two")];
    expect(planImport([], file)).toMatchObject([
      { result: "added" },
      { result: "rejected", why: "added_twice" },
      { result: "added" },
    ]);
  });

  test("adds its whole size if it is new, else the difference", () => {
    const existing = [
      existingRule("r1", "One", { conditions: [{ path: "event", operator: "in", value: ["a", "b", "c"] }] }),
    ];
    const steps = planImport(existing, [rule("One", { event: "F*" }), rule("New", { event: "*a*" })]);
    expect(afterImport(existing, [])).toEqual({ count: 1, size: 4 });
    expect(afterImport(existing, steps)).toEqual({ count: 2, size: 3 });
  });
});

describe("a file of mapping rules", () => {
  test("is read as written, as a bare list, and with further fields of the operator API", () => {
    const all = [
      existingRule("r1", "One", {
        match: "any",
        frequency: "once_ever",
        pointsLastDays: 90,
        enabled: false,
        points: -5,
        conditions: [
          { path: "properties.a[].b", operator: "in", value: ["x", 1, true] },
          { path: "properties.a[].c", operator: "equals", value: 1, same_element: true },
          { path: "email", operator: "not_exists" },
        ],
      }),
      existingRule("r2", "Two"),
    ];
    const text = ruleFileOf(all);
    expect(readRuleFile(text)).toEqual({ ok: true, value: { rules: all, exclusions: [] } });
    const { items } = JSON.parse(text) as { items: object[] };
    expect(readRuleFile(JSON.stringify(items))).toEqual({ ok: true, value: { rules: all, exclusions: [] } });
    const listed = items.map((item) => ({
      ...item,
      version: 3,
      created_at: "",
      updated_at: "",
      updated_by: "operator",
    }));
    expect(readRuleFile(JSON.stringify({ items: listed, next: null }))).toEqual({
      ok: true,
      value: { rules: all, exclusions: [] },
    });
    expect(planImport(all, readAll(text)).every(({ result }) => result === "unchanged")).toBe(true);
  });

  function readAll(text: string) {
    const read = readRuleFile(text);
    if (!read.ok) throw new Error("unreadable");
    return read.value.rules;
  }

  test("gives enabled rules that score each time and whose points always count by default", () => {
    const [read] = readAll('[{"name":" One ","event":"Form","scoring_signal":"s","points":1}]');
    expect(read && contentOf(read)).toEqual(rule("One"));
  });

  test("is rejected with the errors of each rule, by index and name", () => {
    const good = { name: "Good", event: "E", scoring_signal: "s", points: 1 };
    const items = [
      { ...good, points: "many", event: " " },
      good,
      { ...good, name: "Third", conditions: [{ path: "x", operator: "equals", value: 1 }], extra: 1 },
      "text",
    ];
    const read = readRuleFile(JSON.stringify({ items }));
    expect(read).toMatchObject({
      ok: false,
      rejection: [
        { index: 0, name: "Good", messages: [expect.stringMatching(/^event: /), expect.stringMatching(/^points: /)] },
        {
          index: 2,
          name: "Third",
          messages: [expect.stringMatching(/^condition 1, path: /), "Remove the unknown field extra."],
        },
        { index: 3, name: null },
      ],
    });
  });

  test("names the fix of each invalid value in a sentence", () => {
    const valid = { name: "n", event: "e", scoring_signal: "s", points: 1 };
    const condition = (more: object) => ({ conditions: [{ path: "event", operator: "equals", value: "x", ...more }] });
    const invalid: [object, string][] = [
      [{ points: 1.5 }, "points: Enter a whole number from -1,000,000 to 1,000,000."],
      [{ name: 5 }, "name: Enter a name."],
      [{ event: undefined }, "event: Enter an event name."],
      [{ match: "some" }, "match: Use one of: all, any."],
      ...[0, 60, "30", "always", false].map((points_last_days): [object, string] => [
        { points_last_days },
        "points_last_days: Use one of: null, 30, 90, 180, 365.",
      ]),
      [{ enabled: "yes" }, "enabled: Enter true or false."],
      [{ conditions: [7] }, "condition 1: Enter an object with the fields of a rule or condition."],
      [condition({ value: null }), "condition 1, value: Enter a text, a number, true, false, or a list of them."],
      [condition({ operator: "in", value: [] }), "condition 1, value: Enter at least one value."],
      [condition({ a: 1, b: 2 }), "condition 1: Remove the unknown fields a, b."],
    ];
    const read = readRuleFile(JSON.stringify(invalid.map(([more]) => ({ ...valid, ...more }))));
    const problems = read.ok ? [] : read.rejection.map(({ messages }) => messages);
    expect(problems).toEqual(invalid.map(([, message]) => [message]));
  });

  test.each([
    [" ", "Choose a file or paste its text."],
    ["{", "The file is not valid JSON at line 1, column 2 (character 2)."],
    ['[{"name": "A"\n "event": "B"}]', "The file is not valid JSON at line 2, column 2 (character 16)."],
    ["{}", "The file has no list of rules"],
    ["null", "The file has no list of rules"],
    ['{"items":{}}', "The file has no list of rules"],
    ["[]", "The list has no rules."],
    [JSON.stringify(Array(WORKSPACE_MAX_RULES + 1).fill(1)), "at most 1000 mapping rules"],
  ])("is rejected as a whole if it has no list of rules: %.20s", (text, message) => {
    const rejected = { index: null, name: null, messages: [expect.stringContaining(message)] };
    expect(readRuleFile(text)).toEqual({ ok: false, rejection: [rejected] });
  });
});
