/** How much a workspace has used, of its Quota Counter. */
import type { ControlDatabase } from "../control/database.ts";
import type { Workspace } from "../control/workspaces.ts";
import type { Usage, UsageByDay } from "../quota/protocol.ts";
import { configureCounter } from "./configure-workspace.ts";
import { quotaCounter } from "./objects.ts";

/** The workspace as the caller has read it of D1. */
type WorkspaceVersion = Pick<Workspace, "id" | "configVersion">;

/**
 * A workspace's usage. A counter without a configuration, or with an older one than D1 has, is configured first: no page shows
 * a plan as current that the counter does not have. @throws when the counter knows no usage even so.
 */
export async function usageOf(env: Env, db: ControlDatabase, workspace: WorkspaceVersion): Promise<Usage> {
  const read = () => quotaCounter(env, workspace.id).usage();
  const known = await read();
  return isCurrent(known, workspace) ? known : configured(env, db, workspace, read);
}

/** A workspace's usage as of `usageOf`, with the days of this billing period and the last. */
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
