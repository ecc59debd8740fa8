/** Workspaces, and the configuration of their Durable Objects. */
import type { JsonObject } from "../domain/json/json-value.ts";
import { ok, reject, type Result } from "../domain/result.ts";
import { newId } from "../platform/ids.ts";
import { requireJurisdiction } from "../env.ts";
import type { QuotaConfig } from "../domain/quota/billing.ts";
import type { ByFirstKey } from "../domain/quota/key-budget.ts";
import { listPage, type ListQuery, type ListPage } from "../platform/list-page.ts";
import { auditEntry } from "./audit.ts";
import {
  endIsNoted,
  hasRow,
  isOneOf,
  iso,
  type Change,
  type ControlContext,
  type ControlDatabase,
  plans,
  workspaces,
  workspaceVersions,
} from "./database.ts";
import { activeBudgets } from "./api-keys.ts";
import { findPlan } from "./plans.ts";
import { and, asc, count, desc, eq, getTableColumns, inArray, lt, ne, not, or, sql, type SQL } from "drizzle-orm";

/**
 * The version of a workspace's configuration, for a select with the plan joined. Each change of the workspace or of its
 * plan raises it, and it is the time of that change in milliseconds. The Quota Counter has the configuration of one or
 * an earlier version.
 */
const CONFIG_VERSION = sql<number>`max(${workspaces.configVersion}, ${plans.configVersion})`;

/** The workspace has not ended. */
const EXISTS = ne(workspaces.state, "ended");

/** The workspace has not ended, and is not being imported: its objects work. */
export const IS_COMPLETE = inArray(workspaces.state, ["active", "closed"]);

/** The next version of a workspace's own part, for the statement that changes it: above both plans' versions too. */
function nextVersion(nowMs: number, planId: string | undefined): SQL {
  const ofPlans = sql`(SELECT max(config_version) + 1 FROM ${plans} WHERE id IN (${workspaces.planId}, ${planId ?? null}))`;
  return sql`max(${workspaces.configVersion} + 1, ${nowMs}, ${ofPlans})`;
}

const { planId: plan, rulesVersion: _rulesVersion, ...columns } = getTableColumns(workspaces);
/** The columns of a `Workspace`, for a select with the plan joined. */
export const WORKSPACE_COLUMNS = {
  ...columns,
  plan,
  retentionDays: plans.retentionDays,
  configVersion: CONFIG_VERSION.as("config"),
};

export interface Workspace extends Omit<typeof workspaces.$inferSelect, "planId" | "rulesVersion"> {
  plan: string;
  retentionDays: number | null;
}

type NewWorkspace = Pick<Workspace, "slug" | "name" | "plan" | "overages" | "anchor" | "jurisdiction">;
export type WorkspaceChange = { [Field in "plan" | "overages" | "name"]?: Workspace[Field] | undefined };

/**
 * Creates a workspace in D1 only; the caller then configures its objects.
 * @throws JurisdictionError if the deployment has workspaces in another jurisdiction.
 */
export async function createWorkspace(
  db: ControlDatabase,
  workspace: NewWorkspace,
  by: Change,
): Promise<Result<Workspace, "plan_unknown" | "slug_taken">> {
  const found = await findPlan(db, workspace.plan);
  if (found === null) return reject("plan_unknown");
  const { jurisdiction } = workspace;
  await requireSameJurisdiction(db, jurisdiction);
  const { nowMs } = by;
  const row = { id: newId("ws", nowMs), ...workspace, createdAt: iso(nowMs), configVersion: nowMs };
  const created: Workspace = { ...row, state: "active", retentionDays: found.retentionDays };
  const wasInserted = hasRow(workspaces, eq(workspaces.id, row.id));
  const { slug, name, overages, anchor } = workspace;
  const detail = { slug, name, plan: workspace.plan, overages, anchor };
  const [inserted] = await db.batch([
    db
      .insert(workspaces)
      .values({ ...row, planId: workspace.plan })
      .onConflictDoNothing({ target: workspaces.slug })
      .returning({ id: workspaces.id }),
    appendVersion(db, row.id),
    auditEntry(db, by, { workspaceId: row.id, action: "workspace.created", target: row.id, detail }, wasInserted),
  ]);
  return inserted.length === 0 ? reject("slug_taken") : ok(created);
}

/** @throws JurisdictionError if the deployment has workspaces in another jurisdiction. */
export async function requireSameJurisdiction(db: ControlDatabase, jurisdiction: string): Promise<void> {
  const existing = await db.select({ jurisdiction: workspaces.jurisdiction }).from(workspaces).limit(1).get();
  requireJurisdiction(jurisdiction, existing?.jurisdiction ?? jurisdiction);
}

/** All workspaces, newest first. */
export async function listWorkspaces(db: ControlDatabase, listQuery: ListQuery): Promise<ListPage<Workspace>> {
  const rows = await db
    .select(WORKSPACE_COLUMNS)
    .from(workspaces)
    .innerJoin(plans, eq(plans.id, workspaces.planId))
    .where(and(EXISTS, listQuery.cursor === null ? undefined : lt(workspaces.id, listQuery.cursor)))
    .orderBy(desc(workspaces.id))
    .limit(listQuery.limit + 1);
  return listPage(rows, listQuery, (workspace) => workspace.id);
}

/** Ids, slugs and jurisdictions, oldest first, so that new workspaces do not move the others to another page of the list. */
export async function workspacesByAge(
  db: ControlDatabase,
  range: { offset: number; limit: number },
): Promise<{ total: number; workspaces: Pick<Workspace, "id" | "slug" | "jurisdiction">[] }> {
  const [[counted], found] = await db.batch([
    db.select({ total: count() }).from(workspaces).where(IS_COMPLETE),
    db
      .select({ id: workspaces.id, slug: workspaces.slug, jurisdiction: workspaces.jurisdiction })
      .from(workspaces)
      .where(IS_COMPLETE)
      .orderBy(asc(workspaces.id))
      .limit(range.limit)
      .offset(range.offset),
  ]);
  return { total: counted?.total ?? 0, workspaces: found };
}

/** Finds an ended workspace too. */
export async function findWorkspace(db: ControlDatabase, id: string): Promise<Workspace | null> {
  const query = db.select(WORKSPACE_COLUMNS).from(workspaces).innerJoin(plans, eq(plans.id, workspaces.planId));
  return (await query.where(eq(workspaces.id, id)).get()) ?? null;
}

/** Changes a workspace in D1 only; the caller then configures its objects. A change without effect leaves no audit entry. */
export async function updateWorkspace(
  { db, workspaceId: id, by }: ControlContext,
  change: WorkspaceChange,
): Promise<Result<Workspace, "not_found" | "plan_unknown">> {
  const { plan: planId, name, overages } = change;
  const before = await findWorkspace(db, id);
  if (planId !== undefined && (await findPlan(db, planId)) === null) return reject("plan_unknown");
  const configDiffers = or(
    planId === undefined ? undefined : ne(workspaces.planId, planId),
    overages === undefined ? undefined : ne(workspaces.overages, overages),
  );
  const differs = or(name === undefined ? undefined : ne(workspaces.name, name), configDiffers);
  if (differs !== undefined) {
    const changes = and(eq(workspaces.id, id), differs, not(endIsNoted(id)));
    const version =
      configDiffers && sql`iif(${configDiffers}, ${nextVersion(by.nowMs, planId)}, ${workspaces.configVersion})`;
    const entry = {
      workspaceId: id,
      action: "workspace.updated",
      target: id,
      detail: changesOf(before, change),
    } as const;
    await db.batch([
      auditEntry(db, by, entry, hasRow(workspaces, changes)),
      db.update(workspaces).set({ name, overages, planId, configVersion: version }).where(changes),
      appendVersion(db, id),
    ]);
  }
  const updated = await findWorkspace(db, id);
  return updated === null ? reject("not_found") : ok(updated);
}

/** Each changed setting with its value before and after, for the audit log. */
function changesOf(before: Workspace | null, change: WorkspaceChange): JsonObject {
  return Object.fromEntries(
    Object.entries(change).flatMap(([field, to]) => {
      const from = before?.[field as keyof WorkspaceChange];
      return to === undefined || from === to ? [] : [[field, { from: from ?? null, to }]];
    }),
  );
}

export async function unknownWorkspaces(db: ControlDatabase, ids: readonly string[]): Promise<string[]> {
  const found = await db
    .select({ id: workspaces.id })
    .from(workspaces)
    .where(and(isOneOf(workspaces.id, ids), EXISTS));
  const known = new Set(found.map(({ id }) => id));
  return ids.filter((id) => !known.has(id));
}

/** The statements that raise the version for a change of something else than plan and overages. */
export function raiseVersionIf(db: ControlDatabase, workspaceId: string, nowMs: number, condition: SQL) {
  return [
    db
      .update(workspaces)
      .set({ configVersion: nextVersion(nowMs, undefined) })
      .where(and(eq(workspaces.id, workspaceId), condition)),
    appendVersion(db, workspaceId),
  ];
}

/** Does nothing if the workspace's version is stored already, or the workspace does not exist. */
function appendVersion(db: ControlDatabase, workspaceId: string) {
  const { id, configVersion: version, planId, overages } = getTableColumns(workspaces);
  const current = { workspaceId: id, version, planId, overages };
  return db
    .insert(workspaceVersions)
    .select(
      db
        .select(current)
        .from(workspaces)
        .where(and(eq(workspaces.id, workspaceId), not(endIsNoted(workspaceId)))),
    )
    .onConflictDoNothing();
}

/**
 * Raises the configuration version of a workspace above `seen`, a later version that its Quota Counter has. @returns
 * whether the counter had a later one.
 */
export async function raiseConfigVersion(db: ControlDatabase, workspaceId: string, seen: number): Promise<boolean> {
  const ofPlan = sql`(SELECT config_version FROM ${plans} WHERE id = ${workspaces.planId})`;
  const [raised] = await db.batch([
    db
      .update(workspaces)
      .set({ configVersion: nextVersion(Math.max(Date.now(), seen + 1), undefined) })
      .where(and(eq(workspaces.id, workspaceId), sql`max(${workspaces.configVersion}, ${ofPlan}) < ${seen}`))
      .returning({ id: workspaces.id }),
    appendVersion(db, workspaceId),
  ]);
  return raised.length > 0;
}

interface WorkspaceConfig {
  /** The versions after `since`, oldest first: the counter lacks them. */
  versions: QuotaConfig[];
  /** All budgets of keys. */
  budgets: ByFirstKey;
  configVersion: number;
  retentionDays: number | null;
}

/**
 * The configuration of a workspace's objects. Returns null for a workspace that does not exist or has ended.
 * @param since the version that the Quota Counter has; 0: none.
 */
export async function workspaceConfig(
  db: ControlDatabase,
  workspaceId: string,
  since: number,
): Promise<WorkspaceConfig | null> {
  const [[row], versions, budgets] = await db.batch([
    db
      .select({ anchor: workspaces.anchor, configVersion: CONFIG_VERSION, retentionDays: plans.retentionDays })
      .from(workspaces)
      .innerJoin(plans, eq(plans.id, workspaces.planId))
      .where(and(eq(workspaces.id, workspaceId), EXISTS)),
    configurations(db, workspaceId, since),
    activeBudgets(db, workspaceId, Date.now()),
  ]);
  if (row === undefined) return null;
  const { anchor, ...current } = row;
  const anchorMs = Date.parse(anchor);
  return {
    ...current,
    versions: versions.map((version) => ({ ...version, anchorMs })),
    budgets: Object.fromEntries(budgets.map(({ firstKeyId, signalLimit }) => [firstKeyId, signalLimit])),
  };
}

/**
 * The statement that joins the versions of a workspace and of its plans: one row for each configuration that began
 * after `since`. A workspace's version lasts until its next one. It has the plan's version of its beginning, and then
 * each later one.
 */
function configurations(db: ControlDatabase, workspaceId: string, since: number) {
  const version = sql<number>`max(w.version, p.version)`;
  return db
    .select({
      configVersion: version.as("config_version"),
      signalLimit: sql<number>`p.signal_limit`.as("signal_limit"),
      paid: sql`p.paid`.mapWith(Boolean).as("paid"),
      overages: sql`w.overages`.mapWith(Boolean).as("overages"),
    })
    .from(
      sql`(SELECT *, lead(version, 1, 9e15) OVER (ORDER BY version) AS ends FROM workspace_versions
           WHERE workspace_id = ${workspaceId}) w
        JOIN (SELECT *, lead(version, 1, 9e15) OVER (PARTITION BY plan_id ORDER BY version) AS ends FROM plan_versions
           WHERE plan_id IN (SELECT plan_id FROM workspace_versions WHERE workspace_id = ${workspaceId})) p
        ON p.plan_id = w.plan_id AND p.version < w.ends AND w.version < p.ends`,
    )
    .where(sql`${version} > ${since}`)
    .orderBy(sql`1`);
}

/** The statement that raises the version of the rules and exclusions. */
export function raiseRulesVersion(db: ControlDatabase, workspaceId: string, onlyIf: SQL) {
  return db
    .update(workspaces)
    .set({ rulesVersion: sql`${workspaces.rulesVersion} + 1` })
    .where(and(eq(workspaces.id, workspaceId), onlyIf));
}
