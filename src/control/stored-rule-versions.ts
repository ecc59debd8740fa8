/**
 * What mapping rules said before. A version is kept when the next one takes its place, in the same batch; the present one
 * stands with the rule. Of a rule the latest RULE_VERSIONS_KEPT are kept, of a workspace what amounts to
 * WORKSPACE_RULE_VERSIONS_MAX_CHARACTERS: all workspaces share the database.
 */
import type { RuleContent } from "../domain/rules/rule-content.ts";
import { contentOf } from "../domain/rules/rule-content.ts";
import { RULE_VERSIONS_KEPT } from "../limits.ts";
import type { ControlDatabase } from "./database.ts";
import { isRule, RULE_COLUMNS, type StoredRule } from "./stored-rules.ts";
import { mappingRules, ruleVersions } from "./control-schema.ts";
import { and, desc, eq, sql, type SQL } from "drizzle-orm";

/** Characters of the earlier versions of all of a workspace's rules: about as much as the rules themselves may be. */
export const WORKSPACE_RULE_VERSIONS_MAX_CHARACTERS = 2_000_000;

/** What a rule said, from when on and by whom. */
export interface RuleVersion extends RuleContent {
  version: number;
  /** ISO 8601 UTC. */
  at: string;
  /** A member's email, or `operator`. */
  by: string;
}

const COLUMNS = {
  version: ruleVersions.version,
  at: ruleVersions.at,
  by: ruleVersions.by,
  name: ruleVersions.name,
  event: ruleVersions.event,
  match: ruleVersions.match,
  conditions: ruleVersions.conditions,
  scoringSignal: ruleVersions.scoringSignal,
  points: ruleVersions.points,
  frequency: ruleVersions.frequency,
  enabled: ruleVersions.enabled,
};

/** The rule with its kept versions, the present one first; null: no such rule here. */
export async function listRuleVersions(
  db: ControlDatabase,
  workspaceId: string,
  ruleId: string,
): Promise<{ rule: StoredRule; versions: RuleVersion[] } | null> {
  const [[rule], earlier] = await db.batch([
    db.select(RULE_COLUMNS).from(mappingRules).where(isRule(workspaceId, ruleId)),
    db.select(COLUMNS).from(ruleVersions).where(isOfRule(workspaceId, ruleId)).orderBy(desc(ruleVersions.version)),
  ]);
  return rule === undefined ? null : { rule, versions: [presentVersion(rule), ...earlier] };
}

/** One version of a rule; null: no such rule here, or that version is not kept. */
export async function findRuleVersion(
  db: ControlDatabase,
  workspaceId: string,
  ruleId: string,
  version: number,
): Promise<{ rule: StoredRule; version: RuleVersion } | null> {
  const [[rule], [earlier]] = await db.batch([
    db.select(RULE_COLUMNS).from(mappingRules).where(isRule(workspaceId, ruleId)),
    db
      .select(COLUMNS)
      .from(ruleVersions)
      .where(and(isOfRule(workspaceId, ruleId), eq(ruleVersions.version, version))),
  ]);
  if (rule === undefined) return null;
  const found = rule.version === version ? presentVersion(rule) : earlier;
  return found === undefined ? null : { rule, version: found };
}

function presentVersion(rule: StoredRule): RuleVersion {
  return { ...contentOf(rule), version: rule.version, at: rule.updatedAt, by: rule.updatedBy };
}

/** The statement that keeps rules as they are, for a `batch` before they are changed. */
export function keepVersions(db: ControlDatabase, rules: SQL | undefined) {
  const { name, event, match, conditions, scoringSignal, points, frequency, enabled } = mappingRules;
  // INSERT … SELECT takes the columns in the order of the table.
  return db.insert(ruleVersions).select(sql`
    select ${mappingRules.workspaceId}, ${mappingRules.id}, ${mappingRules.version},
      length(${name}) + length(${event}) + length(${scoringSignal}) + length(${conditions}) + ${ROW_CHARACTERS},
      ${mappingRules.updatedAt}, ${mappingRules.updatedBy}, ${name}, ${event}, ${match}, ${scoringSignal}, ${points},
      ${frequency}, ${enabled}, ${conditions}
    from ${mappingRules} where ${rules}`);
}

/** Characters that a row takes besides its texts. */
const ROW_CHARACTERS = 250;

/** The statement that deletes the oldest versions of a workspace, where there are too many. */
export function dropOldVersions(db: ControlDatabase, workspaceId: string) {
  return db.delete(ruleVersions).where(sql`rowid IN (
    SELECT row FROM (
      SELECT rowid AS row, row_number() OVER (PARTITION BY rule_id ORDER BY version DESC) AS nth,
        sum(size) OVER (ORDER BY at DESC, rule_id, version DESC) AS characters
      FROM rule_versions WHERE workspace_id = ${workspaceId})
    WHERE nth > ${RULE_VERSIONS_KEPT} OR characters > ${WORKSPACE_RULE_VERSIONS_MAX_CHARACTERS})`);
}

/** The statement that deletes all versions of a rule, for a `batch` that deletes the rule. */
export function dropVersionsOf(db: ControlDatabase, workspaceId: string, ruleId: string) {
  return db.delete(ruleVersions).where(isOfRule(workspaceId, ruleId));
}

function isOfRule(workspaceId: string, ruleId: string) {
  return and(eq(ruleVersions.workspaceId, workspaceId), eq(ruleVersions.ruleId, ruleId));
}
