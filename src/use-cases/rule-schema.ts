/** The schema of a mapping rule, for its form, the operator API and imports. */
import * as z from "zod";
import {
  COMPARATOR_NAMES,
  conditionValue,
  toComparable,
  type ComparatorName,
  type MappingCondition,
} from "../domain/rules/comparators.ts";
import {
  groupsOf,
  isEventPattern,
  isRulePath,
  parseListRulePath,
  POINTS_LAST_DAYS,
  RULE_FREQUENCIES,
} from "../domain/rules/mapping-rule.ts";
import { isExact } from "../domain/json/json-value.ts";
import { holdsCredential } from "../domain/keys/api-key.ts";
import { exclusionsSize, ruleSize } from "../domain/rules/rule-content.ts";
import { grouped } from "../domain/text.ts";
import { repeatedNames } from "../domain/rules/exclusion.ts";
import { name, nameLength, noCredential, recordId, shortText, textOption } from "../http/fields.ts";
import {
  EXCLUSIONS_MAX_SIZE,
  CONDITION_MAX_VALUES,
  NAME_MAX_CODE_POINTS,
  RULE_MAX_CONDITIONS,
  RULE_MAX_SIZE,
  RULE_PATH_MAX_ELEMENTS,
  WORKSPACE_MAX_EXCLUSIONS,
} from "../limits.ts";

const MAX_POINTS = 1_000_000;

/** Reading the request has rounded a larger number. As a text it keeps its digits, and compares as a number. */
const number = z.number().refine(isExact, "write a number beyond 2^53 as a text");
const scalar = z.union([textOption(nameLength, noCredential), number, z.boolean()]);

function namesWith(value: ReturnType<typeof conditionValue>): string {
  const names = COMPARATOR_NAMES.filter((comparator) => conditionValue(comparator) === value);
  return names.map((comparator) => `\`${comparator}\``).join(", ");
}

const condition = z
  .strictObject({
    path: shortText()
      .refine(isRulePath, "use event, source, email, or a path such as properties.form_name")
      .refine(...noCredential)
      .meta({
        description:
          "`event`, `source`, `email`, or `properties.` or `payload.` (the signal as sent) and a dot path. `items[0].sku` is of an element, `items[].sku` of " +
          `any, of which the first ${RULE_PATH_MAX_ELEMENTS} are looked at.`,
        example: "properties.form_name",
      }),
    operator: z.enum(COMPARATOR_NAMES),
    value: z
      .union([scalar, z.array(scalar).min(1).max(CONDITION_MAX_VALUES)])
      .exactOptional()
      .describe(
        `A list for ${namesWith("list")}; a number for ${namesWith("number")}; nothing for ${namesWith("none")}.`,
      ),
    same_element: z
      .boolean()
      .exactOptional()
      .describe(
        "True: about the same element of a list as the condition before it. Such conditions in a row count as one, which holds if " +
          "an element fits all of them. Their paths are the same up to the last `[]`. Absent: about any element.",
      ),
  })
  .superRefine(({ operator, value }, ctx) => {
    const message = valueError(operator, value);
    if (message !== null) ctx.addIssue({ code: "custom", path: ["value"], message });
  })
  // Equal conditions are stored as equal texts.
  .overwrite(({ same_element, ...rest }) => (same_element === true ? { ...rest, same_element } : rest))
  .meta({ id: "MappingCondition" });

function valueError(operator: ComparatorName, value: unknown): string | null {
  if (conditionValue(operator) === "none") return value === undefined ? null : `“${operator}” takes no value`;
  if (value === undefined) return "a value is needed";
  if (conditionValue(operator) === "list") return Array.isArray(value) ? null : `“${operator}” needs a list of values`;
  if (Array.isArray(value)) return `“${operator}” takes one value; use “in” for a list`;
  const isNumber = !Number.isNaN(toComparable(value).number);
  return conditionValue(operator) === "number" && !isNumber ? "a number is needed, such as 100" : null;
}

/** Problems of conditions that are about the same element. @returns field of the condition at the index, and message. */
function sameElementErrors(
  listed: readonly MappingCondition[],
): [index: number, field: "path" | "same_element", message: string][] {
  if (listed[0]?.same_element === true) {
    return [[0, "same_element", "the first condition has none before it: leave “same_element” out"]];
  }
  let next = 0;
  return groupsOf(listed).flatMap((group): ReturnType<typeof sameElementErrors> => {
    const [first, ...joined] = group;
    const at = next;
    next += group.length;
    // A wrong path has its own error.
    if (joined.length === 0 || !isRulePath(first.path) || holdsCredential(first.path)) return [];
    const list = parseListRulePath(first.path)?.list;
    if (list === undefined) return [[at, "path", NEEDS_LIST]];
    const message = `it is about the same element as the condition before it: begin the path with “${list}”, and write no further “[]”`;
    return joined.flatMap(({ path }, nth) =>
      !isRulePath(path) || parseListRulePath(path)?.list === list ? [] : [[at + 1 + nth, "path" as const, message]],
    );
  });
}

const NEEDS_LIST =
  "the next condition is about the same element: write a path with “[]”, such as properties.items[].sku";

const conditions = z
  .array(condition)
  .max(RULE_MAX_CONDITIONS)
  .superRefine((listed, ctx) => {
    for (const [index, field, message] of sameElementErrors(listed)) {
      ctx.addIssue({ code: "custom", path: [index, field], message });
    }
  })
  .refine((listed) => ruleSize({ event: "", conditions: listed }) <= RULE_MAX_SIZE, {
    message: `at most ${RULE_MAX_SIZE} paths and values, of which a long one counts as several`,
  });

/** Fields of a rule, without defaults: a change keeps the fields that it does not name. */
export const ruleFields = {
  name,
  event: shortText({ trim: true })
    .refine(isEventPattern, `an event name or pattern of 1 to ${NAME_MAX_CODE_POINTS} characters`)
    .refine(...noCredential)
    .meta({ description: "An event name; `*` stands for anything.", example: "Filled Out *" }),
  match: z.enum(["all", "any"]),
  conditions,
  scoring_signal: name,
  points: z.int().min(-MAX_POINTS).max(MAX_POINTS),
  frequency: z
    .enum(RULE_FREQUENCIES)
    .describe(
      "The frequency of scores for one person: each time that the rule matches, once a UTC day of occurrence, or once ever. The " +
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

export const exclusionFields = {
  name,
  match: z.enum(["all", "any"]).describe("Whether all conditions must hold, or any of them."),
  conditions: conditions.min(1, "an exclusion needs a condition: without one it would cover each signal"),
};

export const newExclusion = z.strictObject({
  id: recordId
    .optional()
    .describe("Of the exclusion that the item replaces. An unknown id is ignored: then the name decides."),
  ...exclusionFields,
  match: exclusionFields.match.default("all"),
});

/** All exclusions of a workspace. */
export const exclusionList = z
  .array(newExclusion)
  .max(WORKSPACE_MAX_EXCLUSIONS)
  .superRefine((items, ctx) => {
    for (const index of repeatedNames(items)) {
      ctx.addIssue({ code: "custom", path: [index, "name"], message: "an earlier exclusion has this name" });
    }
    const size = exclusionsSize(items);
    const message = `all exclusions together have ${grouped(size)} paths and values, and at most ${grouped(EXCLUSIONS_MAX_SIZE)} are allowed`;
    if (size > EXCLUSIONS_MAX_SIZE) ctx.addIssue({ code: "custom", path: [], message });
  });

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
  same_element: "Enter true or false.",
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
      if (field === "conditions" && issue.code === "too_small")
        return "Add a condition: without one it would cover each signal.";
      if (field === "value" && issue.code === "too_small") return "Enter at least one value.";
      return FIELD_PROBLEM[field] ?? "Enter an object with the fields of a rule or condition.";
  }
}
