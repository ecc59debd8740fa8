/** Plans: what a workspace may ingest per billing period (spec §8). */
import { PAGE_MAX_ITEMS } from "../limits.ts";
import { pageOf, type Page, type PageOf } from "../platform/list-page.ts";
import { auditEntry } from "./audit.ts";
import { hasRow, type Change, type ControlDatabase, nextConfigVersion, plans, workspaces } from "./database.ts";
import { and, asc, eq, gt, isNull, ne, or, sql } from "drizzle-orm";

export type Plan = typeof plans.$inferSelect;

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

export async function listPlans(db: ControlDatabase, page: Page): Promise<PageOf<Plan>> {
  const rows = await db
    .select()
    .from(plans)
    .where(page.cursor === null ? undefined : gt(plans.id, page.cursor))
    .orderBy(asc(plans.id))
    .limit(page.limit + 1);
  return pageOf(rows, page, (plan) => plan.id);
}

export async function planNames(db: ControlDatabase): Promise<Map<string, string>> {
  const rows = await db.select({ id: plans.id, name: plans.name }).from(plans);
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/** Plans offered to the workspace and its current plan, by signal limit. */
export async function plansFor(db: ControlDatabase, workspace: { id: string; plan: string }): Promise<Plan[]> {
  return db
    .select()
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
  return (await db.select().from(plans).where(eq(plans.id, id)).get()) ?? null;
}

/**
 * Creates or replaces a plan. If the limit, `paid` or the retention changes, every workspace on the plan gets a new
 * configuration version, which its objects then fetch. A change without effect leaves no audit entry.
 */
export async function putPlan(db: ControlDatabase, plan: Plan, by: Change): Promise<{ created: boolean }> {
  const before = await findPlan(db, plan.id);
  const isSame = before !== null && JSON.stringify(planTerms(before)) === JSON.stringify(planTerms(plan));
  if (isSame) return { created: false };
  const { signalLimit, paid, retentionDays } = plan;
  const termsDiffer = or(
    ne(plans.signalLimit, signalLimit),
    ne(plans.paid, paid),
    sql`${plans.retentionDays} IS NOT ${retentionDays}`,
  );
  const changes = hasRow(plans, and(eq(plans.id, plan.id), termsDiffer));
  await db.batch([
    // Must run before the plan changes.
    db
      .update(workspaces)
      .set({ configVersion: nextConfigVersion(by.nowMs) })
      .where(and(eq(workspaces.planId, plan.id), changes)),
    db.insert(plans).values(plan).onConflictDoUpdate({ target: plans.id, set: plan }),
    auditEntry(db, by, {
      workspaceId: null,
      action: before === null ? "plan.created" : "plan.updated",
      target: plan.id,
      detail: planTerms(plan),
    }),
  ]);
  return { created: before === null };
}
