/** Imports mapping rules, all or none: first decides each step, then writes all of them. */
import * as z from "zod";
import type { CurrentExclusions } from "../d1/exclusions.ts";
import type { ControlContext, ControlDatabase } from "../d1/database.ts";
import { writeImport } from "../d1/rule-changes.ts";
import { readAllRules, type StoredRule } from "../d1/stored-rules.ts";
import { grouped } from "../domain/text.ts";
import { isJsonObject } from "../domain/json/json-value.ts";
import { describePlace } from "../domain/json/json-error.ts";
import { findJsonError, jsonShape } from "../domain/json/json-scan.ts";
import { ok, reject, type Result } from "../domain/result.ts";
import {
  afterExclusionImport,
  exclusionChanges,
  repeatedNames,
  type Exclusion,
  type ImportedExclusion,
} from "../domain/rules/exclusion.ts";
import { contentOf, exclusionsSize, type RuleContent } from "../domain/rules/rule-content.ts";
import {
  afterImport,
  planImport,
  type ImportedRule,
  type ImportRejection,
  type ImportStep,
} from "../domain/rules/rule-import.ts";
import { recordId } from "../http/fields.ts";
import {
  EXCLUSIONS_MAX_SIZE,
  JSON_MAX_DEPTH,
  JSON_MAX_VALUES,
  WORKSPACE_MAX_EXCLUSIONS,
  WORKSPACE_MAX_RULES,
  WORKSPACE_RULES_MAX_SIZE,
} from "../limits.ts";
import { newId } from "../platform/ids.ts";
import { exclusionList, newRule, ruleProblem } from "./rule-schema.ts";

export const IMPORT_REJECTION = {
  name_ambiguous: "several rules here have this name: rename all but one of them, or give an id",
  twice: "an earlier rule of this import changes the same rule",
  added_twice: "an earlier new rule of this import has the same name: rename one of them",
} as const satisfies Record<ImportRejection, string>;

export type RuleImportStep = ImportStep<StoredRule>;

export interface RuleImport {
  /** Step per rule, in the order of the import. */
  steps: RuleImportStep[];
  exclusions: ExclusionsImport;
  /** Limit that the whole import exceeds; null: it fits. */
  exceededLimit:
    | "too_many_rules"
    | "rules_too_large"
    | "too_many_exclusions"
    | "exclusions_too_large"
    | "exclusion_name_taken"
    | null;
  /** Rules version of the workspace on which the steps are based. */
  rulesVersion: number;
}

/** What an import makes of the exclusions: it changes and adds those that it has, and keeps the others. */
export interface ExclusionsImport {
  /** The list from then on, in its next version. */
  after: CurrentExclusions;
  added: string[];
  changed: string[];
}

export interface ImportedRules {
  rules: readonly ImportedRule[];
  exclusions: readonly ImportedExclusion[];
}

/** Decides the steps of an import without changing anything. */
export async function planRuleImport(
  db: ControlDatabase,
  workspaceId: string,
  imported: ImportedRules,
): Promise<RuleImport> {
  const { rules, exclusions: known, rulesVersion } = await readAllRules(db, workspaceId);
  const steps = planImport(rules, imported.rules);
  const exclusions = afterExclusionImport(known.exclusions, imported.exclusions, () => newId("exc"));
  const { added, changed } = exclusionChanges(known.exclusions, exclusions);
  return {
    steps,
    exclusions: { after: { version: known.version + 1, exclusions }, added, changed },
    exceededLimit: exceededLimitOf(afterImport(rules, steps), exclusions),
    rulesVersion,
  };
}

function exceededLimitOf(
  { count, size }: ReturnType<typeof afterImport>,
  exclusions: readonly Exclusion[],
): RuleImport["exceededLimit"] {
  if (count > WORKSPACE_MAX_RULES) return "too_many_rules";
  if (size > WORKSPACE_RULES_MAX_SIZE) return "rules_too_large";
  if (exclusions.length > WORKSPACE_MAX_EXCLUSIONS) return "too_many_exclusions";
  if (exclusionsSize(exclusions) > EXCLUSIONS_MAX_SIZE) return "exclusions_too_large";
  return repeatedNames(exclusions).length > 0 ? "exclusion_name_taken" : null;
}

export function isPossible({ steps, exceededLimit }: RuleImport): boolean {
  return exceededLimit === null && steps.every(({ result }) => result !== "rejected");
}

/**
 * Imports all rules or none.
 *
 * @param rulesVersion version of the rules that the person saw in a preview; undefined: any.
 * @returns the steps and the ids of the added rules in their order. If nothing was imported: the current steps and the reason.
 */
export async function importRules(
  context: ControlContext,
  imported: ImportedRules,
  rulesVersion?: number,
): Promise<
  Result<{ plan: RuleImport; addedIds: string[] }, { reason: "not_possible" | "rules_changed"; plan: RuleImport }>
> {
  for (let attempt = 1; ; attempt++) {
    // oxlint-disable-next-line no-await-in-loop -- another attempt only if rules were changed in between
    const plan = await planRuleImport(context.db, context.workspaceId, imported);
    if (rulesVersion !== undefined && plan.rulesVersion !== rulesVersion) {
      return reject({ reason: "rules_changed", plan });
    }
    if (!isPossible(plan)) return reject({ reason: "not_possible", plan });
    // oxlint-disable-next-line no-await-in-loop
    const addedIds = await writeSteps(context, plan);
    if (addedIds !== null) return ok({ plan, addedIds });
    if (attempt === IMPORT_ATTEMPTS) return reject({ reason: "rules_changed", plan });
  }
}

const IMPORT_ATTEMPTS = 5;

/** Whether the import changes nothing. */
export function isEmpty({ steps, exclusions }: RuleImport): boolean {
  const isChange = exclusions.added.length + exclusions.changed.length > 0;
  return !isChange && steps.every(({ result }) => result === "unchanged");
}

async function writeSteps(context: ControlContext, plan: RuleImport): Promise<string[] | null> {
  const { steps, rulesVersion } = plan;
  if (isEmpty(plan)) return [];
  const added = steps.flatMap((step) => (step.result === "added" ? [step.rule] : []));
  const changed = steps.flatMap((step) => (step.result === "changed" ? [{ id: step.before.id, rule: step.rule }] : []));
  const { after, added: addedNames, changed: changedNames } = plan.exclusions;
  const names = [...addedNames, ...changedNames];
  const exclusions = names.length === 0 ? null : { after, names };
  return writeImport(context, { added, changed, exclusions }, rulesVersion);
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

export const ruleFile = z
  .strictObject({
    items: z.array(importedRule).max(WORKSPACE_MAX_RULES),
    exclusions: exclusionList.default([]).describe("Exclusions to change and to add. Others stay."),
    next: z.null().optional().describe("As on the last page of a list."),
  })
  .refine(({ items, exclusions }) => items.length + exclusions.length > 0, {
    path: ["items"],
    message: "the list has no rules, and there are no exclusions",
  });

/** An error of the file: of the rule or exclusion at this index, from 0, or of the whole file. */
export interface FileProblem {
  of?: "exclusion";
  index: number | null;
  name: string | null;
  messages: string[];
}

export function importedOf(rule: z.output<typeof importedRule>): ImportedRule {
  const { scoring_signal: scoringSignal, points_last_days: pointsLastDays, ...content } = rule;
  return { ...contentOf({ ...content, scoringSignal, pointsLastDays }), id: rule.id };
}

/** Parses a file of rules and exclusions and returns all errors, by rule. Accepts a bare list as well as `{"items": …}`. */
export function readRuleFile(text: string): Result<ImportedRules, FileProblem[]> {
  const rejectFile = (message: string) => reject([{ index: null, name: null, messages: [message] }]);
  if (text.trim() === "") return rejectFile("Choose a file or paste its text.");
  const bytes = new TextEncoder().encode(text);
  const { depth, values } = jsonShape(bytes, { maxDepth: JSON_MAX_DEPTH, maxValues: JSON_MAX_VALUES });
  if (depth > JSON_MAX_DEPTH) return rejectFile(`A file of rules is nested at most ${JSON_MAX_DEPTH} levels deep.`);
  if (values > JSON_MAX_VALUES) return rejectFile(`A file has at most ${grouped(JSON_MAX_VALUES)} values. Split it.`);
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    const error = findJsonError(bytes, 0, bytes.length);
    const at = error === null ? "" : ` at ${describePlace(bytes, 0, error.position)}`;
    return rejectFile(`The file is not valid JSON${at}.`);
  }
  const items = isJsonObject(json) ? json["items"] : json;
  if (!Array.isArray(items)) return rejectFile('The file has no list of rules: {"items": […]}.');
  const listed = isJsonObject(json) ? json["exclusions"] : undefined;
  if (items.length === 0 && listed === undefined) return rejectFile("The list has no rules.");
  if (items.length > WORKSPACE_MAX_RULES)
    return rejectFile(`A workspace has at most ${WORKSPACE_MAX_RULES} mapping rules.`);
  const rules: ImportedRule[] = [];
  const problems: FileProblem[] = [];
  for (const [index, item] of (items as unknown[]).entries()) {
    const parsed = importedRule.safeParse(item);
    if (parsed.success) rules.push(importedOf(parsed.data));
    else problems.push({ index, name: nameOf(item), messages: parsed.error.issues.map(messageOf) });
  }
  const exclusions = exclusionList.safeParse(listed ?? []);
  if (!exclusions.success) problems.push(...exclusionProblems(exclusions.error, listed));
  return problems.length > 0 || !exclusions.success ? reject(problems) : ok({ rules, exclusions: exclusions.data });
}

function exclusionProblems({ issues }: z.core.$ZodError, listed: unknown): FileProblem[] {
  const byIndex = Map.groupBy(issues, ({ path: [index] }) => (typeof index === "number" ? index : null));
  return [...byIndex].map(([index, ofItem]): FileProblem => {
    const messages = ofItem.map((issue) => messageOf({ ...issue, path: issue.path.slice(1) }));
    if (index === null) return { index, name: null, messages: messages.map((message) => `Exclusions: ${message}`) };
    return { of: "exclusion", index, name: nameOf(Array.isArray(listed) ? listed[index] : null), messages };
  });
}

/** Rules and exclusions as a file for people and version control, without generated fields. */
export function ruleFileOf(
  rules: readonly (RuleContent & { id: string })[],
  exclusions: readonly Exclusion[] = [],
): string {
  const items = rules.map(({ id, ...rule }) => ({ id, ...ruleJson(contentOf(rule)) }));
  const file = { items, ...(exclusions.length > 0 && { exclusions }) };
  return `${JSON.stringify(file, null, 2)}\n`;
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
