/** The form of a mapping rule: texts as they are typed, and the rule that they make. */
import * as fc from "fast-check";
import { html } from "hono/html";
import { describe, expect, test } from "vitest";
import { COMPARATOR_NAMES, conditionValue, type MappingCondition } from "../../../src/domain/rules/comparators.ts";
import { POINTS_LAST_DAYS, RULE_FREQUENCIES } from "../../../src/domain/rules/mapping-rule.ts";
import {
  BLANK_FORM,
  changeRows,
  ruleForPreview,
  formOfRule,
  previewDays,
  readRuleForm,
  parseRule,
  withoutBlankRows,
  type ConditionRow,
  type RuleForm,
} from "../../../src/pages/rules/rule-form.ts";
import type { RuleContent } from "../../../src/domain/rules/rule-content.ts";
import { RULE_MAX_CONDITIONS } from "../../../src/limits.ts";
import { Conditions, RuleEditor } from "../../../src/pages/rules/editor.tsx";
import { newRule } from "../../../src/use-cases/rule-schema.ts";
import { readHtml, unchangedFields } from "../../support/html.ts";

const RULE: RuleContent = {
  name: "Asked for a demo",
  event: "Filled Out *",
  match: "all",
  conditions: [],
  scoringSignal: "demo",
  points: 20,
  frequency: "every_time",
  pointsLastDays: null,
  enabled: true,
};

const FORM = formOfRule(RULE);

function conditionFrom(operator: string, value: string): MappingCondition | undefined {
  const made = parseRule({ ...FORM, conditions: [{ path: "properties.x", operator, value }] });
  return made.ok ? made.value.conditions[0] : undefined;
}

function errorsOf(form: Partial<RuleForm>): Record<string, string> {
  const made = parseRule({ ...FORM, ...form });
  return made.ok ? {} : made.rejection;
}

describe("the typed value of a condition", () => {
  test.each([
    ["7", 7],
    ["-2.5", -2.5],
    ["007", "007"],
    ["1e5", "1e5"],
    ["12345678901234567890", "12345678901234567890"],
    ["true", "true"],
    [" demo", " demo"],
    ["a, b", "a, b"],
    ["demo\n", "demo"],
    ["\n\ndemo\n\n", "demo"],
    ["one\ntwo\n", "one\ntwo"],
  ])("%j is read as %j", (text, value) => {
    expect(conditionFrom("equals", text)).toEqual({ path: "properties.x", operator: "equals", value });
  });

  test.each([
    ["gold, silver,  7", ["gold", "silver", 7]],
    ["Doe, Jane\nRoe, Rick\n", ["Doe, Jane", "Roe, Rick"]],
    ["one", ["one"]],
    ["Doe, Jane\n", ["Doe, Jane"]],
  ])("%j is read as the list %j by the operator in", (text, value) => {
    expect(conditionFrom("in", text)).toEqual({ path: "properties.x", operator: "in", value });
  });

  test("is ignored by operators without a value", () => {
    for (const operator of COMPARATOR_NAMES.filter((name) => conditionValue(name) === "none")) {
      expect(conditionFrom(operator, "left over")).toEqual({ path: "properties.x", operator });
    }
  });

  test("is the same after the form for every operator", () => {
    for (const operator of COMPARATOR_NAMES) {
      const text = conditionValue(operator) === "number" ? -1.5 : "a\nb, 3";
      const value = conditionValue(operator) === "list" ? ["a, b", 3] : text;
      const condition =
        conditionValue(operator) === "none"
          ? { path: "properties.x", operator }
          : { path: "properties.x", operator, value };
      const changed = {
        match: "any",
        points: -3,
        frequency: "once_per_day",
        pointsLastDays: 180,
        enabled: false,
      } as const;
      const rule: RuleContent = { ...RULE, ...changed, conditions: [condition] };
      expect(parseRule(formOfRule(rule))).toEqual({ ok: true, value: rule });
    }
  });
});

describe("an error of the form", () => {
  const rows = (...conditions: Partial<ConditionRow>[]) => ({
    conditions: conditions.map((row) => ({ path: "event", operator: "equals", value: "x", ...row })),
  });
  const WHOLE = "Enter a whole number from -1,000,000 to 1,000,000.";
  const NUMBER = "A number is needed, such as 100.";
  const CHOOSE = /^Use one of: /;
  test.each<[Partial<RuleForm>, string, string | RegExp]>([
    [{ name: " " }, "name", "Enter a name."],
    [{ name: "x".repeat(300) }, "name", /^[A-Z].*\.$/],
    [{ event: "" }, "event", /^[A-Z].*\.$/],
    [{ scoringSignal: "" }, "scoring_signal", "Enter a scoring signal."],
    ...["", "1.5", "2000000", "1e3", "x1", "1x"].map(
      (points) => [{ points }, "points", WHOLE] as [object, string, string],
    ),
    [{ match: "some" }, "match", CHOOSE],
    [{ frequency: "hourly" }, "frequency", CHOOSE],
    ...["31", "0", "", "ninety"].map(
      (pointsLastDays) =>
        [{ pointsLastDays }, "points_last_days", "Use one of: null, 30, 90, 180, 365."] as [object, string, string],
    ),
    [rows({}, { path: "form_name" }), "conditions.1.path", /^[A-Z].*\.$/],
    [rows({ operator: "matches" }), "conditions.0.operator", CHOOSE],
    [rows({ value: " " }), "conditions.0.value", "A value is needed."],
    [rows({ operator: "in", value: " , " }), "conditions.0.value", "Enter at least one value."],
    [rows({ operator: "greater_than", value: "1,000" }), "conditions.0.value", NUMBER],
    [rows({ operator: "less_or_equal", value: "many" }), "conditions.0.value", NUMBER],
    [rows({ value: "x".repeat(256) }), "conditions.0.value", /./],
    [rows(...Array.from({ length: 51 }, () => ({}))), "conditions", "A rule has a list of at most 50 conditions."],
  ])("%# %j is at the field %s: %s", (form, field, words) => {
    const expected = words instanceof RegExp ? (expect.stringMatching(words) as string) : words;
    expect(errorsOf(form)).toEqual({ [field]: expected });
  });

  test("is shown for each field, and the first if a field has several", () => {
    const errors = errorsOf({ name: "", points: "", ...rows({ path: "form_name", operator: "matches" }) });
    expect(Object.keys(errors).sort()).toEqual(["conditions.0.operator", "conditions.0.path", "name", "points"]);
  });
});

test.each([
  [" 7 ", 7],
  ["+5", 5],
  ["-12", -12],
  ["0", 0],
])("points typed as %j are %i", (points, number) => {
  expect(parseRule({ ...FORM, points })).toMatchObject({ ok: true, value: { points: number } });
});

test("a condition's path is trimmed, its value is not", () => {
  const made = parseRule({ ...FORM, conditions: [{ path: " properties.x ", operator: "equals", value: " a " }] });
  expect(made).toMatchObject({ value: { conditions: [{ path: "properties.x", operator: "equals", value: " a " }] } });
});

describe("a form that is saved unchanged", () => {
  const text = fc.oneof(
    fc.string({
      unit: fc.constantFrom("a", "B", " ", ",", "\n", "\r", "\t", "5", "0", "-", ".", '"', "&", "<", "\0", "é"),
    }),
    fc.constantFrom("5", "007", "1e5", " demo ", "a\nb", "a\r\nb", "demo\n", "\ndemo", "", " ", "true", "\uD800"),
  );
  const scalar = fc.oneof(text, fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer(), fc.boolean());
  const condition = fc.record(
    {
      path: fc.oneof(
        fc.constantFrom("event", "source", "email", "properties.x ", "properties.a[].x", "properties.a[]"),
        text.map((name) => `properties.${name}`),
      ),
      operator: fc.constantFrom(...COMPARATOR_NAMES),
      value: fc.oneof(scalar, fc.array(scalar, { minLength: 1, maxLength: 4 })),
      same_element: fc.boolean(),
    },
    { requiredKeys: ["path", "operator"] },
  );
  const valid = fc
    .record({
      name: text,
      event: text,
      match: fc.constantFrom("all", "any"),
      // Conditions that look alike in the form, too.
      conditions: fc.array(condition, { maxLength: 6 }),
      scoring_signal: text,
      points: fc.integer({ min: -1_000_000, max: 1_000_000 }),
      frequency: fc.constantFrom(...RULE_FREQUENCIES),
      points_last_days: fc.constantFrom(null, ...POINTS_LAST_DAYS),
      enabled: fc.boolean(),
    })
    .map(({ conditions, name, event, scoring_signal, ...rule }) => ({
      ...rule,
      name: name.replaceAll(/\p{Cc}/gu, "") || "n",
      event: event.trim() || "e",
      scoring_signal: scoring_signal.replaceAll(/\p{Cc}/gu, "") || "s",
      conditions: conditions.reduce<unknown[]>((rows, row) => {
        const { same_element: _, ...alone } = row;
        const fits = [row, alone].find((one) => newRule.shape.conditions.safeParse([...rows, one]).success);
        return fits === undefined ? rows : [...rows, fits];
      }, []),
    }))
    .map((rule) => newRule.safeParse(rule))
    .filter((parsed) => parsed.success)
    // As it is stored.
    .map(({ data: { scoring_signal: scoringSignal, points_last_days: pointsLastDays, ...rule } }) => ({
      ...rule,
      scoringSignal,
      pointsLastDays,
    }))
    .map((rule) => JSON.parse(JSON.stringify(rule)) as RuleContent);

  async function postedUnchanged(rule: RuleContent): Promise<RuleForm> {
    const editor = RuleEditor({
      base: "/w/acme",
      action: "/w/acme/rules/rule_1",
      submit: "Save",
      form: formOfRule(rule),
      source: null,
      suggestions: { events: [], paths: [] },
    });
    const data = new FormData();
    for (const [name, value] of unchangedFields(readHtml(await html`${editor}`).only("form"))) data.append(name, value);
    return withoutBlankRows(readRuleForm(data));
  }

  const BEGINS_WITH_LINE_END: RuleContent = {
    ...RULE,
    conditions: [{ path: "properties.x", operator: "in", value: ["\r", false] }],
  };

  test("leaves every rule as it is", async () => {
    await fc.assert(
      fc.asyncProperty(valid, async (rule) => {
        const form = await postedUnchanged(rule);
        expect(parseRule(form, rule)).toEqual({ ok: true, value: rule });
        expect(ruleForPreview(form, rule)).toMatchObject({ ok: true, value: { conditions: rule.conditions } });
      }),
      { examples: [[BEGINS_WITH_LINE_END]] },
    );
  });

  test("except for one condition changes only that condition", async () => {
    const conditions: MappingCondition[] = [
      { path: "properties.a", operator: "in", value: [" demo ", "a\nb", "5"] },
      { path: "properties.b", operator: "equals", value: "5" },
      { path: "properties.c ", operator: "equals", value: "demo\n" },
    ];
    const rule: RuleContent = { ...RULE, conditions };
    const form = await postedUnchanged(rule);
    const change = (index: number, value: string): RuleForm => ({
      ...form,
      conditions: form.conditions.map((row, at) => (at === index ? { ...row, value } : row)),
    });
    for (const [index, value] of conditions.entries()) {
      expect(parseRule(change(index, "new"), rule)).toMatchObject({
        ok: true,
        value: {
          conditions: conditions.with(index, {
            ...value,
            path: value.path.trim(),
            value: index === 0 ? ["new"] : "new",
          }),
        },
      });
    }
    const removed = changeRows(form, "remove-0");
    expect(parseRule(removed, rule)).toMatchObject({ value: { conditions: conditions.slice(1) } });
    const ended = change(2, "demo");
    expect(parseRule(ended, rule)).toMatchObject({ value: { conditions: [{}, {}, { value: "demo" }] } });
  });
});

test("rows are added and removed, and blank rows are no conditions", () => {
  const row = { path: "event", operator: "equals", value: "x" };
  const two = changeRows({ ...FORM, conditions: [row] }, "add");
  expect(two.conditions).toHaveLength(2);
  expect(withoutBlankRows(two).conditions).toEqual([row]);
  expect(changeRows(two, "remove-0").conditions).toEqual([{ path: "", operator: "equals", value: "" }]);
  for (const action of ["remove-9", "toString", "xremove-0", "remove-0x", "remove-", ""])
    expect(changeRows(two, action)).toEqual(two);
  const many = { ...FORM, conditions: Array.from({ length: 12 }, (_, n) => ({ ...row, path: `properties.p${n}` })) };
  expect(changeRows(many, "remove-11").conditions).toEqual(many.conditions.slice(0, 11));
  const half = [
    { ...row, value: "" },
    { ...row, path: " ", value: " x" },
    { ...row, path: " ", value: " " },
  ];
  expect(withoutBlankRows({ ...FORM, conditions: half }).conditions).toEqual(half.slice(0, 2));
});

test("a posted form without fields is blank, and a file is no text", () => {
  const data = new FormData();
  data.append("name", new File(["x"], "x.txt"));
  expect(readRuleForm(data)).toEqual({ ...BLANK_FORM, match: "", conditions: [], enabled: false, days: "" });
});

test("a preview needs no name, scoring signal or points; errors in the other fields are shown", () => {
  const draft = { ...FORM, name: "", scoringSignal: "", points: " " };
  expect(ruleForPreview(draft)).toMatchObject({ ok: true, value: { event: FORM.event, points: 0 } });
  expect(ruleForPreview({ ...draft, points: "7" })).toMatchObject({ ok: true, value: { points: 7 } });
  expect(ruleForPreview({ ...draft, points: "x", match: "" })).toMatchObject({
    ok: false,
    rejection: { match: "Use one of: all, any.", points: expect.stringContaining("Enter a whole number") },
  });
});

test.each([
  ["7", 7],
  ["1", 1],
  ["7.9", 7],
  ["0", 30],
  ["many", 30],
  ["3650", 3_650],
  ["3651", 30],
])("a preview for %j days looks back %i days", (days, number) => {
  expect(previewDays({ ...FORM, days })).toBe(number);
});

describe("the conditions of a form", () => {
  const row = (path: string, more: Partial<ConditionRow> = {}): ConditionRow => ({
    path,
    operator: "equals",
    value: "v",
    ...more,
  });
  const rows = [row("properties.x"), row("properties.a_very_long_path", { operator: "exists", sameElement: true })];
  const make = async (conditions: ConditionRow[], button?: "add", errors: Record<string, string> = {}) => {
    const props = { form: { conditions }, errors, ...(button !== undefined && { button }) };
    return readHtml(await html`${Conditions(props)}`);
  };

  test.each<[string, Parameters<typeof make>, string, string, unknown[]]>([
    ["are numbered from one", [rows], "input[type=text]", "aria-label", ["Condition 1: path", "Condition 2: path"]],
    ["have ids of their own", [rows], "textarea", "id", ["value-0", "value-1"]],
    ["show the path", [rows], "input[type=text]", "value", ["properties.x", "properties.a_very_long_path"]],
    ["are long with a long path", [rows], ".condition", "class", ["condition", "condition long"]],
    ["show the comparison", [rows], "option[selected]", "value", ["equals", "exists"]],
    ["can be removed one by one", [rows], "[data-swap][aria-label]", "value", ["remove-0", "remove-1"]],
    ["say which", [rows], "[data-swap][aria-label]", "aria-label", ["Remove condition 1", "Remove condition 2"]],
    ["may be about the element of the one above", [rows], "[type=checkbox]", "value", ["1"]],
    ["if they are marked so", [rows], "[type=checkbox]", "checked", [""]],
    ["can be added", [rows], "#add-condition", "value", ["add"]],
    ["up to their maximum", [Array<ConditionRow>(RULE_MAX_CONDITIONS).fill(row("x"))], "#add-condition", "value", []],
    [
      "that are none say what that means",
      [[]],
      ".quiet",
      "text",
      ["No conditions: every signal of this event matches."],
    ],
    ["give the focus to an added one", [rows, "add"], "[autofocus]", "id", ["path-1"]],
    ["mark a wrong value", [rows, undefined, { "conditions.0.value": "e" }], "[aria-invalid]", "id", ["value-0"]],
    ["and say why", [rows, undefined, { "conditions.0.value": "e" }], "#condition-0-error", "text", ["e"]],
    ["say what is wrong with all of them", [rows, undefined, { conditions: "e" }], "[role=alert]", "text", ["e"]],
  ])("%s", async (_, given, selector, attribute, expected) => {
    const found = (await make(...given)).all(selector);
    expect(found.map((part) => (attribute === "text" ? part.text : part.attribute(attribute)))).toEqual(expected);
  });
});
