/** Raises notifications of keys that expire soon or are silent. */
import { keysToWatch } from "../control/api-keys.ts";
import { controlDatabase } from "../control/database.ts";
import { expiringDays, silentSinceMs } from "../domain/events/key-notices.ts";
import type { EventType, WorkspaceEvent } from "../domain/events/workspace-event.ts";
import { newId } from "../platform/ids.ts";

export interface KeyNotice {
  keyId: string;
  notice: "key.expiring" | "key.silent";
  /**
   * Identifies the notice: expiry and days left, or the time since when the key is silent. Each value is raised once.
   */
  of: string;
  event: WorkspaceEvent;
}

/** All notices that apply now to the keys of the workspace, of the wanted types. */
export async function readKeyNotices(
  env: Env,
  workspaceId: string,
  types: readonly EventType[],
  nowMs: number,
): Promise<KeyNotice[]> {
  const [keys, lastUsed] = await Promise.all([
    keysToWatch(controlDatabase(env.DB), workspaceId, nowMs),
    env.QUOTA_COUNTER.getByName(workspaceId).lastUsed(),
  ]);
  return keys.flatMap((watched): KeyNotice[] => {
    const key = { ...watched, lastUsedMs: lastUsed[watched.id] ?? null };
    const common = { key_id: key.id, key_name: key.name, last_used_at: isoOrNull(key.lastUsedMs) };
    const [days, silentMs] = [expiringDays(key, nowMs), silentSinceMs(key, nowMs)];
    const notices: KeyNotice[] = [];
    if (days !== null && key.endsAtMs !== null && types.includes("key.expiring")) {
      const data = { ...common, expires_at: new Date(key.endsAtMs).toISOString(), days, successor_id: key.successorId };
      const event = { id: newId("evt", nowMs), type: "key.expiring", time: nowMs, data } as const;
      notices.push({ keyId: key.id, notice: "key.expiring", of: `${key.endsAtMs} ${days}`, event });
    }
    if (silentMs !== null && key.silentAfterDays !== null && types.includes("key.silent")) {
      const data = { ...common, days: key.silentAfterDays };
      const event = { id: newId("evt", nowMs), type: "key.silent", time: nowMs, data } as const;
      notices.push({ keyId: key.id, notice: "key.silent", of: String(silentMs), event });
    }
    return notices;
  });
}

function isoOrNull(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
