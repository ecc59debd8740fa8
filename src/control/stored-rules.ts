/** Reads mapping rules (design §8.5) and their versions, and caches compiled rules. rule-changes.ts writes them. */
import { and, desc, eq, getTableColumns, lt, sql } from "drizzle-orm";
import { mappingRules, ruleVersions, workspaces, isOneOf, type ControlDatabase, controlDatabase } from "./database.ts";
import { type MappingRule, compileRules, type CompiledRules } from "../domain/rules/mapping-rule.ts";
import { contentOf, ruleSize } from "../domain/rules/rule-content.ts";
import { pageOf, type Page, type PageOf } from "../platform/list-page.ts";
import { recordingTerms, type RecordingTerms } from "./workspaces.ts";
import { Lru } from "../platform/lru.ts";

/** A rule as it is stored (database.ts explains the fields). Times are ISO 8601 UTC. */
export type StoredRule = Omit<typeof mappingRules.$inferSelect, "workspaceId" | "size">;

const { workspaceId: _workspaceId, size: _size, ...columns } = getTableColumns(mappingRules);
export const RULE_COLUMNS = columns;

/** A workspace's rules, newest first. */
export async function listRules(db: ControlDatabase, workspaceId: string, page: Page): Promise<PageOf<StoredRule>> {
  const isAfterCursor = page.cursor === null ? undefined : lt(mappingRules.id, page.cursor);
  const rows = await db
    .select(RULE_COLUMNS)
    .from(mappingRules)
    .where(and(eq(mappingRules.workspaceId, workspaceId), isAfterCursor))
    .orderBy(desc(mappingRules.id))
    .limit(page.limit + 1);
  return pageOf(rows, page, (rule) => rule.id);
}

/** The newest rules whose name contains `text`. Ignores the case of ASCII letters. */
export function rulesNamed(
  db: ControlDatabase,
  workspaceId: string,
  text: string,
  limit: number,
): Promise<Pick<StoredRule, "id" | "name" | "event" | "enabled">[]> {
  const { id, name, event, enabled } = mappingRules;
  const nameMatches = and(eq(mappingRules.workspaceId, workspaceId), sql`instr(lower(${name}), lower(${text})) > 0`);
  return db.select({ id, name, event, enabled }).from(mappingRules).where(nameMatches).orderBy(desc(id)).limit(limit);
}

export async function findRule(db: ControlDatabase, workspaceId: string, ruleId: string): Promise<StoredRule | null> {
  return (await db.select(RULE_COLUMNS).from(mappingRules).where(isRule(workspaceId, ruleId)).get()) ?? null;
}

/** The rule and the workspace's rules version, read as one snapshot; null: unknown rule. */
export async function findRuleAndVersion(
  db: ControlDatabase,
  workspaceId: string,
  ruleId: string,
): Promise<{ rule: StoredRule; rulesVersion: number } | null> {
  const [rules, versions] = await db.batch([
    db.select(RULE_COLUMNS).from(mappingRules).where(isRule(workspaceId, ruleId)),
    db.select({ rulesVersion: workspaces.rulesVersion }).from(workspaces).where(eq(workspaces.id, workspaceId)),
  ]);
  const [rule, version] = [rules[0], versions[0]];
  return rule === undefined || version === undefined ? null : { rule, ...version };
}

/** The workspace's rules version, which grows with every change of its rules; 0 for a workspace that does not exist. */
export async function rulesVersion(db: ControlDatabase, workspaceId: string): Promise<number> {
  const select = db.select({ version: workspaces.rulesVersion }).from(workspaces);
  return (await select.where(eq(workspaces.id, workspaceId)).get())?.version ?? 0;
}

/** All rules of a workspace, newest first, with its rules version; read as one snapshot. */
export async function readAllRules(
  db: ControlDatabase,
  workspaceId: string,
): Promise<{ rules: StoredRule[]; rulesVersion: number }> {
  const [rules, [workspace]] = await db.batch([
    db
      .select(RULE_COLUMNS)
      .from(mappingRules)
      .where(eq(mappingRules.workspaceId, workspaceId))
      .orderBy(desc(mappingRules.id)),
    db.select({ rulesVersion: workspaces.rulesVersion }).from(workspaces).where(eq(workspaces.id, workspaceId)),
  ]);
  return { rules, rulesVersion: workspace?.rulesVersion ?? 0 };
}

export async function loadRules(
  db: ControlDatabase,
  workspaceIds: readonly string[],
): Promise<Map<string, MappingRule[]>> {
  const { id, version, event, match, conditions, scoringSignal, points, frequency, pointsLastDays } = RULE_COLUMNS;
  const rule = { id, version, event, match, conditions, scoringSignal, points, frequency, pointsLastDays };
  const rows = await db
    .select({ workspaceId: mappingRules.workspaceId, ...rule })
    .from(mappingRules)
    .where(and(isOneOf(mappingRules.workspaceId, workspaceIds), eq(mappingRules.enabled, true)));
  const rules = new Map<string, MappingRule[]>(workspaceIds.map((workspaceId) => [workspaceId, []]));
  for (const { workspaceId, ...loaded } of rows) rules.get(workspaceId)?.push(loaded);
  return rules;
}

export function isRule(workspaceId: string, ruleId: string, version?: number) {
  return and(
    eq(mappingRules.workspaceId, workspaceId),
    eq(mappingRules.id, ruleId),
    version === undefined ? undefined : eq(mappingRules.version, version),
  );
}

/** Names and present versions of these rules. Rules that do not exist are missing. */
export async function ruleNames(
  db: ControlDatabase,
  workspaceId: string,
  ruleIds: readonly string[],
): Promise<Map<string, { name: string; version: number }>> {
  if (ruleIds.length === 0) return new Map();
  const { id, name, version } = RULE_COLUMNS;
  const rows = await db
    .select({ id, name, version })
    .from(mappingRules)
    .where(and(eq(mappingRules.workspaceId, workspaceId), isOneOf(mappingRules.id, ruleIds)));
  return new Map(rows.map(({ id: ruleId, ...rule }) => [ruleId, rule] as const));
}

export type RuleVersion = Omit<typeof ruleVersions.$inferSelect, "workspaceId" | "ruleId" | "size">;

const {
  workspaceId: _ofWorkspace,
  ruleId: _ofRule,
  size: _versionSize,
  ...VERSION_COLUMNS
} = getTableColumns(ruleVersions);

/** The rule with its stored versions, current one first; null: unknown rule. */
export async function listRuleVersions(
  db: ControlDatabase,
  workspaceId: string,
  ruleId: string,
): Promise<{ rule: StoredRule; versions: RuleVersion[] } | null> {
  const [[rule], earlier] = await db.batch([
    db.select(RULE_COLUMNS).from(mappingRules).where(isRule(workspaceId, ruleId)),
    db
      .select(VERSION_COLUMNS)
      .from(ruleVersions)
      .where(isOfRule(workspaceId, ruleId))
      .orderBy(desc(ruleVersions.version)),
  ]);
  return rule === undefined ? null : { rule, versions: [presentVersion(rule), ...earlier] };
}

/** One version of a rule; null: unknown rule, or the version is not stored. */
export async function findRuleVersion(
  db: ControlDatabase,
  workspaceId: string,
  ruleId: string,
  version: number,
): Promise<{ rule: StoredRule; version: RuleVersion } | null> {
  const found = await listRuleVersions(db, workspaceId, ruleId);
  const wanted = found?.versions.find((stored) => stored.version === version);
  return found === null || wanted === undefined ? null : { rule: found.rule, version: wanted };
}

function presentVersion(rule: StoredRule): RuleVersion {
  return { ...contentOf(rule), version: rule.version, at: rule.updatedAt, by: rule.updatedBy };
}

export function isOfRule(workspaceId: string, ruleId: string) {
  return and(eq(ruleVersions.workspaceId, workspaceId), eq(ruleVersions.ruleId, ruleId));
}

// Caches the compiled mapping rules of workspaces by their rules version.

/** Maximum total rule size of the cache, about 20 MB. */
const RULES_CACHE_SIZE = 100_000;

export interface WorkspaceRules {
  version: number;
  rules: CompiledRules;
}

const compiled = new Lru<string, WorkspaceRules>(RULES_CACHE_SIZE);

/** The rules and terms that the consumer needs to record signals of a workspace. */
export interface RecordingWorkspace extends WorkspaceRules {
  /** Null for a workspace that D1 does not have. */
  terms: RecordingTerms | null;
}

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
