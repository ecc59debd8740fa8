/** Reads a workspace's usage from its Quota Counter. */
import type { ControlDatabase } from "../control/database.ts";
import type { Workspace } from "../control/workspaces.ts";
import type { Usage, UsageByDay } from "../quota/protocol.ts";
import { configureCounter } from "./configure-workspace.ts";
import { quotaCounter } from "./objects.ts";

/** The workspace as read from D1. */
type WorkspaceVersion = Pick<Workspace, "id" | "configVersion">;

/**
 * A workspace's usage. Configures the counter first if its configuration is missing or older than that of D1, so that
 * no page shows an outdated plan. @throws if the counter still has no usage.
 */
export async function usageOf(env: Env, db: ControlDatabase, workspace: WorkspaceVersion): Promise<Usage> {
  const read = () => quotaCounter(env, workspace.id).usage();
  const known = await read();
  return isCurrent(known, workspace) ? known : configured(env, db, workspace, read);
}

/** A workspace's usage with the days of the current and the previous billing period. */
export async function usageByDayOf(env: Env, db: ControlDatabase, workspace: WorkspaceVersion): Promise<UsageByDay> {
  const read = () => quotaCounter(env, workspace.id).usageByDay();
  const known = await read();
  return known !== null && isCurrent(known.usage, workspace) ? known : configured(env, db, workspace, read);
}

function isCurrent(usage: Usage | null, { configVersion }: WorkspaceVersion): usage is Usage {
  return usage !== null && usage.configVersion >= configVersion;
}

async function configured<T>(
  env: Env,
  db: ControlDatabase,
  { id }: WorkspaceVersion,
  read: () => Promise<T | null>,
): Promise<T> {
  await configureCounter(env, db, id);
  const found = await read();
  if (found === null) throw new Error("The Quota Counter has no usage although it is configured.");
  return found;
}
