/**
 * The edge brings a Quota Counter up to the configuration that D1 has (design §6): at once where the counter has none, and
 * behind the answer where it has decided with an older one. The control plane is loaded only for that.
 */
import type { Context } from "hono";
import type { AppEnv } from "../env.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import type { KnownKey } from "./key-cache.ts";

/** After a push that failed, the key's next calls do not push for this long. */
const PUSH_PAUSE_MS = 5_000;

/** Reads the configuration at the primary and configures the counter. Returns its version; null: D1 has no such workspace. */
export async function pushConfiguration(env: Env, workspaceId: string): Promise<number | null> {
  const { controlDatabase } = await import("../control/database.ts");
  const { workspaceConfig } = await import("../control/workspaces.ts");
  const config = await workspaceConfig(controlDatabase(env.DB.withSession("first-primary")), workspaceId);
  if (config === null) return null;
  // A new stub each time: after an error the old one stays broken.
  await env.QUOTA_COUNTER.getByName(workspaceId).configure(config.quota);
  return config.quota.configVersion;
}

/** Pushes the configuration behind the answer, unless an earlier call with the key has just begun to, or failed. */
export function pushBehindAnswer(c: Context<AppEnv>, key: KnownKey): void {
  const nowMs = Date.now();
  if (nowMs < key.configPushFromMs) return;
  key.configPushFromMs = nowMs + CALL_TIMEOUT_MS;
  c.executionCtx.waitUntil(push(c.env, key));
}

async function push(env: Env, key: KnownKey): Promise<void> {
  try {
    const version = await within(CALL_TIMEOUT_MS, pushConfiguration(env, key.workspaceId));
    // The primary's word: what the look-up brought may be from before a restore of D1.
    if (version !== null) key.configVersion = version;
  } catch (error) {
    logEvent("configure_failed", { workspace: key.workspaceId, error: errorText(error) });
    key.configPushFromMs = Date.now() + PUSH_PAUSE_MS;
  }
}
