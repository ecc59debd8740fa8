/**
 * Mapping rules that are imported: all of them in one batch, and only where none of the workspace's rules has changed since
 * they were read. So what was decided on them still holds, their bounds included: every change raises the rules version.
 */
import type { RuleContent } from "../domain/rules/rule-content.ts";
import { ruleSize } from "../domain/rules/rule-size.ts";
import { newId } from "../platform/ids.ts";
import { auditEntry } from "./audit.ts";
import { iso, type Change, type ControlDatabase } from "./database.ts";
import { raiseRulesVersion } from "./rule-changes.ts";
import { dropOldVersions, keepVersions } from "./stored-rule-versions.ts";
import { RULE_COLUMNS, type StoredRule } from "./stored-rules.ts";
import { auditLog, mappingRules, workspaces } from "./control-schema.ts";
import { and, desc, eq, exists, sql } from "drizzle-orm";

/** Characters of the rules that one statement writes: a parameter of D1 has 2 MB at most, a character up to 4 bytes. */
export const RULES_STATEMENT_MAX_CHARACTERS = 400_000;

/** All rules of a workspace, the newest first, and its rules version, as they were at one moment. */
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

export interface RulesToWrite {
  added: readonly RuleContent[];
  changed: readonly { id: string; rule: RuleContent }[];
}

/**
 * @param rulesVersion the version read together with the rules that the import was decided on.
 * @returns ids of the added rules, in their order; null: the rules have changed since, and nothing was written.
 */
export async function writeImport(
  db: ControlDatabase,
  workspaceId: string,
  { added, changed }: RulesToWrite,
  rulesVersion: number,
  by: Change,
): Promise<string[] | null> {
  const isCurrent = and(eq(workspaces.id, workspaceId), eq(workspaces.rulesVersion, rulesVersion));
  const asRead = exists(db.select({ id: workspaces.id }).from(workspaces).where(isCurrent));
  // Lists go by id, the newest first: in the order of the import, each is a little older than the one before.
  const rows = added.map((rule, index) => rowOf(newId("rule", by.nowMs - index), rule));
  const changes = changed.map(({ id, rule }) => rowOf(id, rule));
  const detail = {
    added: rows.length,
    changed: changes.length,
    names: [...added, ...changed.map(({ rule }) => rule)].map(({ name }) => name),
  };
  const at = iso(by.nowMs);
  const ofWorkspace = eq(mappingRules.workspaceId, workspaceId);
  const ids = JSON.stringify(changes.map(({ id }) => id));
  const entry = { workspaceId, action: "rules.imported", target: workspaceId, detail } as const;
  const [written] = await db.batch([
    auditEntry(db, by, entry, asRead).returning({ id: auditLog.id }),
    keepVersions(db, and(ofWorkspace, sql`${mappingRules.id} IN (SELECT value FROM json_each(${ids}))`, asRead)),
    ...inStatements(changes).map((some) =>
      db
        .update(mappingRules)
        .set({ ...FIELDS, version: sql`${mappingRules.version} + 1`, updatedAt: at, updatedBy: by.actor })
        .from(sql`json_each(${some}) AS row`)
        // The plus makes each row find its rule by the id, instead of each of the workspace's rules its row.
        .where(and(sql`+${mappingRules.workspaceId} = ${workspaceId}`, sql`${mappingRules.id} = ${ROW_ID}`, asRead)),
    ),
    ...inStatements(rows).map((some) =>
      // INSERT … SELECT takes the columns in the order of the table.
      db.insert(mappingRules).select(
        sql`select ${ROW_ID}, ${workspaceId}, ${FIELDS.name}, ${FIELDS.event}, ${FIELDS.match}, ${FIELDS.conditions},
          ${FIELDS.scoringSignal}, ${FIELDS.points}, ${FIELDS.enabled}, 1, ${at}, ${at}, ${FIELDS.size},
          ${FIELDS.frequency}, ${by.actor}
        from json_each(${some}) AS row where ${asRead}`,
      ),
    ),
    dropOldVersions(db, workspaceId),
    // The version is raised last, for all other statements ask for the one that was read.
    raiseRulesVersion(db, workspaceId, asRead),
  ]);
  return written.length > 0 ? rows.map(({ id }) => id) : null;
}

/** The rule's id in one of the rows that `inStatements` makes into JSON. */
const ROW_ID = sql<string>`row.value ->> 'id'`;
const FIELDS = {
  name: sql<string>`row.value ->> 'name'`,
  event: sql<string>`row.value ->> 'event'`,
  match: sql<"all" | "any">`row.value ->> 'match'`,
  conditions: sql`row.value ->> 'conditions'`,
  scoringSignal: sql<string>`row.value ->> 'scoringSignal'`,
  points: sql<number>`row.value ->> 'points'`,
  frequency: sql<RuleContent["frequency"]>`row.value ->> 'frequency'`,
  enabled: sql`row.value ->> 'enabled'`,
  size: sql<number>`row.value ->> 'size'`,
};

/** A rule as a row, its conditions as the text that is stored. */
function rowOf(id: string, rule: RuleContent) {
  return { ...rule, id, conditions: JSON.stringify(rule.conditions), size: ruleSize(rule) };
}

/** JSON arrays of the rows, each small enough for a parameter of a statement. */
function inStatements(rows: readonly object[]): string[] {
  const statements: string[] = [];
  let some: string[] = [];
  let characters = 0;
  for (const row of rows) {
    const text = JSON.stringify(row);
    if (some.length > 0 && characters + text.length > RULES_STATEMENT_MAX_CHARACTERS) {
      statements.push(`[${some.join()}]`);
      [some, characters] = [[], 0];
    }
    some.push(text);
    characters += text.length;
  }
  return some.length === 0 ? statements : [...statements, `[${some.join()}]`];
}
