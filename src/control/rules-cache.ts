/** Compiled mapping rules per workspace, as long as the workspace's rules version stays the same. */
import { controlDatabase } from "./database.ts";
import { loadRules } from "./stored-rules.ts";
import { recordingTerms, type RecordingTerms } from "./workspaces.ts";
import { compileRules } from "../domain/rules/mapping-rule.ts";
import type { CompiledRules, MappingRule } from "../domain/rules/mapping-rule.ts";
import { ruleSize } from "../domain/rules/rule-size.ts";
import { Lru } from "../platform/lru.ts";

/** What the compiled mapping rules that an isolate remembers may amount to, in rule sizes: some 20 MB, of most workspaces. */
const RULES_CACHE_SIZE = 100_000;

export interface WorkspaceRules {
  /** The workspace's rules version. */
  version: number;
  rules: CompiledRules;
}

const compiled = new Lru<string, WorkspaceRules>(RULES_CACHE_SIZE);

/** A workspace as the consumer works for it. */
export interface RecordingWorkspace extends WorkspaceRules {
  /** Null for a workspace that D1 does not have. */
  terms: RecordingTerms | null;
}

/** Gives a workspace's terms and rules; the rules are compiled when they are first asked for. */
export type RulesOf = (workspaceId: string) => RecordingWorkspace;

/** Terms and rules of one workspace, by the primary's word on whether they have changed. */
export async function rulesOf(d1: D1Database, workspaceId: string): Promise<RecordingWorkspace> {
  return (await rulesOfAll(d1, [workspaceId]))(workspaceId);
}

/**
 * Terms and rules of several workspaces. One small query at the primary asks for all their terms and rules versions, so that
 * a rule that was saved applies to what is processed from then on; a second query loads the rules that have changed or are
 * not known here.
 */
export async function rulesOfAll(d1: D1Database, workspaceIds: readonly string[]): Promise<RulesOf> {
  const db = controlDatabase(d1.withSession("first-primary"));
  const terms = await recordingTerms(db, workspaceIds);
  const versionOf = (workspaceId: string): number => terms.get(workspaceId)?.rulesVersion ?? 0;
  const current = new Map<string, WorkspaceRules>();
  for (const workspaceId of workspaceIds) {
    const known = compiled.get(workspaceId);
    if (known !== undefined && known.version === versionOf(workspaceId)) current.set(workspaceId, known);
  }
  const unknown = workspaceIds.filter((workspaceId) => !current.has(workspaceId));
  const loaded = unknown.length === 0 ? new Map<string, MappingRule[]>() : await loadRules(db, unknown);
  const compile = (workspaceId: string): WorkspaceRules => {
    const rules = loaded.get(workspaceId) ?? [];
    const compiledNow = { version: versionOf(workspaceId), rules: compileRules(rules) };
    current.set(workspaceId, compiledNow);
    compiled.set(workspaceId, compiledNow, weightOf(rules));
    return compiledNow;
  };
  return (workspaceId) => ({
    ...(current.get(workspaceId) ?? compile(workspaceId)),
    terms: terms.get(workspaceId) ?? null,
  });
}

/** What rules weigh in the cache, in rule sizes; a rule, and a workspace without any, take memory by themselves. */
function weightOf(rules: readonly MappingRule[]): number {
  return rules.reduce((sum, rule) => sum + 5 + ruleSize(rule), 10);
}
