/**
 * Mapping rules as a file: `{"items": […]}`, as the operator API lists them and takes them. What the service itself says of a
 * rule (its version, its times) may stand in it and is passed over.
 */
import * as z from "zod";
import { ok, refuse, type Result } from "../domain/result.ts";
import { contentOf, type RuleContent } from "../domain/rules/rule-content.ts";
import type { ImportedRule } from "../domain/rules/rule-import.ts";
import { isJsonObject } from "../domain/json/dot-path.ts";
import { grouped } from "../domain/text.ts";
import { jsonShape } from "../domain/json/json-scan.ts";
import { JSON_MAX_DEPTH, JSON_MAX_VALUES, WORKSPACE_MAX_RULES } from "../limits.ts";
import { newRule } from "./rule-schemas.ts";

const passedOver = z.unknown().optional().meta({ description: "Passed over." });

export const importedRule = newRule
  .extend({
    id: z
      .string()
      .optional()
      .meta({ description: "Of a rule of the workspace, which is changed; any other id is passed over." }),
    version: passedOver,
    created_at: passedOver,
    updated_at: passedOver,
    updated_by: passedOver,
  })
  .meta({ id: "ImportedMappingRule" });

export const ruleFile = z.strictObject({
  items: z.array(importedRule).min(1).max(WORKSPACE_MAX_RULES),
  next: z.null().optional().meta({ description: "Of a list's last page." }),
});

/** What is wrong with a file: with the rule at that place of it, from 0, or with all of it. */
export interface FileProblem {
  index: number | null;
  name: string | null;
  messages: string[];
}

export function importedOf(rule: z.output<typeof importedRule>): ImportedRule {
  return { ...contentOf({ ...rule, scoringSignal: rule.scoring_signal }), id: rule.id };
}

/** The rules of a file, or all that is wrong with it, rule by rule. A list of rules without `{"items": …}` is as good. */
export function readRuleFile(text: string): Result<ImportedRule[], FileProblem[]> {
  const wholly = (message: string) => refuse([{ index: null, name: null, messages: [message] }]);
  if (text.trim() === "") return wholly("Choose a file, or paste its text.");
  const limits = { maxDepth: JSON_MAX_DEPTH, maxValues: JSON_MAX_VALUES };
  const { depth, values } = jsonShape(new TextEncoder().encode(text), limits);
  if (depth > JSON_MAX_DEPTH) return wholly(`A file of rules is nested at most ${JSON_MAX_DEPTH} levels deep.`);
  if (values > JSON_MAX_VALUES) return wholly(`A file has at most ${grouped(JSON_MAX_VALUES)} values. Split it.`);
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return wholly("This is not JSON.");
  }
  const items = isJsonObject(json) ? json["items"] : json;
  if (!Array.isArray(items)) return wholly('There is no list of rules in it: {"items": […]}.');
  if (items.length === 0) return wholly("There is no rule in it.");
  if (items.length > WORKSPACE_MAX_RULES)
    return wholly(`A workspace has at most ${WORKSPACE_MAX_RULES} mapping rules.`);
  const rules: ImportedRule[] = [];
  const problems: FileProblem[] = [];
  for (const [index, item] of (items as unknown[]).entries()) {
    const parsed = importedRule.safeParse(item);
    if (parsed.success) rules.push(importedOf(parsed.data));
    else problems.push({ index, name: nameOf(item), messages: parsed.error.issues.map(messageOf) });
  }
  return problems.length > 0 ? refuse(problems) : ok(rules);
}

/** Rules as a file that people read and keep with their code: without what changes by itself. */
export function ruleFileOf(rules: readonly (RuleContent & { id: string })[]): string {
  const items = rules.map(({ id, ...rule }) => ({ id, ...ruleJson(contentOf(rule)) }));
  return `${JSON.stringify({ items }, null, 2)}\n`;
}

function ruleJson({ name, event, match, conditions, scoringSignal, points, frequency, enabled }: RuleContent) {
  return { name, event, match, conditions, scoring_signal: scoringSignal, points, frequency, enabled };
}

function nameOf(item: unknown): string | null {
  return isJsonObject(item) && typeof item["name"] === "string" ? item["name"] : null;
}

function messageOf(issue: z.core.$ZodIssue): string {
  const path = issue.path.map(String);
  if (issue.code === "unrecognized_keys")
    return `${[...path, issue.keys.slice(0, 10).join(", ")].join(".")}: unknown field`;
  return path.length === 0 ? issue.message : `${path.join(".")}: ${issue.message}`;
}
