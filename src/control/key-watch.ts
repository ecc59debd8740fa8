/** What is watched of a workspace's keys for its admins: when they end, and that they are in use. */
import { keyEnd } from "../domain/keys/api-key.ts";
import type { KeyToWatch } from "../domain/events/key-notices.ts";
import { KEY_EXPIRING_DAYS } from "../limits.ts";
import { auditEntry } from "./audit.ts";
import { iso, type Change, type ControlDatabase } from "./database.ts";
import { findKey, isKey, type ApiKey } from "./stored-keys.ts";
import { apiKeys } from "./control-schema.ts";
import { and, eq, exists, gt, isNotNull, isNull, lt, or, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";

export interface WatchedKey extends Omit<KeyToWatch, "lastUsedMs"> {
  name: string;
  successorId: string | null;
}

/** Active keys that end within the longest notice, or whose silence somebody wants to know. */
export async function keysToWatch(db: ControlDatabase, workspaceId: string, nowMs: number): Promise<WatchedKey[]> {
  const soon = iso(nowMs + Math.max(...KEY_EXPIRING_DAYS) * 24 * 3_600_000);
  const successors = alias(apiKeys, "successors");
  const isPast = (end: typeof apiKeys.expiresAt | typeof apiKeys.overlapEndsAt) => or(isNull(end), gt(end, iso(nowMs)));
  const isActive = and(isNull(apiKeys.deactivatedAt), isPast(apiKeys.expiresAt), isPast(apiKeys.overlapEndsAt));
  const rows = await db
    .select({ key: apiKeys, successorId: successors.id, rotatedAt: successors.createdAt })
    .from(apiKeys)
    .leftJoin(successors, and(eq(successors.workspaceId, workspaceId), eq(successors.successorOf, apiKeys.id)))
    .where(
      and(
        eq(apiKeys.workspaceId, workspaceId),
        isActive,
        or(lt(apiKeys.expiresAt, soon), lt(apiKeys.overlapEndsAt, soon), isNotNull(apiKeys.silentAfterDays)),
      ),
    )
    .orderBy(sql`${apiKeys.id}, ${successors.id}`);
  const byKey = new Map<string, WatchedKey>();
  for (const { key, successorId, rotatedAt } of rows) {
    const endsAt = keyEnd(key);
    byKey.set(key.id, {
      id: key.id,
      name: key.name,
      silentAfterDays: key.silentAfterDays,
      successorId,
      createdAtMs: Date.parse(key.createdAt),
      endsAtMs: endsAt === null ? null : Date.parse(endsAt),
      rotatedAtMs: rotatedAt === null ? null : Date.parse(rotatedAt),
    });
  }
  return [...byKey.values()];
}

/** Sets after how many days without a call with the key an admin is told; null: never. Returns null where there is no such key. */
export async function watchForSilence(
  db: ControlDatabase,
  workspaceId: string,
  keyId: string,
  days: number | null,
  by: Change,
): Promise<ApiKey | null> {
  const isOther = and(isKey(workspaceId, keyId), sql`${apiKeys.silentAfterDays} IS NOT ${days}`);
  const isThere = exists(db.select({ id: apiKeys.id }).from(apiKeys).where(isOther));
  const detail = { silent_after_days: days };
  await db.batch([
    auditEntry(db, by, { workspaceId, action: "key.silence_changed", target: keyId, detail }, isThere),
    db.update(apiKeys).set({ silentAfterDays: days }).where(isOther),
  ]);
  return findKey(db, workspaceId, keyId);
}
