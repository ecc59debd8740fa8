/** The schema of a mapping rule, for its form, the operator API and imports. */
import * as z from "zod";
import {
  MAPPING_OPERATORS,
  OPERATORS_OF_NUMBERS,
  OPERATORS_WITH_LIST,
  OPERATORS_WITHOUT_VALUE,
  toComparable,
  type MappingOperator,
} from "../domain/rules/mapping-condition.ts";
import { isEventPattern, isRulePath, POINTS_LAST_DAYS, RULE_FREQUENCIES } from "../domain/rules/mapping-rule.ts";
import { ruleSize } from "../domain/rules/rule-content.ts";
import { grouped } from "../domain/text.ts";
import { name, nameLength, noCredential, shortText, textOption } from "../http/fields.ts";
import {
  CONDITION_MAX_VALUES,
  NAME_MAX_CODE_POINTS,
  RULE_MAX_CONDITIONS,
  RULE_MAX_SIZE,
  RULE_PATH_MAX_ELEMENTS,
} from "../limits.ts";

const MAX_POINTS = 1_000_000;

const scalar = z.union([textOption(nameLength, noCredential), z.number(), z.boolean()]);

const condition = z
  .strictObject({
    path: shortText()
      .refine(isRulePath, "use event, source, email, or a path such as properties.form_name")
      .refine(...noCredential)
      .meta({
        description:
          "`event`, `source`, `email`, or `properties.` and a dot path. `items[0].sku` is of an element, `items[].sku` of " +
          `any, of which the first ${RULE_PATH_MAX_ELEMENTS} are looked at.`,
        example: "properties.form_name",
      }),
    operator: z.enum(MAPPING_OPERATORS),
    value: z
      .union([scalar, z.array(scalar).min(1).max(CONDITION_MAX_VALUES)])
      .exactOptional()
      .describe(
        "A list for `in`, a number for `greater_…` and `less_…`, nothing for `exists`, `not_exists`, `is_true`, `is_false`.",
      ),
  })
  .superRefine(({ operator, value }, ctx) => {
    const message = valueError(operator, value);
    if (message !== null) ctx.addIssue({ code: "custom", path: ["value"], message });
  })
  .meta({ id: "MappingCondition" });

function valueError(operator: MappingOperator, value: unknown): string | null {
  if (OPERATORS_WITHOUT_VALUE.includes(operator)) return value === undefined ? null : `“${operator}” takes no value`;
  if (value === undefined) return "a value is needed";
  if (OPERATORS_WITH_LIST.includes(operator))
    return Array.isArray(value) ? null : `“${operator}” needs a list of values`;
  if (Array.isArray(value)) return `“${operator}” takes one value; use “in” for a list`;
  const isNumber = !Number.isNaN(toComparable(value).number);
  return OPERATORS_OF_NUMBERS.includes(operator) && !isNumber ? "a number is needed, such as 100" : null;
}

/** Fields of a rule, without defaults: a change keeps the fields that it does not name. */
export const ruleFields = {
  name,
  event: shortText({ trim: true })
    .refine(isEventPattern, `an event name or pattern of 1 to ${NAME_MAX_CODE_POINTS} characters`)
    .refine(...noCredential)
    .meta({ description: "An event name; `*` stands for anything.", example: "Filled Out *" }),
  match: z.enum(["all", "any"]),
  conditions: z
    .array(condition)
    .max(RULE_MAX_CONDITIONS)
    .refine((conditions) => ruleSize({ event: "", conditions }) <= RULE_MAX_SIZE, {
      message: `at most ${RULE_MAX_SIZE} paths and values, of which a long one counts as several`,
    }),
  scoring_signal: name,
  points: z.int().min(-MAX_POINTS).max(MAX_POINTS),
  frequency: z
    .enum(RULE_FREQUENCIES)
    .describe(
      "The frequency of scores for one person: each time that the rule matches, once a UTC day of receipt, or once ever. The " +
        "first signal recorded counts.",
    ),
  points_last_days: z
    .literal([null, ...POINTS_LAST_DAYS])
    .describe(
      "The days that the points count after the UTC day on which the signal occurred. Null: they always count.",
    ),
  enabled: z.boolean(),
};

export const newRule = z.strictObject({
  ...ruleFields,
  match: ruleFields.match.default("all"),
  conditions: ruleFields.conditions.default([]),
  frequency: ruleFields.frequency.default("every_time"),
  points_last_days: ruleFields.points_last_days.default(null),
  enabled: ruleFields.enabled.default(true),
});

export const ruleChange = z.strictObject(ruleFields).partial();

const FIELD_PROBLEM: Readonly<Record<string, string>> = {
  id: "Enter an id as text.",
  name: "Enter a name.",
  event: "Enter an event name.",
  scoring_signal: "Enter a scoring signal.",
  points: `Enter a whole number from ${grouped(-MAX_POINTS)} to ${grouped(MAX_POINTS)}.`,
  enabled: "Enter true or false.",
  conditions: `A rule has a list of at most ${RULE_MAX_CONDITIONS} conditions.`,
  path: "Enter a path.",
  value: "Enter a text, a number, true, false, or a list of them.",
};

/** Says how to fix a field of a rule, for people who use its form or import a file. */
export function ruleProblem(issue: z.core.$ZodIssue): string {
  const field = String(issue.path.at(-1));
  switch (issue.code) {
    case "custom":
      return `${issue.message.charAt(0).toUpperCase()}${issue.message.slice(1)}.`;
    case "unrecognized_keys":
      return `Remove the unknown ${issue.keys.length === 1 ? "field" : "fields"} ${issue.keys.slice(0, 10).join(", ")}.`;
    case "invalid_value":
      return `Use one of: ${issue.values.map(String).join(", ")}.`;
    case "too_big":
      if (issue.origin === "string") return `${issue.message.charAt(0).toUpperCase()}${issue.message.slice(1)}.`;
      return FIELD_PROBLEM[field] ?? "Enter less.";
    default:
      if (field === "value" && issue.code === "too_small") return "Enter at least one value.";
      return FIELD_PROBLEM[field] ?? "Enter an object with the fields of a rule or condition.";
  }
}
