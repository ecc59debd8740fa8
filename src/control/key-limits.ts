/**
 * Limits the API keys and the payload templates of a workspace, because all workspaces share the database and the row of a
 * key is never deleted (spec §3.1). The statement that inserts a key contains the check, so that concurrent calls cannot
 * exceed a limit together.
 */
import {
  TEMPLATE_KEPT_DAYS,
  WORKSPACE_MAX_ACTIVE_KEYS,
  WORKSPACE_MAX_KEYS_A_DAY,
  WORKSPACE_TEMPLATES_MAX_BYTES,
} from "../limits.ts";
import { DAY_MS } from "../domain/duration.ts";
import { uuidv7From } from "../platform/uuidv7.ts";
import { iso, type ControlDatabase } from "./database.ts";
import { apiKeys, KEY_ENDS_AT } from "./control-schema.ts";
import { and, eq, gt, gte, isNotNull, isNull, lt, notExists, or, sql, type SQL } from "drizzle-orm";

/** The limits of a workspace that may refuse a new key; limits.ts has the numbers. */
export const KEY_LIMITS = ["too_many_keys", "too_many_keys_a_day", "templates_too_large"] as const;
export type KeyLimit = (typeof KEY_LIMITS)[number];

/** No key was made, because the workspace has reached this limit. */
export interface LimitReached {
  reason: KeyLimit;
}

interface KeyToMake {
  workspaceId: string;
  /** Id of the key that is rotated; null: this is no rotation. */
  successorOf: string | null;
  /** The payload template as it is stored: JSON. */
  template: string | null;
}

/**
 * SQL expression: the limit that the workspace has reached, or null if it may have this key. A rotation may exceed the limit
 * of active keys, so that a leaked key can always be replaced. It may not if the old key has an active successor already:
 * otherwise repeated rotations of the same key would have no limit.
 */
export function limitReached(
  db: ControlDatabase,
  { workspaceId, successorOf, template }: KeyToMake,
  nowMs: number,
): SQL<KeyLimit | null> {
  const ofWorkspace = eq(apiKeys.workspaceId, workspaceId);
  const active = and(ofWorkspace, isNull(apiKeys.deactivatedAt), gt(KEY_ENDS_AT, iso(nowMs)));
  const successors = db
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .where(and(active, eq(apiKeys.successorOf, successorOf ?? "")));
  const isExempt = successorOf === null ? sql`false` : notExists(successors);
  // An id begins with the time at which it was made.
  const ofLastDay = and(ofWorkspace, gte(apiKeys.id, `key_${uuidv7From(nowMs - DAY_MS)}`));
  const templateBytes = db
    .select({ bytes: sql`coalesce(sum(octet_length(${apiKeys.payloadTemplate})), 0)` })
    .from(apiKeys)
    .where(and(ofWorkspace, isNotNull(apiKeys.payloadTemplate)));
  const bytes = template === null ? 0 : Buffer.byteLength(template);
  return sql<KeyLimit | null>`case
    when ${db.$count(apiKeys, ofLastDay)} >= ${WORKSPACE_MAX_KEYS_A_DAY} then ${"too_many_keys_a_day" satisfies KeyLimit}
    when not ${isExempt} and ${db.$count(apiKeys, active)} >= ${WORKSPACE_MAX_ACTIVE_KEYS}
      then ${"too_many_keys" satisfies KeyLimit}
    when ${bytes} > 0 and ${templateBytes} + ${bytes} > ${WORKSPACE_TEMPLATES_MAX_BYTES}
      then ${"templates_too_large" satisfies KeyLimit}
    end`;
}

/**
 * The statement that drops the payload templates of keys that ended more than TEMPLATE_KEPT_DAYS ago. It stands in the batch
 * of each new key, before the limits are checked. A signal that needs such a template after all is a dead letter.
 */
export function dropOldTemplates(db: ControlDatabase, workspaceId: string, nowMs: number) {
  const before = iso(nowMs - TEMPLATE_KEPT_DAYS * DAY_MS);
  const isOld = or(lt(apiKeys.deactivatedAt, before), lt(KEY_ENDS_AT, before));
  return db
    .update(apiKeys)
    .set({ payloadTemplate: null })
    .where(and(eq(apiKeys.workspaceId, workspaceId), isNotNull(apiKeys.payloadTemplate), isOld));
}
