/** Workspaces, and the configuration of their Durable Objects. */
import { ok, refuse, type Result } from "../domain/result.ts";
import { newId } from "../platform/ids.ts";
import { requireJurisdiction } from "../domain/jurisdiction.ts";
import type { QuotaConfig } from "../domain/quota/billing.ts";
import { pageOf, type Page, type PageOf } from "../platform/list-page.ts";
import { auditEntry } from "./audit.ts";
import {
  hasRow,
  isOneOf,
  iso,
  type Change,
  type ControlContext,
  type ControlDatabase,
  nextConfigVersion,
  plans,
  workspaces,
} from "./database.ts";
import { findPlan } from "./plans.ts";
import { and, asc, count, desc, eq, getTableColumns, lt, ne, or, sql } from "drizzle-orm";

const { planId: plan, rulesVersion: _rulesVersion, ...columns } = getTableColumns(workspaces);
/** The columns of a `Workspace`, for a select with the plan joined. */
export const WORKSPACE_COLUMNS = { ...columns, plan, retentionDays: plans.retentionDays };

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
  if (found === null) return refuse("plan_unknown");
  const { jurisdiction } = workspace;
  const existing = await db.select({ jurisdiction: workspaces.jurisdiction }).from(workspaces).limit(1).get();
  requireJurisdiction(jurisdiction, existing?.jurisdiction ?? jurisdiction);
  const { nowMs } = by;
  const row = { id: newId("ws", nowMs), ...workspace, createdAt: iso(nowMs), configVersion: nowMs };
  const created: Workspace = { ...row, retentionDays: found.retentionDays };
  const wasInserted = hasRow(workspaces, eq(workspaces.id, row.id));
  const { slug, name, overages, anchor } = workspace;
  const detail = { slug, name, plan: workspace.plan, overages, anchor };
  const [inserted] = await db.batch([
    db
      .insert(workspaces)
      .values({ ...row, planId: workspace.plan })
      .onConflictDoNothing({ target: workspaces.slug })
      .returning({ id: workspaces.id }),
    auditEntry(db, by, { workspaceId: row.id, action: "workspace.created", target: row.id, detail }, wasInserted),
  ]);
  return inserted.length === 0 ? refuse("slug_taken") : ok(created);
}

/** All workspaces, newest first. */
export async function listWorkspaces(db: ControlDatabase, page: Page): Promise<PageOf<Workspace>> {
  const rows = await db
    .select(WORKSPACE_COLUMNS)
    .from(workspaces)
    .innerJoin(plans, eq(plans.id, workspaces.planId))
    .where(page.cursor === null ? undefined : lt(workspaces.id, page.cursor))
    .orderBy(desc(workspaces.id))
    .limit(page.limit + 1);
  return pageOf(rows, page, (workspace) => workspace.id);
}

/** Ids, slugs and jurisdictions, oldest first, so that new workspaces do not shift the pages. */
export async function workspacesByAge(
  db: ControlDatabase,
  page: { offset: number; limit: number },
): Promise<{ total: number; workspaces: Pick<Workspace, "id" | "slug" | "jurisdiction">[] }> {
  const [[counted], found] = await db.batch([
    db.select({ total: count() }).from(workspaces),
    db
      .select({ id: workspaces.id, slug: workspaces.slug, jurisdiction: workspaces.jurisdiction })
      .from(workspaces)
      .orderBy(asc(workspaces.id))
      .limit(page.limit)
      .offset(page.offset),
  ]);
  return { total: counted?.total ?? 0, workspaces: found };
}

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
  if (planId !== undefined && (await findPlan(db, planId)) === null) return refuse("plan_unknown");
  const configDiffers = or(
    planId === undefined ? undefined : ne(workspaces.planId, planId),
    overages === undefined ? undefined : ne(workspaces.overages, overages),
  );
  const differs = or(name === undefined ? undefined : ne(workspaces.name, name), configDiffers);
  if (differs !== undefined) {
    const changes = and(eq(workspaces.id, id), differs);
    const version =
      configDiffers && sql`iif(${configDiffers}, ${nextConfigVersion(by.nowMs)}, ${workspaces.configVersion})`;
    const entry = { workspaceId: id, action: "workspace.updated", target: id, detail: { ...change } } as const;
    await db.batch([
      auditEntry(db, by, entry, hasRow(workspaces, changes)),
      db.update(workspaces).set({ name, overages, planId, configVersion: version }).where(changes),
    ]);
  }
  const updated = await findWorkspace(db, id);
  return updated === null ? refuse("not_found") : ok(updated);
}

export async function unknownWorkspaces(db: ControlDatabase, ids: readonly string[]): Promise<string[]> {
  const found = await db.select({ id: workspaces.id }).from(workspaces).where(isOneOf(workspaces.id, ids));
  const known = new Set(found.map(({ id }) => id));
  return ids.filter((id) => !known.has(id));
}

/**
 * Raises the configuration version of a workspace above `seen`, a later version that its Quota Counter has. @returns
 * whether the counter had a later one.
 */
export async function raiseConfigVersion(db: ControlDatabase, workspaceId: string, seen: number): Promise<boolean> {
  const raised = await db
    .update(workspaces)
    .set({ configVersion: nextConfigVersion(Math.max(Date.now(), seen + 1)) })
    .where(and(eq(workspaces.id, workspaceId), lt(workspaces.configVersion, seen)))
    .returning({ id: workspaces.id });
  return raised.length > 0;
}

/** The configuration of a workspace's objects. Returns null for a workspace that does not exist. */
export async function workspaceConfig(
  db: ControlDatabase,
  workspaceId: string,
): Promise<{ quota: QuotaConfig; retentionDays: number | null } | null> {
  const row = await db
    .select({
      anchor: workspaces.anchor,
      overages: workspaces.overages,
      configVersion: workspaces.configVersion,
      signalLimit: plans.signalLimit,
      paid: plans.paid,
      retentionDays: plans.retentionDays,
    })
    .from(workspaces)
    .innerJoin(plans, eq(plans.id, workspaces.planId))
    .where(eq(workspaces.id, workspaceId))
    .get();
  if (row === undefined) return null;
  const { anchor, retentionDays, ...quota } = row;
  return { quota: { ...quota, anchorMs: Date.parse(anchor) }, retentionDays };
}

/** The terms that the consumer and the Signal Store read for each batch, because they may change. */
export interface RecordingTerms {
  rulesVersion: number;
  /** The plan's retention in days; null keeps signals for ever. */
  retentionDays: number | null;
  /** Jurisdiction of the workspace's objects; empty: none. */
  jurisdiction: string;
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
    })
    .from(workspaces)
    .innerJoin(plans, eq(plans.id, workspaces.planId))
    .where(isOneOf(workspaces.id, workspaceIds));
  return new Map(rows.map(({ id, ...terms }) => [id, terms]));
}
