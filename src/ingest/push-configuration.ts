/**
 * Pushes the configuration of D1 to a Quota Counter (design §6): before the call if the counter has none, and after the
 * answer if it used an older one. The control plane is loaded only for this.
 */
import type { Context } from "hono";
import type { AppEnv } from "../env.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import type { KnownKey } from "./key-cache.ts";

/** Pause of pushes for the key after a failed push. */
const PUSH_PAUSE_MS = 5_000;

/**
 * Reads the configuration from the primary and configures the counter. Returns its version; null: the workspace does not
 * exist in D1.
 */
export async function pushConfiguration(env: Env, workspaceId: string): Promise<number | null> {
  const { controlDatabase } = await import("../control/database.ts");
  const { workspaceConfig } = await import("../control/workspaces.ts");
  const config = await workspaceConfig(controlDatabase(env.DB.withSession("first-primary")), workspaceId);
  if (config === null) return null;
  // After an error a stub stays broken, so each attempt creates a new one.
  await env.QUOTA_COUNTER.getByName(workspaceId).configure(config.quota);
  return config.quota.configVersion;
}

/** Pushes the configuration after the answer, unless a push of the same key is pending or has just failed. */
export function pushBehindAnswer(c: Context<AppEnv>, key: KnownKey): void {
  const nowMs = Date.now();
  if (nowMs < key.configPushFromMs) return;
  key.configPushFromMs = nowMs + CALL_TIMEOUT_MS;
  c.executionCtx.waitUntil(push(c.env, key));
}

async function push(env: Env, key: KnownKey): Promise<void> {
  try {
    const version = await within(CALL_TIMEOUT_MS, pushConfiguration(env, key.workspaceId));
    // The version from the primary, because the look-up may have cached one from before a restore of D1.
    if (version !== null) key.configVersion = version;
  } catch (error) {
    logEvent("configure_failed", { workspace: key.workspaceId, error: errorText(error) });
    key.configPushFromMs = Date.now() + PUSH_PAUSE_MS;
  }
}
