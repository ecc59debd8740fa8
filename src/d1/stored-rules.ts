/** Reads mapping rules and terms of plans for recording. Caches rules in compiled form. rule-changes.ts writes rules. */
import { and, desc, eq, getTableColumns, lt, sql } from "drizzle-orm";
import {
  mappingRules,
  plans,
  ruleVersions,
  workspaces,
  isOneOf,
  type ControlDatabase,
  controlDatabase,
  type WorkspaceState,
} from "./database.ts";
import { newestOfAll, newestVersion, NO_EXCLUSIONS, type CurrentExclusions } from "./exclusions.ts";
import { type MappingRule, compileRules, type CompiledRules } from "../domain/rules/mapping-rule.ts";
import type { Exclusion } from "../domain/rules/exclusion.ts";
import { contentOf, ruleSize } from "../domain/rules/rule-content.ts";
import { listPage, type ListQuery, type ListPage } from "../platform/list-page.ts";
import { Lru } from "../platform/lru.ts";

/** A rule as it is stored (database.ts explains the fields). Times are ISO 8601 UTC. */
export type StoredRule = Omit<typeof mappingRules.$inferSelect, "workspaceId" | "size">;

const { workspaceId: _workspaceId, size: _size, ...columns } = getTableColumns(mappingRules);
export const RULE_COLUMNS = columns;

/** A workspace's rules, newest first. */
export async function listRules(
  db: ControlDatabase,
  workspaceId: string,
  listQuery: ListQuery,
  text = "",
): Promise<ListPage<StoredRule>> {
  const isAfterCursor = listQuery.cursor === null ? undefined : lt(mappingRules.id, listQuery.cursor);
  const rows = await db
    .select(RULE_COLUMNS)
    .from(mappingRules)
    .where(and(eq(mappingRules.workspaceId, workspaceId), isAfterCursor, contains(text)))
    .orderBy(desc(mappingRules.id))
    .limit(listQuery.limit + 1);
  return listPage(rows, listQuery, (rule) => rule.id);
}

/** Whether the name or the event of a rule contains the text. Ignores the case of ASCII letters. */
function contains(text: string) {
  const { name, event } = mappingRules;
  return text === "" ? undefined : sql`instr(lower(${name} || char(10) || ${event}), lower(${text})) > 0`;
}

/** What a list of rules can be sorted by, of all rules that contain `text`: at most WORKSPACE_MAX_RULES, newest first. */
export function rulesToSort(
  db: ControlDatabase,
  workspaceId: string,
  text = "",
): Promise<Pick<StoredRule, "id" | "name" | "points">[]> {
  const { id, name, points } = mappingRules;
  const select = db.select({ id, name, points }).from(mappingRules);
  return select.where(and(eq(mappingRules.workspaceId, workspaceId), contains(text))).orderBy(desc(id));
}

/** The rules with these ids, in any order. Rules that do not exist are missing. */
export function rulesWithIds(db: ControlDatabase, workspaceId: string, ids: readonly string[]): Promise<StoredRule[]> {
  const isWanted = and(eq(mappingRules.workspaceId, workspaceId), isOneOf(mappingRules.id, ids));
  return db.select(RULE_COLUMNS).from(mappingRules).where(isWanted);
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

/** All rules of a workspace, newest first, with its exclusions and its rules version; read as one snapshot. */
export async function readAllRules(
  db: ControlDatabase,
  workspaceId: string,
): Promise<{ rules: StoredRule[]; exclusions: CurrentExclusions; rulesVersion: number }> {
  const [rules, [workspace], [exclusions]] = await db.batch([
    db
      .select(RULE_COLUMNS)
      .from(mappingRules)
      .where(eq(mappingRules.workspaceId, workspaceId))
      .orderBy(desc(mappingRules.id)),
    db.select({ rulesVersion: workspaces.rulesVersion }).from(workspaces).where(eq(workspaces.id, workspaceId)),
    newestVersion(db, workspaceId),
  ]);
  return { rules, exclusions: exclusions ?? NO_EXCLUSIONS, rulesVersion: workspace?.rulesVersion ?? 0 };
}

interface LoadedRules {
  rules: MappingRule[];
  exclusions: Exclusion[];
}

/** The enabled rules and the exclusions of workspaces. */
export async function loadRules(
  db: ControlDatabase,
  workspaceIds: readonly string[],
): Promise<Map<string, LoadedRules>> {
  const { id, version, event, match, conditions, scoringSignal, points, frequency, pointsLastDays } = RULE_COLUMNS;
  const rule = { id, version, event, match, conditions, scoringSignal, points, frequency, pointsLastDays };
  const [rows, lists] = await db.batch([
    db
      .select({ workspaceId: mappingRules.workspaceId, ...rule })
      .from(mappingRules)
      .where(and(isOneOf(mappingRules.workspaceId, workspaceIds), eq(mappingRules.enabled, true))),
    newestOfAll(db, workspaceIds),
  ]);
  const loaded = new Map<string, LoadedRules>();
  for (const workspaceId of workspaceIds) loaded.set(workspaceId, { rules: [], exclusions: [] });
  for (const { workspaceId, ...one } of rows) loaded.get(workspaceId)?.rules.push(one);
  for (const { workspaceId, exclusions } of lists) loaded.get(workspaceId)?.exclusions.push(...exclusions);
  return loaded;
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
  const loaded = unknown.length === 0 ? new Map<string, LoadedRules>() : await loadRules(db, unknown);
  const compile = (workspaceId: string): WorkspaceRules => {
    const { rules, exclusions } = loaded.get(workspaceId) ?? { rules: [], exclusions: [] };
    const compiledNow = { version: versionOf(workspaceId), rules: compileRules(rules, exclusions) };
    current.set(workspaceId, compiledNow);
    compiled.set(workspaceId, compiledNow, weightOf(rules) + weightOf(exclusions));
    return compiledNow;
  };
  return (workspaceId) => ({
    ...(current.get(workspaceId) ?? compile(workspaceId)),
    terms: terms.get(workspaceId) ?? null,
  });
}

/** Cache weight of rules or exclusions, in rule sizes, with a constant for each of them and for each workspace. */
function weightOf(rules: readonly (Pick<MappingRule, "conditions"> & { event?: string })[]): number {
  return rules.reduce((sum, { event = "", conditions }) => sum + 5 + ruleSize({ event, conditions }), 10);
}

/** The terms that the consumer and the Signal Store read for each batch, because they may change. */
export interface RecordingTerms {
  rulesVersion: number;
  /** The plan's retention in days; null keeps signals for ever. */
  retentionDays: number | null;
  /** Jurisdiction of the workspace's objects; empty: none. */
  jurisdiction: string;
  state: WorkspaceState;
}

export async function recordingTerms(
  db: ControlDatabase,
  workspaceIds: readonly string[],
): Promise<Map<string, RecordingTerms>> {
  const rows = await db
    .select({
      id: workspaces.id,
      rulesVersion: workspaces.rulesVersion,
      retentionDays: plans.retentionDays,
      jurisdiction: workspaces.jurisdiction,
      state: workspaces.state,
    })
    .from(workspaces)
    .innerJoin(plans, eq(plans.id, workspaces.planId))
    .where(isOneOf(workspaces.id, workspaceIds));
  return new Map(rows.map(({ id, ...terms }) => [id, terms]));
}
