/**
 * Changes mapping rules. Each change raises two versions in one batch: the workspace's rules version,
 * so that the consumer compiles the rules again, and the rule's own version, which scoring signals carry. The writing
 * statement itself checks the limit on the total size, so that concurrent changes cannot exceed it.
 */
import { and, eq, lt, ne, sql, type SQL } from "drizzle-orm";
import { auditEntry, type AuditAction } from "./audit.ts";
import {
  auditLog,
  mappingRules,
  ruleVersions,
  workspaces,
  endIsNoted,
  hasRow,
  isOneOf,
  iso,
  type ControlContext,
  type ControlDatabase,
} from "./database.ts";
import { RULE_COLUMNS, findRule, findRuleVersion, isOfRule, isRule, type StoredRule } from "./stored-rules.ts";
import { writeVersion, type CurrentExclusions } from "./exclusions.ts";
import { raiseRulesVersion } from "./workspaces.ts";
import { ok, reject, type Result } from "../domain/result.ts";
import {
  contentOf,
  type RuleContent,
  ruleDifferences,
  ruleSize,
  type RuleVersions,
} from "../domain/rules/rule-content.ts";
import { RULE_VERSIONS_KEPT, WORKSPACE_MAX_RULES, WORKSPACE_RULES_MAX_SIZE } from "../limits.ts";
import { newId } from "../platform/ids.ts";

type RuleChange = { [Field in keyof RuleContent]?: RuleContent[Field] | undefined };

/**
 * @param id of the new rule, `rule_` and a UUIDv7. Of several calls with the same id, only the first creates the rule, even
 * if they are concurrent or the rule was deleted in between.
 */
export async function createRule(
  { db, workspaceId, by }: ControlContext,
  rule: RuleContent,
  id: string = newId("rule", by.nowMs),
): Promise<Result<StoredRule, "too_many_rules" | "rules_too_large">> {
  const at = iso(by.nowMs);
  const created: StoredRule = { id, ...rule, version: 1, createdAt: at, updatedAt: at, updatedBy: by.actor };
  const wasMade = wasCreated(workspaceId, id);
  const count = db.$count(mappingRules, eq(mappingRules.workspaceId, workspaceId));
  const rejection = sql<"made_before" | "too_many_rules" | "rules_too_large" | null>`case
    when ${wasMade} then 'made_before'
    when ${count} >= ${WORKSPACE_MAX_RULES} then 'too_many_rules'
    when not ${hasRoom(db, workspaceId, id, ruleSize(rule))} then 'rules_too_large'
    end`;
  const isNew = sql`not ${wasMade} and ${hasRow(mappingRules, isRule(workspaceId, id))}`;
  const [[decided]] = await db.batch([
    db.select({ rejection }).from(sql`(select 1)`),
    insertRules({ db, workspaceId, by }, JSON.stringify([rowOf(id, rule)]), sql`${rejection} is null`),
    raiseRulesVersion(db, workspaceId, isNew),
    auditEntry(db, by, { workspaceId, action: "rule.created", target: id, detail: { ...rule } }, isNew),
  ]);
  const rejected = decided?.rejection ?? null;
  return rejected === null || rejected === "made_before" ? ok(created) : reject(rejected);
}

/** Attempts at a change without a version while other people change the same rule. */
const UPDATE_ATTEMPTS = 5;

interface ChangedOn {
  /** The version that the person saw; undefined: any. */
  version?: number | undefined;
  /** The earlier version that the change restores. */
  backTo?: number;
}

/**
 * Changes a rule. A change without effect keeps the version.
 *
 * @returns `not_found`: unknown rule; `rule_changed`: the rule has another version by now.
 */
export async function updateRule(
  { db, workspaceId, by }: ControlContext,
  ruleId: string,
  change: RuleChange,
  { version, backTo }: ChangedOn = {},
): Promise<Result<StoredRule, "not_found" | "rule_changed" | "rules_too_large">> {
  for (let attempt = 0; attempt < UPDATE_ATTEMPTS; attempt++) {
    // oxlint-disable-next-line no-await-in-loop -- another attempt only if the rule was changed in between
    const before = await findRule(db, workspaceId, ruleId);
    if (before === null) return reject("not_found");
    const after = applyChange(before, change);
    const differences = ruleDifferences(before, after);
    if (differences.length === 0) return ok(before);
    if (version !== undefined && before.version !== version) break;
    const isSameVersion = isRule(workspaceId, ruleId, before.version);
    const isAllowed = and(isSameVersion, hasRoom(db, workspaceId, ruleId, ruleSize(after)));
    const isChange = hasRow(mappingRules, isAllowed);
    const changes = Object.fromEntries(differences.map(({ field, ...difference }) => [field, difference]));
    const detail = { name: after.name, version: before.version + 1, ...(backTo && { back_to: backTo }), changes };
    const newest = { version: before.version + 1, updatedAt: iso(by.nowMs), updatedBy: by.actor };
    // oxlint-disable-next-line no-await-in-loop
    const [, , , updated] = await db.batch([
      auditEntry(db, by, { workspaceId, action: "rule.updated", target: ruleId, detail }, isChange),
      raiseRulesVersion(db, workspaceId, isChange),
      storeVersions(db, isAllowed),
      db
        .update(mappingRules)
        .set({ ...after, ...newest, size: ruleSize(after) })
        .where(isAllowed)
        .returning(RULE_COLUMNS),
      dropOldVersions(db, workspaceId),
    ]);
    if (updated[0] !== undefined) return ok(updated[0]);
    // oxlint-disable-next-line no-await-in-loop
    if ((await findRule(db, workspaceId, ruleId))?.version === before.version) return reject("rules_too_large");
  }
  return reject("rule_changed");
}

/**
 * Creates a new version with the content of an earlier one.
 *
 * @param version the version to go back to. @param changedOn the version that the person saw; undefined: any.
 * @returns `not_found`: unknown rule or version.
 */
export async function restoreRule(
  context: ControlContext,
  ruleId: string,
  version: number,
  changedOn?: number,
): ReturnType<typeof updateRule> {
  const found = await findRuleVersion(context.db, context.workspaceId, ruleId, version);
  if (found === null) return reject("not_found");
  return updateRule(context, ruleId, contentOf(found.version), { version: changedOn, backTo: version });
}

/**
 * Deletes a rule. The audit entry says whether its scoring signals are kept or removed; the caller removes them. False:
 * unknown rule.
 */
export async function deleteRule(
  { db, workspaceId, by }: ControlContext,
  { ruleId, scoringSignals }: { ruleId: string; scoringSignals: "keep" | "remove" },
): Promise<boolean> {
  const rule = await findRule(db, workspaceId, ruleId);
  if (rule === null) return false;
  const isThere = hasRow(mappingRules, isRule(workspaceId, ruleId));
  const detail = { name: rule.name, scoring_signals: scoringSignals };
  const [, , deleted] = await db.batch([
    auditEntry(db, by, { workspaceId, action: "rule.deleted", target: ruleId, detail }, isThere),
    raiseRulesVersion(db, workspaceId, isThere),
    db.delete(mappingRules).where(isRule(workspaceId, ruleId)).returning({ id: mappingRules.id }),
    db.delete(ruleVersions).where(isOfRule(workspaceId, ruleId)),
  ]);
  return deleted.length > 0;
}

/**
 * Version numbers that are skipped after a restore of D1: more changes than anybody makes between backup and restore.
 * Isolates cache rules by the workspace's version, and the lost versions had other rules.
 */
const SKIPPED_VERSIONS = 1_000;

/**
 * Raises the rules versions of a workspace above all known ones. Signals are then processed again, and a rule applied
 * to the past is the latest version. Returns whether that was necessary.
 */
export async function raiseVersionsAbove(
  db: ControlDatabase,
  workspaceId: string,
  seen: RuleVersions,
): Promise<boolean> {
  const seenVersion = sql`(SELECT value ->> 1 FROM json_each(${JSON.stringify(seen.rules)}) WHERE value ->> 0 = ${mappingRules.id})`;
  const [raisedWorkspaces, raisedRules] = await db.batch([
    db
      .update(workspaces)
      .set({ rulesVersion: seen.workspace + SKIPPED_VERSIONS })
      .where(and(eq(workspaces.id, workspaceId), lt(workspaces.rulesVersion, seen.workspace)))
      .returning({ id: workspaces.id }),
    db
      .update(mappingRules)
      .set({ version: sql`1 + ${seenVersion}` })
      .where(and(eq(mappingRules.workspaceId, workspaceId), lt(mappingRules.version, seenVersion)))
      .returning({ id: mappingRules.id }),
  ]);
  return raisedWorkspaces.length + raisedRules.length > 0;
}

// Earlier versions

/** Characters of the earlier versions of all of a workspace's rules: about as much as the rules themselves may be. */
export const WORKSPACE_RULE_VERSIONS_MAX_CHARACTERS = 2_000_000;

/** The statement that stores the present versions of rules, for a batch that then changes them. */
function storeVersions(db: ControlDatabase, rules: SQL | undefined) {
  const { name, event, match, conditions, scoringSignal, points, frequency, pointsLastDays, enabled } = mappingRules;
  // INSERT … SELECT takes the columns in the order of the table.
  return db.insert(ruleVersions).select(sql`
    select ${mappingRules.workspaceId}, ${mappingRules.id}, ${mappingRules.version},
      length(${name}) + length(${event}) + length(${scoringSignal}) + length(${conditions}) + ${ROW_CHARACTERS},
      ${mappingRules.updatedAt}, ${mappingRules.updatedBy}, ${name}, ${event}, ${match}, ${scoringSignal}, ${points},
      ${frequency}, ${enabled}, ${conditions}, ${pointsLastDays}
    from ${mappingRules} where ${rules}`);
}

/** Characters of a row in addition to its texts. */
const ROW_CHARACTERS = 250;

function dropOldVersions(db: ControlDatabase, workspaceId: string) {
  return db.delete(ruleVersions).where(sql`rowid IN (
    SELECT row FROM (
      SELECT rowid AS row, row_number() OVER (PARTITION BY rule_id ORDER BY version DESC) AS nth,
        sum(size) OVER (ORDER BY at DESC, rule_id, version DESC) AS characters
      FROM rule_versions WHERE workspace_id = ${workspaceId})
    WHERE nth > ${RULE_VERSIONS_KEPT} OR characters > ${WORKSPACE_RULE_VERSIONS_MAX_CHARACTERS})`);
}

function applyChange(before: RuleContent, change: RuleChange): RuleContent {
  const named = Object.entries(change).filter(([, value]) => value !== undefined);
  return { ...contentOf(before), ...Object.fromEntries(named) };
}

/** Whether a rule with this id was ever created. The audit log knows, even after the rule was deleted. */
function wasCreated(workspaceId: string, ruleId: string): SQL {
  // The plus keeps SQLite from using the index of the action instead of the target's.
  const isCreation = sql`+${auditLog.action} = ${"rule.created" satisfies AuditAction}`;
  return hasRow(auditLog, and(eq(auditLog.workspaceId, workspaceId), eq(auditLog.target, ruleId), isCreation));
}

/** Whether all rules of the workspace stay within the limit with a rule of this size. */
function hasRoom(db: ControlDatabase, workspaceId: string, ruleId: string, size: number): SQL {
  const sizeOfOthers = db
    .select({ size: sql`coalesce(sum(${mappingRules.size}), 0)` })
    .from(mappingRules)
    .where(and(eq(mappingRules.workspaceId, workspaceId), ne(mappingRules.id, ruleId)));
  return sql`${sizeOfOthers} + ${size} <= ${WORKSPACE_RULES_MAX_SIZE}`;
}

/** Characters of the rules per statement: a D1 parameter holds 2 MB, and a character takes up to 4 bytes. */
export const RULES_STATEMENT_MAX_CHARACTERS = 400_000;

interface RulesToWrite {
  added: readonly RuleContent[];
  changed: readonly { id: string; rule: RuleContent }[];
  /** The exclusions from now on, and the names of those that are new or changed; null: unchanged. */
  exclusions: { after: CurrentExclusions; names: readonly string[] } | null;
}

/**
 * @param rulesVersion the version read together with the rules that the import was decided on.
 * @returns ids of the added rules, in their order; null: the rules have changed since, and nothing was written.
 */
export async function writeImport(
  { db, workspaceId, by }: ControlContext,
  { added, changed, exclusions }: RulesToWrite,
  rulesVersion: number,
): Promise<string[] | null> {
  const isCurrent = hasRow(workspaces, and(eq(workspaces.id, workspaceId), eq(workspaces.rulesVersion, rulesVersion)));
  // Lists are ordered by id, newest first. Give each imported rule an older id than the one before, so that the
  // file's order is kept.
  const rows = added.map((rule, index) => rowOf(newId("rule", by.nowMs - index), rule));
  const changes = changed.map(({ id, rule }) => rowOf(id, rule));
  const detail = {
    added: rows.length,
    changed: changes.length,
    names: [...added, ...changed.map(({ rule }) => rule)].map(({ name }) => name),
    ...(exclusions !== null && { exclusions: [...exclusions.names] }),
  };
  const at = iso(by.nowMs);
  const ofWorkspace = eq(mappingRules.workspaceId, workspaceId);
  const isChanged = isOneOf(
    mappingRules.id,
    changes.map(({ id }) => id),
  );
  const entry = { workspaceId, action: "rules.imported", target: workspaceId, detail } as const;
  const [written] = await db.batch([
    auditEntry(db, by, entry, isCurrent).returning({ id: auditLog.id }),
    storeVersions(db, and(ofWorkspace, isChanged, isCurrent)),
    ...jsonChunks(changes).map((json) =>
      db
        .update(mappingRules)
        .set({ ...FIELDS, version: sql`${mappingRules.version} + 1`, updatedAt: at, updatedBy: by.actor })
        .from(sql`json_each(${json}) AS row`)
        // The plus makes SQLite look up each row's rule by id, instead of joining all rules of the workspace.
        .where(and(sql`+${mappingRules.workspaceId} = ${workspaceId}`, sql`${mappingRules.id} = ${ROW_ID}`, isCurrent)),
    ),
    ...jsonChunks(rows).map((json) => insertRules({ db, workspaceId, by }, json, isCurrent)),
    dropOldVersions(db, workspaceId),
    ...(exclusions === null ? [] : writeVersion({ db, workspaceId, by }, exclusions.after, isCurrent)),
    // Raise the version last, because all other statements check the version that was read.
    raiseRulesVersion(db, workspaceId, isCurrent),
  ]);
  return written.length > 0 ? rows.map(({ id }) => id) : null;
}

/** The statement that adds the rules of a JSON array, unless there is a rule with that id. @param rows from `rowOf`. */
function insertRules({ db, workspaceId, by }: ControlContext, rows: string, onlyIf: SQL) {
  const at = iso(by.nowMs);
  // INSERT … SELECT takes the columns in the order of the table.
  const select = sql`select ${ROW_ID}, ${workspaceId}, ${FIELDS.name}, ${FIELDS.event}, ${FIELDS.match},
    ${FIELDS.conditions}, ${FIELDS.scoringSignal}, ${FIELDS.points}, ${FIELDS.enabled}, 1, ${at}, ${at}, ${FIELDS.size},
    ${FIELDS.frequency}, ${by.actor}, ${FIELDS.pointsLastDays} from json_each(${rows}) AS row where (${onlyIf}) and not ${endIsNoted(workspaceId)}`;
  return db.insert(mappingRules).select(select).onConflictDoNothing();
}

/** The fields of the rows that `jsonChunks` writes as JSON. */
const ROW_ID = sql<string>`row.value ->> 'id'`;
const FIELDS = {
  name: sql<string>`row.value ->> 'name'`,
  event: sql<string>`row.value ->> 'event'`,
  match: sql<"all" | "any">`row.value ->> 'match'`,
  conditions: sql`row.value ->> 'conditions'`,
  scoringSignal: sql<string>`row.value ->> 'scoringSignal'`,
  points: sql<number>`row.value ->> 'points'`,
  frequency: sql<RuleContent["frequency"]>`row.value ->> 'frequency'`,
  pointsLastDays: sql<NonNullable<RuleContent["pointsLastDays"]>>`row.value ->> 'pointsLastDays'`,
  enabled: sql`row.value ->> 'enabled'`,
  size: sql<number>`row.value ->> 'size'`,
};

/** A rule as a row: conditions as the text that is stored, and texts as a D1 parameter would store them. */
function rowOf(id: string, { name, event, scoringSignal, ...rule }: RuleContent) {
  const texts = { name: name.toWellFormed(), event: event.toWellFormed(), scoringSignal: scoringSignal.toWellFormed() };
  const size = ruleSize({ event, conditions: rule.conditions });
  return { ...rule, ...texts, id, conditions: JSON.stringify(rule.conditions), size };
}

/** JSON arrays of the rows, each small enough for a parameter of a statement. */
function jsonChunks(rows: readonly object[]): string[] {
  const chunks: string[] = [];
  let chunk: string[] = [];
  let characters = 0;
  for (const row of rows) {
    const text = JSON.stringify(row);
    if (chunk.length > 0 && characters + text.length > RULES_STATEMENT_MAX_CHARACTERS) {
      chunks.push(`[${chunk.join()}]`);
      [chunk, characters] = [[], 0];
    }
    chunk.push(text);
    characters += text.length;
  }
  return chunk.length === 0 ? chunks : [...chunks, `[${chunk.join()}]`];
}
