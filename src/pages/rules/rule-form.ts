/**
 * The form of a mapping rule: texts as they are typed, and the rule that they make. What is wrong is said by the schema
 * that the operator API has too, field by field.
 */
import type { RuleContent } from "../../domain/rules/rule-content.ts";
import { OPERATORS_WITH_LIST, OPERATORS_WITHOUT_VALUE } from "../../domain/rules/mapping-condition.ts";
import type { MappingCondition, MappingOperator } from "../../domain/rules/mapping-condition.ts";
import type { ProposedRule } from "../../domain/rules/propose-conditions.ts";
import { ok, refuse, type Result } from "../../domain/result.ts";
import { NAME_MAX_CODE_POINTS, PREVIEW_DEFAULT_DAYS, PREVIEW_MAX_DAYS, RULE_MAX_CONDITIONS } from "../../limits.ts";
import { newRule } from "../../workspace/rule-schema.ts";

export interface ConditionRow {
  path: string;
  operator: string;
  value: string;
}

export interface RuleForm {
  name: string;
  event: string;
  match: string;
  conditions: ConditionRow[];
  scoringSignal: string;
  points: string;
  frequency: string;
  enabled: boolean;
  /** How many days the preview looks back. */
  days: string;
}

/** Sentences by field, such as `name` or `conditions.0.value`. */
export type FieldErrors = Record<string, string>;

const BLANK_ROW: ConditionRow = { path: "", operator: "equals", value: "" };

export const BLANK_FORM: RuleForm = {
  name: "",
  event: "",
  match: "all",
  conditions: [BLANK_ROW],
  scoringSignal: "",
  points: "",
  frequency: "every_time",
  enabled: true,
  days: String(PREVIEW_DEFAULT_DAYS),
};

export function readRuleForm(data: FormData): RuleForm {
  const text = (name: string) => entryText(data.get(name));
  const [operators, values] = [data.getAll("operator"), data.getAll("value")];
  return {
    name: text("name"),
    event: text("event"),
    match: text("match"),
    // One more than a rule may have, so that the schema refuses the rule. The page draws no more rows than these.
    conditions: data
      .getAll("path")
      .slice(0, RULE_MAX_CONDITIONS + 1)
      .map((path, index) => ({
        path: entryText(path),
        operator: entryText(operators[index]),
        value: entryText(values[index]),
      })),
    scoringSignal: text("scoring_signal"),
    points: text("points"),
    frequency: text("frequency") || BLANK_FORM.frequency,
    enabled: data.has("enabled"),
    days: text("days"),
  };
}

export function formOf(rule: RuleContent | ProposedRule): RuleForm {
  const { name, event, match, scoringSignal } = rule;
  return {
    ...BLANK_FORM,
    name,
    event,
    match,
    scoringSignal,
    conditions: rule.conditions.map(rowOf),
    points: String(rule.points),
    ...("frequency" in rule ? { frequency: rule.frequency, enabled: rule.enabled } : {}),
  };
}

/** The form after a button: `remove-2` removes the third condition, `add` adds one, anything else changes nothing. */
export function changeRows(form: RuleForm, what: string): RuleForm {
  if (what === "add") return { ...form, conditions: [...form.conditions, BLANK_ROW] };
  const removed = /^remove-(\d+)$/.exec(what)?.[1];
  if (removed === undefined) return form;
  return { ...form, conditions: form.conditions.filter((_, index) => index !== Number(removed)) };
}

/** The form without conditions in which nothing was typed. */
export function withoutBlankRows(form: RuleForm): RuleForm {
  return {
    ...form,
    conditions: form.conditions.filter(({ path, value }) => path.trim() !== "" || value.trim() !== ""),
  };
}

/**
 * @param form without blank rows: errors name conditions by their place.
 * @param drawnFrom the rule that the form was drawn from. A field that comes back as it was drawn keeps the rule's value: no
 * text in a form says the text "5", a line break in an event's name, or a space at the end of a list's value.
 */
export function ruleTyped(form: RuleForm, drawnFrom: RuleContent | null = null): Result<RuleContent, FieldErrors> {
  const points = /^\s*[+-]?\d+\s*$/.test(form.points) ? Number(form.points) : form.points;
  const textOf = (field: "name" | "event" | "scoringSignal"): string =>
    drawnFrom !== null && form[field] === postedInput(drawnFrom[field]) ? drawnFrom[field] : form[field];
  const parsed = newRule.safeParse({
    name: textOf("name"),
    event: textOf("event"),
    match: form.match,
    conditions: conditionsOf(form.conditions, drawnFrom?.conditions ?? []),
    scoring_signal: textOf("scoringSignal"),
    points,
    frequency: form.frequency,
    enabled: form.enabled,
  });
  if (parsed.success) {
    const { scoring_signal: scoringSignal, ...rule } = parsed.data;
    return ok({ ...rule, scoringSignal });
  }
  const errors: FieldErrors = {};
  for (const { path, code, message } of parsed.error.issues) {
    const field = path.slice(0, 3).join(".");
    errors[field] ??= messageOf(field, code, message);
  }
  return refuse(errors);
}

/** A form for another rule like this one. */
export function copyOf(rule: RuleContent): RuleForm {
  const name = Array.from(`Copy of ${rule.name}`).slice(0, NAME_MAX_CODE_POINTS).join("");
  return { ...formOf(rule), name };
}

/** What of the form a preview needs, or what is wrong with that. */
export function draftOf(form: RuleForm, drawnFrom: RuleContent | null = null): Result<RuleContent, FieldErrors> {
  const points = form.points.trim() === "" ? "0" : form.points;
  return ruleTyped({ ...form, name: "preview", scoringSignal: "preview", points }, drawnFrom);
}

export function previewDays({ days }: RuleForm): number {
  const number = Math.trunc(Number(days));
  return number >= 1 && number <= PREVIEW_MAX_DAYS ? number : PREVIEW_DEFAULT_DAYS;
}

/** The conditions of the rows. Each condition of `drawn` stands for the first row that shows it unchanged. */
function conditionsOf(rows: readonly ConditionRow[], drawn: readonly MappingCondition[]): unknown[] {
  const left = drawn.map((condition) => ({ condition, row: rowOf(condition) }));
  return rows.map((row) => {
    const at = left.findIndex((known) => isUnchanged(row, known.row));
    return at < 0 ? conditionOf(row) : left.splice(at, 1)[0]?.condition;
  });
}

function isUnchanged(posted: ConditionRow, drawn: ConditionRow): boolean {
  return (
    posted.path === postedInput(drawn.path) &&
    posted.operator === drawn.operator &&
    posted.value === postedText(drawn.value)
  );
}

/** What a browser posts of a text in a `textarea`, with line ends as LF. */
function postedText(text: string): string {
  return text.replaceAll(/\r\n?/g, "\n").replaceAll("\0", "\uFFFD").toWellFormed();
}

/** What a browser posts of a text in an `input`. */
function postedInput(text: string): string {
  return postedText(text).replaceAll("\n", "");
}

/** A condition with its value as the operator takes it: none, a list, or one; numbers as numbers. */
function conditionOf({ path, operator, value }: ConditionRow): unknown {
  const condition = { path: path.trim(), operator };
  if (OPERATORS_WITHOUT_VALUE.includes(operator as MappingOperator)) return condition;
  if (OPERATORS_WITH_LIST.includes(operator as MappingOperator)) return { ...condition, value: listOf(value) };
  return value.trim() === "" ? condition : { ...condition, value: scalarOf(withoutOuterLineEnds(value)) };
}

/** An Enter before or after the value is a slip that nobody sees, and a value with a line end hardly ever fits. */
function withoutOuterLineEnds(text: string): string {
  return text.replaceAll(/^\n+|\n+$/g, "");
}

/** The values of a list: one to a line, or on a single line between commas. */
function listOf(text: string): (string | number)[] {
  return text
    .split(text.includes("\n") ? "\n" : ",")
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .map(scalarOf);
}

/** A text is a number only where numbers are written so: to the rules, `7` and `"7"` are the same, `"007"` is not. */
function scalarOf(text: string): string | number {
  return String(Number(text)) === text && /^-?[\d.]+$/.test(text) ? Number(text) : text;
}

function rowOf({ path, operator, value }: MappingCondition): ConditionRow {
  return { path, operator, value: typed(value) };
}

/** A condition's value as it is typed. A line's end after a list's only value says that a comma in it is part of it. */
function typed(value: MappingCondition["value"]): string {
  if (value === undefined) return "";
  return Array.isArray(value) ? `${value.map(String).join("\n")}\n` : String(value);
}

/** The entry's text with line ends as LF: browsers send CRLF. */
function entryText(entry: File | string | null | undefined): string {
  return typeof entry === "string" ? entry.replaceAll("\r\n", "\n") : "";
}

function messageOf(field: string, code: string, message: string): string {
  if (field === "points") return "A whole number between -1,000,000 and 1,000,000.";
  if (field === "match" || field === "frequency" || field.endsWith(".operator")) return "Choose one of the list.";
  if (field.endsWith(".value") && code === "too_small") return "At least one value.";
  if (field === "conditions" && code === "too_big") return `A rule has at most ${RULE_MAX_CONDITIONS} conditions.`;
  if (code === "too_small") return "This is needed.";
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}
