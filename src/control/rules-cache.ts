/** Caches the compiled mapping rules of workspaces by their rules version. */
import { controlDatabase } from "./database.ts";
import { loadRules } from "./stored-rules.ts";
import { recordingTerms, type RecordingTerms } from "./workspaces.ts";
import { compileRules, type CompiledRules, type MappingRule } from "../domain/rules/mapping-rule.ts";
import { ruleSize } from "../domain/rules/rule-content.ts";
import { Lru } from "../platform/lru.ts";

/** Maximum total rule size of the cache, about 20 MB. */
const RULES_CACHE_SIZE = 100_000;

export interface WorkspaceRules {
  /** The workspace's rules version. */
  version: number;
  rules: CompiledRules;
}

const compiled = new Lru<string, WorkspaceRules>(RULES_CACHE_SIZE);

/** The rules and terms that the consumer needs to record signals of a workspace. */
export interface RecordingWorkspace extends WorkspaceRules {
  /** Null for a workspace that D1 does not have. */
  terms: RecordingTerms | null;
}

/** Compiles the rules of a workspace on first use. */
type RulesOf = (workspaceId: string) => RecordingWorkspace;

/** Terms and rules of one workspace. Asks the primary database for the current version. */
export async function rulesOf(d1: D1Database, workspaceId: string): Promise<RecordingWorkspace> {
  return (await rulesOfAll(d1, [workspaceId]))(workspaceId);
}

/**
 * Terms and rules of several workspaces. One query at the primary reads all terms and rules versions, so that a saved rule
 * applies to the next processed signal. A second query loads the rules that are new or have changed.
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

/** Cache weight of the rules, in rule sizes, with a constant for each rule and for each workspace. */
function weightOf(rules: readonly MappingRule[]): number {
  return rules.reduce((sum, rule) => sum + 5 + ruleSize(rule), 10);
}
