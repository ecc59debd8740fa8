/** Imports mapping rules, all or none: first decides each step, then writes all of them. */
import * as z from "zod";
import type { ControlContext, ControlDatabase } from "../control/database.ts";
import { writeImport } from "../control/rule-changes.ts";
import { readAllRules, type StoredRule } from "../control/stored-rules.ts";
import { grouped } from "../domain/text.ts";
import { isJsonObject } from "../domain/json/dot-path.ts";
import { describePlace } from "../domain/json/json-error.ts";
import { findJsonError, jsonShape } from "../domain/json/json-scan.ts";
import { ok, refuse, type Result } from "../domain/result.ts";
import { contentOf, type RuleContent } from "../domain/rules/rule-content.ts";
import {
  afterImport,
  planImport,
  type ImportedRule,
  type ImportRefusal,
  type ImportStep,
} from "../domain/rules/rule-import.ts";
import { recordId } from "../http/fields.ts";
import { JSON_MAX_DEPTH, JSON_MAX_VALUES, WORKSPACE_MAX_RULES, WORKSPACE_RULES_MAX_SIZE } from "../limits.ts";
import { newRule, ruleProblem } from "./rule-schema.ts";

export const IMPORT_REFUSAL = {
  name_ambiguous: "several rules here have this name: rename all but one of them, or give an id",
  twice: "an earlier rule of this import changes the same rule",
} as const satisfies Record<ImportRefusal, string>;

export type RuleImportStep = ImportStep<StoredRule>;

export interface RuleImport {
  /** Step per rule, in the order of the import. */
  steps: RuleImportStep[];
  /** Limit that the whole import exceeds; null: it fits. */
  exceededLimit: "too_many_rules" | "rules_too_large" | null;
  /** Rules version of the workspace on which the steps are based. */
  rulesVersion: number;
}

/** Decides the steps of an import without changing anything. */
export async function planRuleImport(
  db: ControlDatabase,
  workspaceId: string,
  imported: readonly ImportedRule[],
): Promise<RuleImport> {
  const { rules, rulesVersion } = await readAllRules(db, workspaceId);
  const steps = planImport(rules, imported);
  const { count, size } = afterImport(rules, steps);
  const isTooLarge = size > WORKSPACE_RULES_MAX_SIZE;
  const exceededLimit = count > WORKSPACE_MAX_RULES ? "too_many_rules" : isTooLarge ? "rules_too_large" : null;
  return { steps, exceededLimit, rulesVersion };
}

export function isPossible({ steps, exceededLimit }: RuleImport): boolean {
  return exceededLimit === null && steps.every(({ result }) => result !== "refused");
}

/**
 * Imports all rules or none.
 *
 * @param rulesVersion version of the rules that the person saw in a preview; undefined: any.
 * @returns the steps and the ids of the added rules in their order. If nothing was imported: the current steps and the reason.
 */
export async function importRules(
  context: ControlContext,
  imported: readonly ImportedRule[],
  rulesVersion?: number,
): Promise<
  Result<{ plan: RuleImport; addedIds: string[] }, { reason: "not_possible" | "rules_changed"; plan: RuleImport }>
> {
  for (let attempt = 1; ; attempt++) {
    // oxlint-disable-next-line no-await-in-loop -- another attempt only if rules were changed in between
    const plan = await planRuleImport(context.db, context.workspaceId, imported);
    if (rulesVersion !== undefined && plan.rulesVersion !== rulesVersion) {
      return refuse({ reason: "rules_changed", plan });
    }
    if (!isPossible(plan)) return refuse({ reason: "not_possible", plan });
    // oxlint-disable-next-line no-await-in-loop
    const addedIds = await writeSteps(context, plan);
    if (addedIds !== null) return ok({ plan, addedIds });
    if (attempt === IMPORT_ATTEMPTS) return refuse({ reason: "rules_changed", plan });
  }
}

const IMPORT_ATTEMPTS = 5;

async function writeSteps(context: ControlContext, { steps, rulesVersion }: RuleImport): Promise<string[] | null> {
  const added = steps.flatMap((step) => (step.result === "added" ? [step.rule] : []));
  const changed = steps.flatMap((step) => (step.result === "changed" ? [{ id: step.before.id, rule: step.rule }] : []));
  if (added.length + changed.length === 0) return [];
  return writeImport(context, { added, changed }, rulesVersion);
}

const ignored = z.unknown().optional().describe("Ignored.");

const importedRule = newRule
  .extend({
    id: recordId.optional().describe("Of the rule of the workspace to change. An unknown id is ignored."),
    version: ignored,
    created_at: ignored,
    updated_at: ignored,
    updated_by: ignored,
  })
  .meta({ id: "ImportedMappingRule" });

export const ruleFile = z.strictObject({
  items: z.array(importedRule).min(1).max(WORKSPACE_MAX_RULES),
  next: z.null().optional().describe("As on the last page of a list."),
});

/** An error of the file: of the rule at this index, from 0, or of the whole file. */
export interface FileProblem {
  index: number | null;
  name: string | null;
  messages: string[];
}

export function importedOf(rule: z.output<typeof importedRule>): ImportedRule {
  const { scoring_signal: scoringSignal, points_last_days: pointsLastDays, ...content } = rule;
  return { ...contentOf({ ...content, scoringSignal, pointsLastDays }), id: rule.id };
}

/** Parses a file of rules and returns all errors, by rule. Accepts a bare list as well as `{"items": …}`. */
export function readRuleFile(text: string): Result<ImportedRule[], FileProblem[]> {
  const refuseFile = (message: string) => refuse([{ index: null, name: null, messages: [message] }]);
  if (text.trim() === "") return refuseFile("Choose a file or paste its text.");
  const bytes = new TextEncoder().encode(text);
  const { depth, values } = jsonShape(bytes, { maxDepth: JSON_MAX_DEPTH, maxValues: JSON_MAX_VALUES });
  if (depth > JSON_MAX_DEPTH) return refuseFile(`A file of rules is nested at most ${JSON_MAX_DEPTH} levels deep.`);
  if (values > JSON_MAX_VALUES) return refuseFile(`A file has at most ${grouped(JSON_MAX_VALUES)} values. Split it.`);
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    const error = findJsonError(bytes, 0, bytes.length);
    const at = error === null ? "" : ` at ${describePlace(bytes, 0, error.position)}`;
    return refuseFile(`The file is not valid JSON${at}.`);
  }
  const items = isJsonObject(json) ? json["items"] : json;
  if (!Array.isArray(items)) return refuseFile('The file has no list of rules: {"items": […]}.');
  if (items.length === 0) return refuseFile("The list has no rules.");
  if (items.length > WORKSPACE_MAX_RULES)
    return refuseFile(`A workspace has at most ${WORKSPACE_MAX_RULES} mapping rules.`);
  const rules: ImportedRule[] = [];
  const problems: FileProblem[] = [];
  for (const [index, item] of (items as unknown[]).entries()) {
    const parsed = importedRule.safeParse(item);
    if (parsed.success) rules.push(importedOf(parsed.data));
    else problems.push({ index, name: nameOf(item), messages: parsed.error.issues.map(messageOf) });
  }
  return problems.length > 0 ? refuse(problems) : ok(rules);
}

/** Rules as a file for people and version control, without generated fields. */
export function ruleFileOf(rules: readonly (RuleContent & { id: string })[]): string {
  const items = rules.map(({ id, ...rule }) => ({ id, ...ruleJson(contentOf(rule)) }));
  return `${JSON.stringify({ items }, null, 2)}\n`;
}

function ruleJson({ name, event, match, conditions, scoringSignal, points, frequency, ...rule }: RuleContent) {
  return {
    name,
    event,
    match,
    conditions,
    scoring_signal: scoringSignal,
    points,
    frequency,
    points_last_days: rule.pointsLastDays,
    enabled: rule.enabled,
  };
}

function nameOf(item: unknown): string | null {
  return isJsonObject(item) && typeof item["name"] === "string" ? item["name"] : null;
}

function messageOf(issue: z.core.$ZodIssue): string {
  const place = issue.path.map((part) => (typeof part === "number" ? part + 1 : String(part))).join(" ");
  const name = place.replace(/^conditions (\d+) ?/, (_, number: string) => `condition ${number}, `).replace(/, $/, "");
  return name === "" ? ruleProblem(issue) : `${name}: ${ruleProblem(issue)}`;
}
