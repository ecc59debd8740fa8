/** Brings Quota Counters and Signal Stores in line with plan and overages in D1, which is always written first. */
import type { ControlDatabase } from "../control/database.ts";
import { workspaceConfigs, workspacesOnPlan, type WorkspaceConfig } from "../control/workspaces.ts";
import type { Usage, UsageByDay } from "../quota/protocol.ts";
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
    for (const [id, config] of pending) if (isSame(config, sent.get(id))) pending.delete(id);
  }
}

export async function configurePlan(env: Env, db: ControlDatabase, planId: string): Promise<void> {
  let ids = await workspacesOnPlan(db, planId, "", AT_A_TIME);
  while (ids.length > 0) {
    await configureWorkspaces(env, db, ids);
    ids = await workspacesOnPlan(db, planId, ids.at(-1) ?? "", AT_A_TIME);
  }
}

/** A workspace's usage; a counter without a configuration gets it first. @throws when it knows no usage even so. */
export async function usageOf(env: Env, db: ControlDatabase, workspaceId: string): Promise<Usage> {
  return configured(env, db, workspaceId, () => quotaCounter(env, workspaceId).usage());
}

/** A workspace's usage as of `usageOf`, with the days of this billing period and the last. */
export async function usageByDayOf(env: Env, db: ControlDatabase, workspaceId: string): Promise<UsageByDay> {
  return configured(env, db, workspaceId, () => quotaCounter(env, workspaceId).usageByDay());
}

async function configured<T>(
  env: Env,
  db: ControlDatabase,
  workspaceId: string,
  read: () => Promise<T | null>,
): Promise<T> {
  const known = await read();
  if (known !== null) return known;
  await configureWorkspaces(env, db, [workspaceId]);
  const found = await read();
  if (found === null) throw new Error("The Quota Counter has no usage although it is configured.");
  return found;
}

function isSame(a: WorkspaceConfig, b: WorkspaceConfig | undefined): boolean {
  const [one, other] = [a.quota, b?.quota];
  return (
    a.retentionDays === b?.retentionDays &&
    one.signalLimit === other?.signalLimit &&
    one.paid === other.paid &&
    one.overages === other.overages
  );
}
