/** How much a workspace has used, of its Quota Counter. */
import type { ControlDatabase } from "../control/database.ts";
import type { Usage, UsageByDay } from "../quota/protocol.ts";
import { configureWorkspaces } from "./configure-workspaces.ts";
import { quotaCounter } from "./objects.ts";

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
