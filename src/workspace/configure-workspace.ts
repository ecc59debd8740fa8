/** Sends plan and overages from D1 to a workspace's Quota Counter and Signal Store. */
import type { ControlDatabase } from "../control/database.ts";
import { workspaceConfig } from "../control/workspaces.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
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
    const config = await within(CALL_TIMEOUT_MS, workspaceConfig(db, workspaceId));
    if (config === null) return;
    const { quota, retentionDays } = config;
    await Promise.all([
      within(CALL_TIMEOUT_MS, quotaCounter(env, workspaceId).configure(quota)).catch(failed),
      within(CALL_TIMEOUT_MS, signalStore(env, workspaceId).configure({ retentionDays })).catch(failed),
    ]);
  } catch (error) {
    failed(error);
  }
}

/** Configures only the counter of a workspace. @throws if D1 or the counter cannot be reached. */
export async function configureCounter(env: Env, db: ControlDatabase, workspaceId: string): Promise<void> {
  const config = await workspaceConfig(db, workspaceId);
  if (config !== null) await quotaCounter(env, workspaceId).configure(config.quota);
}
