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
import { isEventPattern, isRulePath, RULE_FREQUENCIES } from "../domain/rules/mapping-rule.ts";
import { ruleSize } from "../domain/rules/rule-content.ts";
import { fitsName } from "../domain/signal/validate-signal.ts";
import { name, noCredential } from "../http/fields.ts";
import { NAME_MAX_CODE_POINTS, RULE_MAX_CONDITIONS, RULE_MAX_SIZE, RULE_PATH_MAX_ELEMENTS } from "../limits.ts";

const scalar = z.union([
  z
    .string()
    .refine(fitsName, `at most ${NAME_MAX_CODE_POINTS} characters`)
    .refine(...noCredential),
  z.number(),
  z.boolean(),
]);

const condition = z
  .strictObject({
    path: z
      .string()
      .refine(isRulePath, "one of event, source, email, or properties. and a dot path")
      .refine(...noCredential)
      .meta({
        description:
          "`event`, `source`, `email`, or `properties.` and a dot path. `items[0].sku` is of an element, `items[].sku` of " +
          `any, of which the first ${RULE_PATH_MAX_ELEMENTS} are looked at.`,
        example: "properties.form_name",
      }),
    operator: z.enum(MAPPING_OPERATORS),
    value: z
      .union([scalar, z.array(scalar).min(1).max(200)])
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
  if (OPERATORS_WITHOUT_VALUE.includes(operator)) return value === undefined ? null : `${operator} takes no value`;
  if (value === undefined) return "a value is needed";
  if (OPERATORS_WITH_LIST.includes(operator)) return Array.isArray(value) ? null : `${operator} needs a list of values`;
  if (Array.isArray(value)) return `${operator} takes one value; use in for a list`;
  const isNumber = !Number.isNaN(toComparable(value).number);
  return OPERATORS_OF_NUMBERS.includes(operator) && !isNumber ? "a number is needed, such as 100" : null;
}

/** Fields of a rule, without defaults: a change keeps the fields that it does not name. */
export const ruleFields = {
  name,
  event: z
    .string()
    .trim()
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
  points: z.int().min(-1_000_000).max(1_000_000),
  frequency: z
    .enum(RULE_FREQUENCIES)
    .describe(
      "How often the rule may score one person: each time that it matches, once a UTC day of receipt, or once ever. The " +
        "first signal recorded counts.",
    ),
  enabled: z.boolean(),
};

export const newRule = z.strictObject({
  ...ruleFields,
  match: ruleFields.match.default("all"),
  conditions: ruleFields.conditions.default([]),
  frequency: ruleFields.frequency.default("every_time"),
  enabled: ruleFields.enabled.default(true),
});

export const ruleChange = z.strictObject(ruleFields).partial();
