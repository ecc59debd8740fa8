/** The form of a mapping rule: its fields as text, and the rule that they make. */
import type * as z from "zod";
import { exclusionContent, type ExclusionContent } from "../../domain/rules/exclusion.ts";
import { conditionValue, isComparatorName, type MappingCondition } from "../../domain/rules/comparators.ts";
import type { ProposedRule } from "../../domain/rules/propose-conditions.ts";
import type { RuleContent } from "../../domain/rules/rule-content.ts";
import { isExact } from "../../domain/json/json-value.ts";
import { ok, reject, type Result } from "../../domain/result.ts";
import {
  CONDITION_MAX_VALUES,
  NAME_MAX_CODE_POINTS,
  PREVIEW_DEFAULT_DAYS,
  PREVIEW_MAX_DAYS,
  RULE_MAX_CONDITIONS,
} from "../../limits.ts";
import { fitsName } from "../../domain/signal/validate-signal.ts";
import { newExclusion, newRule, ruleProblem } from "../../use-cases/rule-schema.ts";
import { formText, typedText } from "../pages-env.ts";

/** By field, such as `name` or `conditions.0.value`. */
export type FieldErrors = Record<string, string>;

export interface ConditionRow {
  path: string;
  operator: string;
  value: string;
  /** Absent: the condition is about any element. */
  sameElement?: boolean;
}

const BLANK_ROW: ConditionRow = { path: "", operator: "equals", value: "" };

/** The fields as text; `days` is for the preview. */
export const BLANK_FORM = {
  name: "",
  event: "",
  match: "all",
  conditions: [BLANK_ROW],
  scoringSignal: "",
  points: "",
  frequency: "every_time",
  pointsLastDays: "always",
  enabled: true,
  days: String(PREVIEW_DEFAULT_DAYS),
};
export type RuleForm = typeof BLANK_FORM;

export function readRuleForm(data: FormData): RuleForm {
  const text = (name: string) => typedText(data, name).replaceAll("\r\n", "\n");
  const [operators, values] = [data.getAll("operator"), data.getAll("value")];
  // A browser posts only the boxes that are checked, so each has the number of its row.
  const joined = new Set(data.getAll("same_element"));
  return {
    name: text("name"),
    event: text("event"),
    match: formText(data, "match"),
    // Reads at most one row above the limit, so that the schema rejects the rule and the page stays small.
    conditions: data
      .getAll("path")
      .slice(0, RULE_MAX_CONDITIONS + 1)
      .map((path, index) => ({
        path: entryText(path),
        operator: entryText(operators[index]),
        value: entryText(values[index]),
        ...(joined.has(String(index)) && { sameElement: true }),
      })),
    scoringSignal: text("scoring_signal"),
    points: text("points"),
    frequency: formText(data, "frequency") || BLANK_FORM.frequency,
    pointsLastDays: formText(data, "points_last_days") || BLANK_FORM.pointsLastDays,
    enabled: data.has("enabled"),
    days: formText(data, "days"),
  };
}

export function postedVersion(data: FormData): number | undefined {
  const text = formText(data, "version");
  return /^[1-9]\d{0,9}$/.test(text) ? Number(text) : undefined;
}

/** The entry's text with line ends as LF: browsers send CRLF. */
function entryText(entry: File | string | null | undefined): string {
  return typeof entry === "string" ? entry.replaceAll("\r\n", "\n") : "";
}

export function formOfRule(rule: RuleContent | ProposedRule): RuleForm {
  const { pointsLastDays = null }: Partial<RuleContent> = rule;
  return {
    ...BLANK_FORM,
    ...rule,
    conditions: rule.conditions.map(rowOf),
    points: String(rule.points),
    pointsLastDays: lastDaysInput(pointsLastDays),
  };
}

export function lastDaysInput(days: RuleContent["pointsLastDays"]): string {
  return days === null ? BLANK_FORM.pointsLastDays : String(days);
}

/** The form for a duplicate. It starts disabled: two equal rules score each signal twice. */
export function duplicateForm(rule: RuleContent): RuleForm {
  const name = Array.from(`Copy of ${rule.name}`).slice(0, NAME_MAX_CODE_POINTS).join("");
  return { ...formOfRule(rule), name, enabled: false };
}

/** `add` adds a condition, `remove-2` removes the third one. */
export function changeRows(form: RuleForm, button: string): RuleForm {
  if (button === "add") return { ...form, conditions: [...form.conditions, BLANK_ROW] };
  const removed = /^remove-(\d+)$/.exec(button)?.[1];
  if (removed === undefined) return form;
  return { ...form, conditions: rowsThat(form.conditions, (_, index) => index !== Number(removed)) };
}

/** Without the first condition about an element, the next one begins: it must not join the condition above. */
function rowsThat(rows: readonly ConditionRow[], stays: (row: ConditionRow, index: number) => boolean): ConditionRow[] {
  const left: ConditionRow[] = [];
  let beginnerLeft = false;
  for (const [index, row] of rows.entries()) {
    const { sameElement = false, ...alone } = row;
    const isJoined: boolean = sameElement && !beginnerLeft;
    const isKept = stays(row, index);
    if (isKept) left.push(isJoined ? row : alone);
    beginnerLeft = !isKept && !isJoined;
  }
  return left;
}

export function withoutBlankRows(form: RuleForm): RuleForm {
  return {
    ...form,
    conditions: rowsThat(form.conditions, ({ path, value }) => path.trim() !== "" || value.trim() !== ""),
  };
}

/** Characters of typed points. A longer text is no number that is allowed. */
const POINTS_MAX_LENGTH = 50;

/**
 * @param form without blank rows: errors name conditions by their place.
 * @param source the rule that the form was filled from. An unchanged field keeps the rule's value: the form cannot express
 * the text "5", a line break in an event's name, or a space at the end of a list's value.
 */
export function parseRule(form: RuleForm, source: RuleContent | null = null): Result<RuleContent, FieldErrors> {
  const points =
    form.points.length <= POINTS_MAX_LENGTH && /^\s*[+-]?\d+\s*$/.test(form.points) ? Number(form.points) : form.points;
  const textOf = (field: "name" | "event" | "scoringSignal"): string =>
    source !== null && form[field] === postedInput(source[field]) ? source[field] : form[field];
  const parsed = newRule.safeParse({
    name: textOf("name"),
    event: textOf("event"),
    match: form.match,
    conditions: conditionsOf(form.conditions, source?.conditions ?? []),
    scoring_signal: textOf("scoringSignal"),
    points,
    frequency: form.frequency,
    points_last_days: form.pointsLastDays === BLANK_FORM.pointsLastDays ? null : Number(form.pointsLastDays),
    enabled: form.enabled,
  });
  if (parsed.success) {
    const { scoring_signal: scoringSignal, points_last_days: pointsLastDays, ...rule } = parsed.data;
    return ok({ ...rule, scoringSignal, pointsLastDays });
  }
  return reject(errorsOf(parsed.error));
}

function errorsOf({ issues }: z.core.$ZodError): FieldErrors {
  const errors: FieldErrors = {};
  for (const issue of issues) errors[issue.path.slice(0, 3).join(".")] ??= ruleProblem(issue);
  return errors;
}

/** As `parseRule`, for an exclusion. */
export function parseExclusion(
  form: RuleForm,
  source: ExclusionContent | null = null,
): Result<ExclusionContent, FieldErrors> {
  const parsed = newExclusion.safeParse({
    name: source !== null && form.name === postedInput(source.name) ? source.name : form.name,
    match: form.match,
    conditions: conditionsOf(form.conditions, source?.conditions ?? []),
  });
  return parsed.success ? ok(exclusionContent(parsed.data)) : reject(errorsOf(parsed.error));
}

export function formOfExclusion({ name, match, conditions }: ExclusionContent): RuleForm {
  return { ...BLANK_FORM, name, match, conditions: conditions.map(rowOf) };
}

/** For the preview, which needs neither a name nor points. */
export function ruleForPreview(form: RuleForm, source: RuleContent | null = null): Result<RuleContent, FieldErrors> {
  const points = form.points.trim() === "" ? "0" : form.points;
  return parseRule({ ...form, name: "preview", scoringSignal: "preview", points }, source);
}

export function previewDays({ days }: RuleForm): number {
  const number = Math.trunc(Number(days));
  return number >= 1 && number <= PREVIEW_MAX_DAYS ? number : PREVIEW_DEFAULT_DAYS;
}

/** The conditions of the rows. Each condition of the source replaces the first row that shows it unchanged. */
function conditionsOf(rows: readonly ConditionRow[], source: readonly MappingCondition[]): unknown[] {
  const left = source.map((condition) => ({ condition, row: rowOf(condition) }));
  return rows.map((row) => {
    const at = left.findIndex(
      ({ row: { path, operator, value } }) =>
        row.path === postedInput(path) && row.operator === operator && row.value === postedText(value),
    );
    const [known] = at < 0 ? [] : left.splice(at, 1);
    return { ...(known === undefined ? conditionOf(row) : known.condition), same_element: row.sameElement === true };
  });
}

/** The text that a browser posts from a `textarea`, with line ends as LF. */
function postedText(text: string): string {
  return text.replaceAll(/\r\n?/g, "\n").replaceAll("\0", "\uFFFD").toWellFormed();
}

/** The text that a browser posts from an `input`. */
function postedInput(text: string): string {
  return postedText(text).replaceAll("\n", "");
}

function conditionOf({ path, operator, value }: ConditionRow): object {
  const condition = { path: path.trim(), operator };
  const needed = isComparatorName(operator) ? conditionValue(operator) : "one";
  if (needed === "none") return condition;
  if (needed === "list") return { ...condition, value: listOf(value) };
  return value.trim() === "" ? condition : { ...condition, value: scalarOf(withoutOuterLineEnds(value)) };
}

/** A line end before or after a value is invisible, and such a value hardly ever matches. */
function withoutOuterLineEnds(text: string): string {
  let [start, end] = [0, text.length];
  while (text[start] === "\n") start++;
  while (end > start && text[end - 1] === "\n") end--;
  return text.slice(start, end);
}

/**
 * The values of a list: one per line, or on a single line separated by commas. Reads at most one value above the limit, so that
 * the schema rejects the list without a look at all of them.
 */
function listOf(text: string): (string | number)[] {
  return text
    .split(text.includes("\n") ? "\n" : ",")
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .slice(0, CONDITION_MAX_VALUES + 1)
    .map(scalarOf);
}

/** A text is a number only where numbers are written so: to the rules, `7` and `"7"` are the same, `"007"` is not. */
function scalarOf(text: string): string | number {
  if (!fitsName(text)) return text;
  const number = Number(text);
  return String(number) === text && isExact(number) && /^-?[\d.]+$/.test(text) ? number : text;
}

/** The line end after a list says that a comma in its only value is part of it. */
function rowOf({ path, operator, value, same_element }: MappingCondition): ConditionRow {
  const text = Array.isArray(value) ? `${value.map(String).join("\n")}\n` : String(value ?? "");
  return { path, operator, value: text, ...(same_element === true && { sameElement: true }) };
}
