/** Plans: what a workspace may ingest per billing period (spec §8). */
import { PAGE_MAX_ITEMS } from "../limits.ts";
import { listPage, type ListQuery, type ListPage } from "../platform/list-page.ts";
import { auditEntry } from "./audit.ts";
import { auditLog, type Change, type ControlDatabase, hasRow, plans, planVersions, workspaces } from "./database.ts";
import { and, asc, eq, getTableColumns, gt, isNull, ne, or, sql } from "drizzle-orm";

const { configVersion: _configVersion, ...PLAN_COLUMNS } = getTableColumns(plans);

export type Plan = Omit<typeof plans.$inferSelect, "configVersion">;

/** A plan's terms with the field names of the audit log. */
function planTerms({ overagePrice: price, ...plan }: Plan) {
  return {
    name: plan.name,
    signal_limit: plan.signalLimit,
    paid: plan.paid,
    retention_days: plan.retentionDays,
    offered_to: plan.offeredTo,
    overage_price: price === null ? null : { per_thousand: price.perThousand, currency: price.currency },
  };
}

export async function listPlans(db: ControlDatabase, listQuery: ListQuery): Promise<ListPage<Plan>> {
  const rows = await db
    .select(PLAN_COLUMNS)
    .from(plans)
    .where(listQuery.cursor === null ? undefined : gt(plans.id, listQuery.cursor))
    .orderBy(asc(plans.id))
    .limit(listQuery.limit + 1);
  return listPage(rows, listQuery, (plan) => plan.id);
}

export async function planNames(db: ControlDatabase): Promise<Map<string, string>> {
  const rows = await db.select({ id: plans.id, name: plans.name }).from(plans);
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/** Plans offered to the workspace and its current plan, by signal limit. */
export async function plansFor(db: ControlDatabase, workspace: { id: string; plan: string }): Promise<Plan[]> {
  return db
    .select(PLAN_COLUMNS)
    .from(plans)
    .where(or(eq(plans.id, workspace.plan), isOfferedTo(workspace.id)))
    .orderBy(asc(plans.signalLimit), asc(plans.id))
    .limit(PAGE_MAX_ITEMS);
}

export async function isPlanOffered(db: ControlDatabase, planId: string, workspaceId: string): Promise<boolean> {
  const isOffered = and(eq(plans.id, planId), isOfferedTo(workspaceId));
  return (await db.select({ id: plans.id }).from(plans).where(isOffered).get()) !== undefined;
}

function isOfferedTo(workspaceId: string) {
  const isNamed = sql`EXISTS (SELECT 1 FROM json_each(${plans.offeredTo}) WHERE value = ${workspaceId})`;
  return or(isNull(plans.offeredTo), isNamed);
}

export async function findPlan(db: ControlDatabase, id: string): Promise<Plan | null> {
  return (await db.select(PLAN_COLUMNS).from(plans).where(eq(plans.id, id)).get()) ?? null;
}

/**
 * Creates or replaces a plan. If the limit, `paid` or the retention changes, the plan gets a new version, which the
 * objects of its workspaces then fetch. However many workspaces the plan has, this writes the same few rows. A change
 * without effect leaves no audit entry.
 */
export async function putPlan(db: ControlDatabase, plan: Plan, by: Change): Promise<{ created: boolean }> {
  // The id is not set again: SQLite would look for rows that refer to the old one, in every version of a workspace.
  const { id, ...terms } = plan;
  const { signalLimit, paid, retentionDays } = terms;
  const termsDiffer = or(
    ne(plans.signalLimit, signalLimit),
    ne(plans.paid, paid),
    sql`${plans.retentionDays} IS NOT ${retentionDays}`,
  );
  // Above the versions of its workspaces too, so that the higher of the two rises with every change of either.
  const ofWorkspaces = sql`(SELECT config_version + 1 FROM ${workspaces} WHERE plan_id = ${id}
    ORDER BY config_version DESC LIMIT 1)`;
  const next = sql`max(${plans.configVersion} + 1, ${by.nowMs}, coalesce(${ofWorkspaces}, 0))`;
  const configVersion = sql`iif(${termsDiffer}, ${next}, ${plans.configVersion})`;
  const [price, offeredTo] = [plan.overagePrice, plan.offeredTo].map((value) => value && JSON.stringify(value));
  const differs = or(
    termsDiffer,
    ne(plans.name, plan.name),
    sql`${plans.offeredTo} IS NOT ${offeredTo}`,
    sql`${plans.overagePrice} IS NOT ${price}`,
  );
  const isPlan = eq(plans.id, id);
  const entry = { workspaceId: null, target: id, detail: planTerms(plan) };
  // The conditions read the plan before the change.
  const [created] = await db.batch([
    auditEntry(db, by, { ...entry, action: "plan.created" }, sql`NOT ${hasRow(plans, isPlan)}`).returning({
      id: auditLog.id,
    }),
    auditEntry(db, by, { ...entry, action: "plan.updated" }, hasRow(plans, and(isPlan, differs))),
    db
      .insert(plans)
      .values({ ...plan, configVersion: by.nowMs })
      .onConflictDoUpdate({ target: plans.id, set: { ...terms, configVersion } }),
    appendPlanVersion(db, id),
  ]);
  return { created: created.length > 0 };
}

/** Does nothing if the plan's version is stored already. */
function appendPlanVersion(db: ControlDatabase, planId: string) {
  const { id, configVersion: version, signalLimit, paid, retentionDays } = getTableColumns(plans);
  const current = { planId: id, version, signalLimit, paid, retentionDays };
  return db
    .insert(planVersions)
    .select(db.select(current).from(plans).where(eq(plans.id, planId)))
    .onConflictDoNothing();
}
