/** Sends plan and overages from D1 to a workspace's Quota Counter and Signal Store, and reads the usage under them. */
import type { ControlDatabase } from "../d1/database.ts";
import { workspaceConfig, type Workspace } from "../d1/workspaces.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import type { CounterOverview, Usage, UsageByDay } from "../quota/protocol.ts";
import { quotaCounter, signalStore } from "./objects.ts";

/**
 * Configures a workspace's objects after a change in D1, so that it takes effect with the next signal. Never throws:
 * the edge and the consumer repair a failed call. A stale configuration is harmless, because the counter ignores
 * older versions.
 */
export async function configureWorkspace(env: Env, db: ControlDatabase, workspaceId: string): Promise<void> {
  const failed = (error: unknown): void =>
    logEvent("configure_failed", { workspace: workspaceId, error: errorText(error) });
  try {
    // Without an answer, the counter gets every version, and ignores those that it has.
    const since = await within(CALL_TIMEOUT_MS, quotaCounter(env, workspaceId).configVersion()).catch(() => 0);
    const config = await within(CALL_TIMEOUT_MS, workspaceConfig(db, workspaceId, since));
    if (config === null) return;
    const { versions, budgets, retentionDays } = config;
    await Promise.all([
      within(CALL_TIMEOUT_MS, quotaCounter(env, workspaceId).configure(versions, budgets)).catch(failed),
      within(CALL_TIMEOUT_MS, signalStore(env, workspaceId).configure({ retentionDays })).catch(failed),
    ]);
  } catch (error) {
    failed(error);
  }
}

/**
 * Sends the counter of a workspace what it lacks. @param since the version that it has; 0: none.
 * @throws if D1 or the counter cannot be reached.
 */
export async function configureCounter(
  env: Env,
  db: ControlDatabase,
  workspaceId: string,
  since: number,
): Promise<void> {
  const config = await workspaceConfig(db, workspaceId, since);
  if (config !== null) await quotaCounter(env, workspaceId).configure(config.versions, config.budgets);
}

type WorkspaceVersion = Pick<Workspace, "id" | "configVersion">;

/** A workspace's usage, by the configuration of D1. @throws if the counter has none. */
export function usageOf(env: Env, db: ControlDatabase, workspace: WorkspaceVersion): Promise<Usage> {
  const read = () => quotaCounter(env, workspace.id).usage();
  return readCurrent(env, db, workspace, read, (usage) => usage);
}

/** As `usageOf`, with the days of the current and the previous billing period. */
export function usageByDayOf(env: Env, db: ControlDatabase, workspace: WorkspaceVersion): Promise<UsageByDay> {
  const read = () => quotaCounter(env, workspace.id).usageByDay();
  return readCurrent(env, db, workspace, read, ({ usage }) => usage);
}

/** As `usageByDayOf`, with the rejections and the last use of each key. */
export function overviewOf(env: Env, db: ControlDatabase, workspace: WorkspaceVersion): Promise<CounterOverview> {
  const read = () => quotaCounter(env, workspace.id).overview();
  return readCurrent(env, db, workspace, read, ({ usage }) => usage);
}

/** Configures the counter if its configuration is missing or older than that of D1, so that no page shows an old plan. */
async function readCurrent<T>(
  env: Env,
  db: ControlDatabase,
  { id, configVersion }: WorkspaceVersion,
  read: () => Promise<T | null>,
  usageIn: (found: T) => Usage,
): Promise<T> {
  let found = await read();
  const since = found === null ? 0 : usageIn(found).configVersion;
  if (since < configVersion) {
    await configureCounter(env, db, id, since);
    found = await read();
  }
  if (found === null) throw new Error("The Quota Counter has no usage although it is configured.");
  return found;
}
