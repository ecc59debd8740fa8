/** Compiled mapping rules per workspace, as long as the workspace's rules version stays the same. */
import { controlDatabase } from "./database.ts";
import { loadRules, rulesVersion } from "./rules.ts";
import { compileRules } from "../domain/mapping-rule.ts";
import type { CompiledRules, MappingRule } from "../domain/mapping-rule.ts";
import { ruleSize } from "../domain/rule-size.ts";
import { RULES_CACHE_SIZE } from "../limits.ts";
import { Lru } from "../platform/lru.ts";

export interface WorkspaceRules {
  /** The workspace's rules version. */
  version: number;
  rules: CompiledRules;
}

const compiled = new Lru<string, WorkspaceRules>(RULES_CACHE_SIZE);

/** One small query at the primary per call: a rule that was saved applies to what is processed from then on. */
export async function rulesOf(d1: D1Database, workspaceId: string): Promise<WorkspaceRules> {
  const db = controlDatabase(d1.withSession("first-primary"));
  const version = await rulesVersion(db, workspaceId);
  const known = compiled.get(workspaceId);
  if (known?.version === version) return known;
  const rules = await loadRules(db, workspaceId);
  const current = { version, rules: compileRules(rules) };
  compiled.set(workspaceId, current, weightOf(rules));
  return current;
}

/** In the unit of a rule's size; a rule, and a workspace without any, take memory by themselves. */
function weightOf(rules: readonly MappingRule[]): number {
  return rules.reduce((sum, rule) => sum + 5 + ruleSize(rule), 10);
}
