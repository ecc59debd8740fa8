/** Mapping rules (design §8.5) as they are read; rule-changes.ts writes them. */
import type { MappingRule } from "../domain/rules/mapping-rule.ts";
import type { RuleContent } from "../domain/rules/rule-content.ts";
import type { Page, PageOf } from "../platform/list-page.ts";
import { pageOf, type ControlDatabase } from "./database.ts";
import { mappingRules, workspaces } from "./control-schema.ts";
import { and, desc, eq, inArray, lt, sql } from "drizzle-orm";

/** Times are ISO 8601 UTC. */
export interface StoredRule extends RuleContent {
  id: string;
  /** Grows with every change of the rule; scoring signals carry it. */
  version: number;
  createdAt: string;
  updatedAt: string;
  /** Who made this version: a member's email, or `operator`. */
  updatedBy: string;
}

export const RULE_COLUMNS = {
  id: mappingRules.id,
  name: mappingRules.name,
  event: mappingRules.event,
  match: mappingRules.match,
  conditions: mappingRules.conditions,
  scoringSignal: mappingRules.scoringSignal,
  points: mappingRules.points,
  frequency: mappingRules.frequency,
  enabled: mappingRules.enabled,
  version: mappingRules.version,
  createdAt: mappingRules.createdAt,
  updatedAt: mappingRules.updatedAt,
  updatedBy: mappingRules.updatedBy,
};

/** A workspace's rules, newest first. */
export async function listRules(db: ControlDatabase, workspaceId: string, page: Page): Promise<PageOf<StoredRule>> {
  const behind = page.cursor === null ? undefined : lt(mappingRules.id, page.cursor);
  const rows = await db
    .select(RULE_COLUMNS)
    .from(mappingRules)
    .where(and(eq(mappingRules.workspaceId, workspaceId), behind))
    .orderBy(desc(mappingRules.id))
    .limit(page.limit + 1);
  return pageOf(rows, page, (rule) => rule.id);
}

export async function findRule(db: ControlDatabase, workspaceId: string, ruleId: string): Promise<StoredRule | null> {
  return (await db.select(RULE_COLUMNS).from(mappingRules).where(isRule(workspaceId, ruleId)).get()) ?? null;
}

/** The rule and the workspace's rules version, as they were at one moment; null: no such rule here. */
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

/** The enabled rules of each of these workspaces, for the consumer to compile. */
export async function loadRules(
  db: ControlDatabase,
  workspaceIds: readonly string[],
): Promise<Map<string, MappingRule[]>> {
  const { id, version, event, match, conditions, scoringSignal, points, frequency } = RULE_COLUMNS;
  const rows = await db
    .select({
      workspaceId: mappingRules.workspaceId,
      id,
      version,
      event,
      match,
      conditions,
      scoringSignal,
      points,
      frequency,
    })
    .from(mappingRules)
    .where(and(isOneOf(workspaceIds), eq(mappingRules.enabled, true)));
  const rules = new Map<string, MappingRule[]>(workspaceIds.map((workspaceId) => [workspaceId, []]));
  for (const { workspaceId, ...rule } of rows) rules.get(workspaceId)?.push(rule);
  return rules;
}

/** A condition for any number of ids in one parameter: a statement takes 100. */
function isOneOf(ids: readonly string[]) {
  return sql`${mappingRules.workspaceId} IN (SELECT value FROM json_each(${JSON.stringify(ids)}))`;
}

export function isRule(workspaceId: string, ruleId: string, version?: number) {
  return and(
    eq(mappingRules.workspaceId, workspaceId),
    eq(mappingRules.id, ruleId),
    version === undefined ? undefined : eq(mappingRules.version, version),
  );
}

/** Names and present versions of at most 90 rules; those that do not exist are missing. */
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
    .where(and(eq(mappingRules.workspaceId, workspaceId), inArray(mappingRules.id, ruleIds.slice(0, 90))));
  return new Map(rows.map(({ id: ruleId, ...rule }) => [ruleId, rule] as const));
}
