/**
 * Mapping rules (design §8.5). Every change raises the workspace's rules version in the same batch, so that the consumer
 * compiles them anew, and the rule's own version, which scoring signals carry.
 */
import type { MappingRule } from "../domain/mapping-rule.ts";
import { ok, refuse, type Result } from "../domain/result.ts";
import { newId } from "../http/ids.ts";
import { WORKSPACE_MAX_RULES } from "../limits.ts";
import type { Page, PageOf } from "../store/protocol.ts";
import { auditEntry } from "./audit.ts";
import { iso, pageOf, type Change, type ControlDatabase } from "./database.ts";
import { mappingRules, workspaces } from "./schema.ts";
import { and, desc, eq, exists, inArray, lt, sql } from "drizzle-orm";

/** Times are ISO 8601 UTC. */
export interface StoredRule extends MappingRule {
  name: string;
  enabled: boolean;
  createdAt: string;
  updatedAt: string;
}

export type NewRule = Pick<
  StoredRule,
  "name" | "event" | "match" | "conditions" | "scoringSignal" | "points" | "enabled"
>;
export type RuleChange = { [Field in keyof NewRule]?: NewRule[Field] | undefined };

const COLUMNS = {
  id: mappingRules.id,
  name: mappingRules.name,
  event: mappingRules.event,
  match: mappingRules.match,
  conditions: mappingRules.conditions,
  scoringSignal: mappingRules.scoringSignal,
  points: mappingRules.points,
  enabled: mappingRules.enabled,
  version: mappingRules.version,
  createdAt: mappingRules.createdAt,
  updatedAt: mappingRules.updatedAt,
};

export async function createRule(
  db: ControlDatabase,
  workspaceId: string,
  rule: NewRule,
  by: Change,
): Promise<Result<StoredRule, "too_many_rules">> {
  if ((await db.$count(mappingRules, eq(mappingRules.workspaceId, workspaceId))) >= WORKSPACE_MAX_RULES) {
    return refuse("too_many_rules");
  }
  const at = iso(by.nowMs);
  const created: StoredRule = { id: newId("rule", by.nowMs), ...rule, version: 1, createdAt: at, updatedAt: at };
  const detail = { ...rule };
  await db.batch([
    db.insert(mappingRules).values({ workspaceId, ...created }),
    raiseRulesVersion(db, workspaceId),
    auditEntry(db, by, { workspaceId, action: "rule.created", target: created.id, detail }),
  ]);
  return ok(created);
}

/** Newest first. */
export async function listRules(db: ControlDatabase, workspaceId: string, page: Page): Promise<PageOf<StoredRule>> {
  const behind = page.cursor === null ? undefined : lt(mappingRules.id, page.cursor);
  const rows = await db
    .select(COLUMNS)
    .from(mappingRules)
    .where(and(eq(mappingRules.workspaceId, workspaceId), behind))
    .orderBy(desc(mappingRules.id))
    .limit(page.limit + 1);
  return pageOf(rows, page, (rule) => rule.id);
}

export async function findRule(db: ControlDatabase, workspaceId: string, ruleId: string): Promise<StoredRule | null> {
  return (await db.select(COLUMNS).from(mappingRules).where(isRule(workspaceId, ruleId)).get()) ?? null;
}

/** The rule and the workspace's rules version, as they were at one moment; null: no such rule here. */
export async function findRuleAndVersion(
  db: ControlDatabase,
  workspaceId: string,
  ruleId: string,
): Promise<{ rule: StoredRule; rulesVersion: number } | null> {
  const [rules, versions] = await db.batch([
    db.select(COLUMNS).from(mappingRules).where(isRule(workspaceId, ruleId)),
    db.select({ rulesVersion: workspaces.rulesVersion }).from(workspaces).where(eq(workspaces.id, workspaceId)),
  ]);
  const [rule, version] = [rules[0], versions[0]];
  return rule === undefined || version === undefined ? null : { rule, ...version };
}

/**
 * Null: no such rule here, or not in this version any more.
 *
 * @param version that the change was made on; undefined: whatever it is.
 */
export async function updateRule(
  db: ControlDatabase,
  workspaceId: string,
  ruleId: string,
  change: RuleChange,
  by: Change,
  version?: number,
): Promise<StoredRule | null> {
  const [, , updated] = await db.batch([
    auditEntry(
      db,
      by,
      { workspaceId, action: "rule.updated", target: ruleId, detail: { ...change } },
      ruleIsThere(db, workspaceId, ruleId, version),
    ),
    raiseRulesVersion(db, workspaceId),
    db
      .update(mappingRules)
      .set({ ...change, version: sql`${mappingRules.version} + 1`, updatedAt: iso(by.nowMs) })
      .where(isRule(workspaceId, ruleId, version))
      .returning(COLUMNS),
  ]);
  return updated[0] ?? null;
}

/** False: no such rule here. Scoring signals that it has made stay. */
export async function deleteRule(
  db: ControlDatabase,
  workspaceId: string,
  ruleId: string,
  by: Change,
): Promise<boolean> {
  const [, , deleted] = await db.batch([
    auditEntry(db, by, { workspaceId, action: "rule.deleted", target: ruleId }, ruleIsThere(db, workspaceId, ruleId)),
    raiseRulesVersion(db, workspaceId),
    db.delete(mappingRules).where(isRule(workspaceId, ruleId)).returning({ id: mappingRules.id }),
  ]);
  return deleted.length > 0;
}

/** Grows with every change of the workspace's rules; 0 for a workspace that does not exist. */
export async function rulesVersion(db: ControlDatabase, workspaceId: string): Promise<number> {
  const row = await db
    .select({ version: workspaces.rulesVersion })
    .from(workspaces)
    .where(eq(workspaces.id, workspaceId))
    .get();
  return row?.version ?? 0;
}

/** The enabled rules, for the consumer to compile. */
export async function loadRules(db: ControlDatabase, workspaceId: string): Promise<MappingRule[]> {
  const { id, version, event, match, conditions, scoringSignal, points } = COLUMNS;
  return db
    .select({ id, version, event, match, conditions, scoringSignal, points })
    .from(mappingRules)
    .where(and(eq(mappingRules.workspaceId, workspaceId), eq(mappingRules.enabled, true)));
}

function raiseRulesVersion(db: ControlDatabase, workspaceId: string) {
  return db
    .update(workspaces)
    .set({ rulesVersion: sql`${workspaces.rulesVersion} + 1` })
    .where(eq(workspaces.id, workspaceId));
}

function isRule(workspaceId: string, ruleId: string, version?: number) {
  return and(
    eq(mappingRules.workspaceId, workspaceId),
    eq(mappingRules.id, ruleId),
    version === undefined ? undefined : eq(mappingRules.version, version),
  );
}

function ruleIsThere(db: ControlDatabase, workspaceId: string, ruleId: string, version?: number) {
  return exists(
    db
      .select({ id: mappingRules.id })
      .from(mappingRules)
      .where(isRule(workspaceId, ruleId, version)),
  );
}

/** Names and present versions of these rules, of those that are there; at most 90 of them. */
export async function ruleNames(
  db: ControlDatabase,
  workspaceId: string,
  ruleIds: readonly string[],
): Promise<Map<string, { name: string; version: number }>> {
  if (ruleIds.length === 0) return new Map();
  const { id, name, version } = COLUMNS;
  const rows = await db
    .select({ id, name, version })
    .from(mappingRules)
    .where(and(eq(mappingRules.workspaceId, workspaceId), inArray(mappingRules.id, ruleIds.slice(0, 90))));
  return new Map(rows.map(({ id: ruleId, ...rule }) => [ruleId, rule] as const));
}
