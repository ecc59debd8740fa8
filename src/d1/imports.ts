/**
 * Imports of workspaces in D1. Until an import is finished its rows wait in `imported_rows`, because their ids may still be the source's.
 * Members are the exception: their pages say that the workspace is being imported.
 */
import { and, eq, getTableColumns, isNull, ne, sql, type SQL } from "drizzle-orm";
import type { JsonObject } from "../domain/json/json-value.ts";
import { maskedKey } from "../domain/keys/api-key.ts";
import type { FileLine, FileManifest, FilePlan } from "../wire/workspace-file.ts";
import { auditEntry } from "./audit.ts";
import {
  apiKeys,
  auditLog,
  type Change,
  type ControlDatabase,
  deletions,
  exclusionVersions,
  hasRow,
  importedRows,
  insertIf,
  iso,
  keyBudgets,
  mappingRules,
  members,
  payloadTemplates,
  ruleVersions,
  workspaceImports,
  workspaces,
  workspaceVersions,
} from "./database.ts";
import { findPlan } from "./plans.ts";
import { raiseRulesVersion, requireSameJurisdiction } from "./workspaces.ts";

/** In the order in which they are written. The deletions come last, when the import is complete. */
const TABLES = {
  api_keys: apiKeys,
  key_budgets: keyBudgets,
  payload_templates: payloadTemplates,
  mapping_rules: mappingRules,
  rule_versions: ruleVersions,
  exclusion_versions: exclusionVersions,
  audit_log: auditLog,
};

type FileTable = (typeof TABLES)[keyof typeof TABLES] | typeof deletions;

const ID_COLUMNS: Record<string, string> = {
  key_budgets: "first_key_id",
  rule_versions: "rule_id",
  exclusion_versions: "version",
};

interface PlanDiffers {
  /** In words. */
  differences: string;
}

interface NewImport {
  manifest: FileManifest;
  slug: string;
  jurisdiction: string;
}

/** Null: the import may begin. @throws JurisdictionError if the deployment has workspaces in another jurisdiction. */
export async function importRejection(
  db: ControlDatabase,
  { manifest, slug, jurisdiction }: NewImport,
): Promise<"slug_taken" | PlanDiffers | null> {
  const differences = await planDifferences(db, manifest.plan);
  if (differences !== null) return { differences };
  await requireSameJurisdiction(db, jurisdiction);
  return (await db.$count(workspaces, eq(workspaces.slug, slug))) > 0 ? "slug_taken" : null;
}

/** Creates the workspace of an import. @returns false: another workspace has taken the slug meanwhile. */
export async function insertImport(
  db: ControlDatabase,
  by: Change,
  { id, manifest, slug, jurisdiction }: NewImport & { id: string },
): Promise<boolean> {
  const { name, overages, anchor, createdAt } = manifest.workspace;
  const { config, rules } = manifest.versions;
  const row = { id, slug, name, planId: manifest.plan.id, overages, anchor, rulesVersion: rules, createdAt };
  const isInserted = hasRow(workspaces, eq(workspaces.id, id));
  const stored = {
    workspaceId: id,
    sourceId: manifest.workspace.id,
    manifest: manifest as unknown as JsonObject,
    parts: [],
    continuedAt: iso(by.nowMs),
  };
  const version = { workspaceId: id, version: config, planId: manifest.plan.id, overages };
  const [inserted] = await db.batch([
    db
      .insert(workspaces)
      .values({ ...row, configVersion: config, jurisdiction, state: "importing" })
      .onConflictDoNothing({ target: workspaces.slug })
      .returning({ id: workspaces.id }),
    insertIf(db, workspaceVersions, version, isInserted),
    insertIf(db, workspaceImports, stored, isInserted),
  ]);
  return inserted.length > 0;
}

/** Null: the deployment has the plan with the same terms. */
async function planDifferences(db: ControlDatabase, plan: FilePlan): Promise<string | null> {
  const found = await findPlan(db, plan.id);
  if (found === null) return `there is no plan ${plan.id}`;
  const terms = ["signalLimit", "paid", "retentionDays"] as const;
  const names = { signalLimit: "signal_limit", paid: "paid", retentionDays: "retention_days" };
  const differences = terms.flatMap((term) =>
    found[term] === plan[term] ? [] : [`${names[term]} is ${String(found[term])} instead of ${String(plan[term])}`],
  );
  return differences.length === 0 ? null : `of the plan ${plan.id}, ${differences.join(", ")}`;
}

export interface Import {
  sourceId: string;
  manifest: FileManifest;
  parts: number[];
}

export async function findImport(db: ControlDatabase, workspaceId: string): Promise<Import | null> {
  const found = await db.select().from(workspaceImports).where(eq(workspaceImports.workspaceId, workspaceId)).get();
  return found === undefined ? null : { ...found, manifest: found.manifest as unknown as FileManifest };
}

export async function notePart(db: ControlDatabase, workspaceId: string, part: number, nowMs: number): Promise<void> {
  const isNew = sql`NOT EXISTS (SELECT 1 FROM json_each(${workspaceImports.parts}) WHERE value = ${part})`;
  await db.batch([
    db
      .update(workspaceImports)
      .set({ continuedAt: iso(nowMs) })
      .where(eq(workspaceImports.workspaceId, workspaceId)),
    db
      .update(workspaceImports)
      .set({ parts: sql`json_insert(${workspaceImports.parts}, '$[#]', ${part})` })
      .where(and(eq(workspaceImports.workspaceId, workspaceId), isNew)),
  ]);
}

/** Idempotent. Does nothing once the import is finished or deleted. @param first number of the first line in its part. */
export async function stageRows(
  db: ControlDatabase,
  workspaceId: string,
  { part, first, lines }: { part: number; first: number; lines: readonly FileLine[] },
): Promise<void> {
  const staged = lines.map(({ table, row }, index) => [first + index, table, JSON.stringify(row)]);
  const ofMembers = lines.flatMap(({ table, row }) => (table === "members" ? [row] : []));
  const isUnderWay = hasRow(workspaceImports, eq(workspaceImports.workspaceId, workspaceId));
  await db.batch([
    db
      .insert(importedRows)
      .select(sql`SELECT ${workspaceId}, ${part}, value ->> 0, value ->> 1, value ->> 2
      FROM json_each(${JSON.stringify(staged)}) WHERE value ->> 1 <> 'members' AND ${isUnderWay}`)
      .onConflictDoNothing(),
    db
      .insert(members)
      .select(sql`SELECT ${workspaceId}, value ->> 'email', value ->> 'role', value ->> 'created_at'
      FROM json_each(${JSON.stringify(ofMembers)}) WHERE ${isUnderWay}`)
      .onConflictDoNothing(),
  ]);
}

const KEY_ENDS = { first8: apiKeys.keyFirst8, last4: apiKeys.keyLast4 };

/** Keys of the import that another workspace has, masked; and whether another workspace has its rules. */
export async function conflictsOf(
  db: ControlDatabase,
  workspaceId: string,
  sourceId: string,
): Promise<{ keys: string[]; rules: boolean }> {
  const staged = (table: string, field: string) =>
    sql`(SELECT row ->> ${field} FROM ${importedRows} WHERE workspace_id = ${workspaceId} AND table_name = ${table})`;
  const isAnother = (table: typeof apiKeys | typeof mappingRules) =>
    sql`${table.workspaceId} NOT IN (${workspaceId}, ${sourceId})`;
  const [keys, rules] = await db.batch([
    db
      .select(KEY_ENDS)
      .from(apiKeys)
      .where(and(sql`${apiKeys.keyHash} IN ${staged("api_keys", "key_hash")}`, isAnother(apiKeys))),
    db
      .select({ id: mappingRules.id })
      .from(mappingRules)
      .where(and(sql`${mappingRules.id} IN ${staged("mapping_rules", "id")}`, isAnother(mappingRules)))
      .limit(1),
  ]);
  return { keys: keys.map(maskedKey), rules: rules.length > 0 };
}

/**
 * What an import that is not complete has moved goes back to its source, unless the source has ended. So the source can be opened again, and
 * the next import finds its keys with their ends. Idempotent.
 */
export async function returnRows(db: ControlDatabase, workspaceId: string): Promise<void> {
  const [source] = await db
    .select({ id: workspaces.id })
    .from(workspaceImports)
    .innerJoin(workspaces, eq(workspaces.id, workspaceImports.sourceId))
    .where(and(eq(workspaceImports.workspaceId, workspaceId), ne(workspaces.state, "ended")));
  if (source === undefined) return;
  // Versions of exclusions that the source has made meanwhile stay. Ids of the other tables are used once.
  const taken = sql`(SELECT version FROM ${exclusionVersions} WHERE workspace_id = ${source.id})`;
  const returned = Object.values(TABLES).map((table) => {
    const isFree = table === exclusionVersions ? sql`version NOT IN ${taken}` : undefined;
    return db
      .update(table)
      .set({ workspaceId: source.id })
      .where(and(eq(table.workspaceId, workspaceId), isFree));
  });
  await db.batch([raiseRulesVersion(db, source.id, sql`true`), ...returned]);
}

export async function activeKeysOf(db: ControlDatabase, workspaceId: string): Promise<string[]> {
  const keys = await db
    .select(KEY_ENDS)
    .from(apiKeys)
    .where(and(eq(apiKeys.workspaceId, workspaceId), isNull(apiKeys.deactivatedAt)))
    .limit(20);
  return keys.map(maskedKey);
}

/** Deletions that were requested since a time, in the workspace of a file or in one that was imported from it, also from another file. */
export async function deletionsAfter(
  db: ControlDatabase,
  sourceId: string,
  sinceMs: number,
): Promise<{ id: string; requestedAtMs: number; emailHash: string }[]> {
  const family = sql`(
    WITH RECURSIVE family (id) AS (
      SELECT ${sourceId}
      UNION SELECT target FROM family JOIN ${auditLog} ON detail ->> 'source' = family.id
      WHERE workspace_id IS NULL AND action = 'workspace.imported'
    )
    SELECT id FROM family)`;
  const found = await db
    .select()
    .from(deletions)
    .where(sql`${deletions.workspaceId} IN ${family} AND ${deletions.requestedAt} >= ${iso(sinceMs)}`);
  return found.map(({ id, requestedAt, emailHash }) => ({ id, requestedAtMs: Date.parse(requestedAt), emailHash }));
}

/**
 * The rows become the workspace's: those of a source in this deployment are moved. One batch, so that each key has one workspace. Keys
 * that have ended since the export stay so. Idempotent.
 */
export async function moveRows(db: ControlDatabase, workspaceId: string, sourceId: string): Promise<void> {
  const { deactivatedAt, overlapEndsAt } = apiKeys;
  const ends = db
    .update(importedRows)
    .set({
      row: sql`json_set(row, '$.deactivated_at', coalesce(${deactivatedAt}, row ->> 'deactivated_at'),
        '$.overlap_ends_at', coalesce(${overlapEndsAt}, row ->> 'overlap_ends_at'))`,
    })
    .from(apiKeys)
    .where(
      sql`imported_rows.workspace_id = ${workspaceId} AND table_name = 'api_keys' AND ${eq(apiKeys.workspaceId, sourceId)}
        AND ${apiKeys.id} = row ->> 'id'`,
    );
  const fromSource = Object.entries(TABLES).map(([name, table]) => {
    const column = ID_COLUMNS[name] ?? "id";
    const ids = sql`${sql.identifier(column)} IN (SELECT row ->> ${column} ${stagedRows(workspaceId, name)})`;
    return db.delete(table).where(sql`${eq(table.workspaceId, sourceId)} AND ${ids}`);
  });
  const inserts = Object.entries(TABLES).map(([name, table]) => insertStaged(db, workspaceId, name, table));
  await db.batch([ends, ...fromSource, ...inserts]);
}

function stagedRows(workspaceId: string, table: string): SQL {
  return sql`FROM ${importedRows} WHERE workspace_id = ${workspaceId} AND table_name = ${table}`;
}

function insertStaged(db: ControlDatabase, workspaceId: string, name: string, table: FileTable) {
  const columns = Object.values(getTableColumns(table)).map((column) => column.name);
  const values = columns.map((column) => (column === "workspace_id" ? sql`${workspaceId}` : sql`row ->> ${column}`));
  return db
    .insert(table)
    .select(sql`SELECT ${sql.join(values, sql`, `)} ${stagedRows(workspaceId, name)}`)
    .onConflictDoNothing();
}

/**
 * The last step of an import. Idempotent. Until now the deletions belong to the source, so that the next import finds them if this one is
 * never finished.
 */
export async function activateImport(
  db: ControlDatabase,
  workspaceId: string,
  sourceId: string,
  by: Change,
  detail: JsonObject,
): Promise<void> {
  // It may have ended meanwhile.
  const isImporting = and(eq(workspaces.id, workspaceId), eq(workspaces.state, "importing"));
  const isNew = hasRow(workspaces, isImporting);
  await db.batch([
    auditEntry(db, by, { workspaceId: null, action: "workspace.imported", target: workspaceId, detail }, isNew),
    db
      .update(deletions)
      .set({ workspaceId })
      .where(and(eq(deletions.workspaceId, sourceId), isNew)),
    insertStaged(db, workspaceId, "deletions", deletions),
    db.update(workspaces).set({ state: "active" }).where(isImporting),
    db.delete(importedRows).where(eq(importedRows.workspaceId, workspaceId)),
    db.delete(workspaceImports).where(eq(workspaceImports.workspaceId, workspaceId)),
  ]);
}

/** @param state `closed` or `active`. */
export async function setState(db: ControlDatabase, workspaceId: string, by: Change, state: "active" | "closed") {
  const before = state === "active" ? "closed" : "active";
  const changes = and(eq(workspaces.id, workspaceId), eq(workspaces.state, before));
  const action = state === "closed" ? "workspace.closed" : "workspace.opened";
  await db.batch([
    auditEntry(db, by, { workspaceId, action, target: workspaceId }, hasRow(workspaces, changes)),
    db.update(workspaces).set({ state }).where(changes),
  ]);
}
