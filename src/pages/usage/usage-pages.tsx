/** Usage: where the billing period stands, and plan, overages and held signals, for owners and admins to change. */
import { ordinalsTaken } from "../../domain/quota/quota.ts";
import type { Context } from "hono";
import { isPlanOffered, plansFor } from "../../control/plans.ts";
import { updateWorkspace, type WorkspaceChange } from "../../control/workspaces.ts";
import { paceOf } from "../../domain/quota/forecast.ts";
import { usageCurve } from "../../domain/quota/usage-day.ts";
import { readBooks, readStorageHealth } from "../../workspace/read-health.ts";
import { releaseForWorkspace } from "../../workspace/signal-operations.ts";
import { configureWorkspace } from "../../workspace/configure-workspace.ts";
import { usageByDayOf } from "../../workspace/configure-workspace.ts";
import type { Done } from "../copy.ts";
import { readForm } from "../read-form.tsx";
import { pages, type PagesEnv, workspacePath, contextOf } from "../pages-env.ts";
import { done, mayManage, page } from "../page.tsx";
import { requireManager } from "../session/require-sign-in.ts";
import { UsageView, type UsageData } from "./usage-view.tsx";

/** Said of a plan that is offered to others only, too: whoever asks does not learn that it exists. */
const NO_SUCH_PLAN = "There is no such plan.";

export const usagePages = pages
  .createApp()
  .get("/", (c) => usagePage(c))
  .post("/overages", requireManager, readForm(), async (c) => {
    const overages = c.get("form").get("overages");
    if (overages !== "on" && overages !== "off") return usagePage(c, "Overages are either on or off.");
    return change(c, { overages: overages === "on" }, `overages_${overages}`);
  })
  .post("/plan", requireManager, readForm(), async (c) => {
    const plan = c.get("form").get("plan");
    const isOffered = typeof plan === "string" && (await isPlanOffered(c.get("db"), plan, c.get("workspace").id));
    return isOffered ? change(c, { plan }, "plan_changed") : usagePage(c, NO_SUCH_PLAN);
  })
  .post("/release", requireManager, async (c) => {
    const { released, isUnderWay } = await releaseForWorkspace(contextOf(c));
    if (isUnderWay) return done(c, "usage", "release_under_way");
    return done(c, "usage", released > 0 ? "released" : "none_released");
  });

async function usagePage(c: Context<PagesEnv>, error?: string): Promise<Response> {
  const data: UsageData = { ...(await readUsageData(c)), ...(error === undefined ? {} : { error }) };
  return page(
    c,
    { title: "Usage", section: "usage", status: error === undefined ? 200 : 422 },
    <UsageView {...data} />,
  );
}

async function readUsageData(c: Context<PagesEnv>): Promise<UsageData> {
  const workspace = c.get("workspace");
  const [{ usage, days, firstDayMs }, all, health, plans] = await Promise.all([
    usageByDayOf(c.env, c.get("db"), workspace),
    readBooks(c.env, workspace.id, undefined),
    readStorageHealth(c.env, workspace.id),
    plansFor(c.get("db"), workspace),
  ]);
  const { periodStartMs } = usage;
  const period = await readBooks(c.env, workspace.id, periodStartMs);
  const nowMs = Date.now();
  return {
    path: workspacePath(c),
    workspace,
    plans,
    usage,
    curve: usageCurve(days, periodStartMs, { ...usage, nowMs }),
    pace: paceOf(days, firstDayMs, { nowMs, periodStartMs, used: ordinalsTaken(usage) }),
    books: { all, period },
    price: plans.find(({ id }) => id === workspace.plan)?.overagePrice ?? null,
    health,
    nowMs,
    manager: mayManage(c),
  };
}

/** Changes the workspace in D1 first, then its objects. A counter that was not reached is configured before the next page. */
async function change(c: Context<PagesEnv>, to: WorkspaceChange, what: Done): Promise<Response> {
  const { id } = c.get("workspace");
  const updated = await updateWorkspace(contextOf(c), to);
  if (!updated.ok) return usagePage(c, NO_SUCH_PLAN);
  await configureWorkspace(c.env, c.get("db"), id);
  return done(c, "usage", what);
}
