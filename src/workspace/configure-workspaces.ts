/** Brings Quota Counters and Signal Stores in line with plan and overages in D1, which is always written first. */
import type { ControlDatabase } from "../control/database.ts";
import { workspaceConfigs, workspacesOnPlan } from "../control/workspaces.ts";
import { quotaCounter, signalStore } from "./objects.ts";

/** How many workspaces are configured at a time when a plan changes. */
const AT_A_TIME = 20;

/**
 * Sends each workspace's configuration to its counter and its store. D1 is read again afterwards: where it has changed
 * meanwhile, this configuration may have overtaken a newer one, so the newer one is sent once more. Repeating the
 * whole call finishes one that was interrupted.
 *
 * @param workspaceIds at most 100.
 */
export async function configureWorkspaces(env: Env, db: ControlDatabase, workspaceIds: string[]): Promise<void> {
  let pending = await workspaceConfigs(db, workspaceIds);
  while (pending.size > 0) {
    await Promise.all(
      Array.from(pending, async ([id, { quota, retentionDays }]) => {
        await Promise.all([quotaCounter(env, id).configure(quota), signalStore(env, id).configure({ retentionDays })]);
      }),
    );
    const sent = pending;
    pending = await workspaceConfigs(db, [...sent.keys()]);
    for (const [id, config] of pending) if (isEqualJson(config, sent.get(id))) pending.delete(id);
  }
}

export async function configurePlan(env: Env, db: ControlDatabase, planId: string): Promise<void> {
  let ids = await workspacesOnPlan(db, planId, "", AT_A_TIME);
  while (ids.length > 0) {
    await configureWorkspaces(env, db, ids);
    ids = await workspacesOnPlan(db, planId, ids.at(-1) ?? "", AT_A_TIME);
  }
}

/** Compares what the same query has read at two times: its fields come in the same order. */
function isEqualJson(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
