/**
 * Finds, lists, renames and deactivates API keys (spec §2.1, §3.1; design §5); new-keys.ts creates them. The table holds
 * only SHA-256 hashes and the masked parts of a key.
 */
import { and, desc, eq, exists, gt, inArray, isNotNull, isNull, lt, ne, or, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { auditEntry } from "./audit.ts";
import { apiKeys } from "./control-schema.ts";
import { iso, pageOf, type Change, type ControlDatabase } from "./database.ts";
import type { PayloadMapping } from "../domain/accounts/payload-template.ts";
import type { KeyToWatch } from "../domain/events/key-notices.ts";
import { keyEnd, maskedKey } from "../domain/keys/api-key.ts";
import type { EndpointType } from "../domain/signal/signal.ts";
import { KEY_EXPIRING_DAYS } from "../limits.ts";
import type { Page, PageOf } from "../platform/list-page.ts";

/** Times are ISO 8601 UTC. */
export interface ApiKey {
  id: string;
  name: string;
  endpointType: EndpointType;
  /** The key's first 8 characters, an ellipsis, its last 4. */
  maskedKey: string;
  createdAt: string;
  /** A member's email, or `operator`. */
  createdBy: string;
  /** The expiration that was asked for. */
  expiresAt: string | null;
  /** The earlier of the expiration and the end of the overlap after a rotation. */
  endsAt: string | null;
  deactivatedAt: string | null;
  hasSecret: boolean;
  payloadTemplate: PayloadMapping[] | null;
  /** Id of the key that this key replaced by rotation. */
  successorOf: string | null;
  /** Inactivity alert: notify after this many days without a call. Null means no alert. */
  silentAfterDays: number | null;
}

/** Active, expired and deactivated keys, newest first (spec §2.1). */
export async function listKeys(db: ControlDatabase, workspaceId: string, page: Page): Promise<PageOf<ApiKey>> {
  const behind = page.cursor === null ? undefined : lt(apiKeys.id, page.cursor);
  const rows = await db
    .select()
    .from(apiKeys)
    .where(and(eq(apiKeys.workspaceId, workspaceId), behind))
    .orderBy(desc(apiKeys.id))
    .limit(page.limit + 1);
  return pageOf(rows.map(toApiKey), page, (key) => key.id);
}

export async function listActiveKeys(
  db: ControlDatabase,
  workspaceId: string,
  nowMs: number,
  page: Page,
): Promise<PageOf<ApiKey>> {
  const behind = page.cursor === null ? undefined : lt(apiKeys.id, page.cursor);
  const notPast = (end: typeof apiKeys.expiresAt | typeof apiKeys.overlapEndsAt) =>
    or(isNull(end), gt(end, iso(nowMs)));
  const isAlive = and(isNull(apiKeys.deactivatedAt), notPast(apiKeys.expiresAt), notPast(apiKeys.overlapEndsAt));
  const rows = await db
    .select()
    .from(apiKeys)
    .where(and(eq(apiKeys.workspaceId, workspaceId), behind, isAlive))
    .orderBy(desc(apiKeys.id))
    .limit(page.limit + 1);
  return pageOf(rows.map(toApiKey), page, (key) => key.id);
}

/** Successors and predecessors of these keys, by key id. At most 200 of each. */
export async function rotatedWith(
  db: ControlDatabase,
  workspaceId: string,
  keys: readonly ApiKey[],
): Promise<{ successors: Map<string, ApiKey>; predecessors: Map<string, ApiKey> }> {
  const made = keys.flatMap(({ successorOf }) => successorOf ?? []);
  const oneOf = (ids: readonly string[]) => sql`(SELECT value FROM json_each(${JSON.stringify(ids)}))`;
  const [after, before] = await db.batch([
    db
      .select()
      .from(apiKeys)
      .where(and(eq(apiKeys.workspaceId, workspaceId), inArray(apiKeys.successorOf, oneOf(keys.map(({ id }) => id)))))
      // The plus keeps SQLite from reading all of the workspace's keys in order of their ids.
      .orderBy(sql`+${apiKeys.id}`),
    db
      .select()
      .from(apiKeys)
      .where(and(eq(apiKeys.workspaceId, workspaceId), inArray(apiKeys.id, oneOf(made)))),
  ]);
  return {
    successors: new Map(after.map((row) => [row.successorOf ?? "", toApiKey(row)] as const)),
    predecessors: new Map(before.map((row) => [row.id, toApiKey(row)] as const)),
  };
}

export async function findKey(db: ControlDatabase, workspaceId: string, keyId: string): Promise<ApiKey | null> {
  const row = await db.select().from(apiKeys).where(isKey(workspaceId, keyId)).get();
  return row === undefined ? null : toApiKey(row);
}

/** Names of these keys, by id. */
export async function keyNames(
  db: ControlDatabase,
  workspaceId: string,
  keyIds: readonly string[],
): Promise<Map<string, string>> {
  if (keyIds.length === 0) return new Map();
  const isOneOf = sql`${apiKeys.id} IN (SELECT value FROM json_each(${JSON.stringify(keyIds)}))`;
  const rows = await db
    .select({ id: apiKeys.id, name: apiKeys.name })
    .from(apiKeys)
    .where(and(eq(apiKeys.workspaceId, workspaceId), isOneOf));
  return new Map(rows.map((row) => [row.id, row.name] as const));
}

/** Names of the newest keys whose name contains `text`, by id. Ignores the case of ASCII letters. */
export async function newestKeyNames(
  db: ControlDatabase,
  workspaceId: string,
  text: string,
  limit: number,
): Promise<Map<string, string>> {
  const fits = text === "" ? undefined : sql`instr(lower(${apiKeys.name}), lower(${text})) > 0`;
  const rows = await db
    .select({ id: apiKeys.id, name: apiKeys.name })
    .from(apiKeys)
    .where(and(eq(apiKeys.workspaceId, workspaceId), fits))
    .orderBy(desc(apiKeys.id))
    .limit(limit);
  return new Map(rows.map((row) => [row.id, row.name] as const));
}

export async function deactivatedKeyIds(db: ControlDatabase, workspaceId: string): Promise<string[]> {
  const rows = await db
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .where(and(eq(apiKeys.workspaceId, workspaceId), isNotNull(apiKeys.deactivatedAt)));
  return rows.map(({ id }) => id);
}

/**
 * Deactivates a key (spec §3.1). The Quota Counter revokes the key first, so that it refuses the next call even if the write
 * to D1 fails. Idempotent: a retry finishes an interrupted deactivation. Returns null if the workspace has no such key.
 * @param revoke revokes the key in the Quota Counter, and returns when the revocation is durable.
 */
export async function deactivateKey(
  db: ControlDatabase,
  workspaceId: string,
  keyId: string,
  revoke: (keyId: string) => Promise<void>,
  by: Change,
): Promise<ApiKey | null> {
  if ((await findKey(db, workspaceId, keyId)) === null) return null;
  await revoke(keyId);
  const isActive = and(isKey(workspaceId, keyId), isNull(apiKeys.deactivatedAt));
  await db.batch([
    auditEntry(
      db,
      by,
      { workspaceId, action: "key.deactivated", target: keyId },
      exists(db.select({ id: apiKeys.id }).from(apiKeys).where(isActive)),
    ),
    db
      .update(apiKeys)
      .set({ deactivatedAt: iso(by.nowMs) })
      .where(isActive),
  ]);
  return findKey(db, workspaceId, keyId);
}

/** Returns null if the workspace has no such key. */
export async function renameKey(
  db: ControlDatabase,
  workspaceId: string,
  keyId: string,
  name: string,
  by: Change,
): Promise<ApiKey | null> {
  const isOther = and(isKey(workspaceId, keyId), ne(apiKeys.name, name));
  const isThere = exists(db.select({ id: apiKeys.id }).from(apiKeys).where(isOther));
  const entry = { workspaceId, action: "key.renamed", target: keyId, detail: { name } } as const;
  await db.batch([auditEntry(db, by, entry, isThere), db.update(apiKeys).set({ name }).where(isOther)]);
  return findKey(db, workspaceId, keyId);
}

/** Payload templates of these keys, by key id. A template never changes. */
export async function loadTemplates(
  db: ControlDatabase,
  workspaceId: string,
  keyIds: readonly string[],
): Promise<Map<string, PayloadMapping[]>> {
  const isOneOf = sql`${apiKeys.id} IN (SELECT value FROM json_each(${JSON.stringify(keyIds)}))`;
  const rows = await db
    .select({ id: apiKeys.id, payloadTemplate: apiKeys.payloadTemplate })
    .from(apiKeys)
    .where(and(eq(apiKeys.workspaceId, workspaceId), isOneOf));
  const templates = new Map<string, PayloadMapping[]>();
  for (const { id, payloadTemplate } of rows) if (payloadTemplate !== null) templates.set(id, payloadTemplate);
  return templates;
}

export function isKey(workspaceId: string, keyId: string) {
  return and(eq(apiKeys.workspaceId, workspaceId), eq(apiKeys.id, keyId));
}

export function toApiKey(row: typeof apiKeys.$inferSelect): ApiKey {
  return {
    id: row.id,
    name: row.name,
    endpointType: row.endpointType,
    maskedKey: maskedKey({ first8: row.keyFirst8, last4: row.keyLast4 }),
    createdAt: row.createdAt,
    createdBy: row.createdBy,
    expiresAt: row.expiresAt,
    endsAt: keyEnd(row),
    deactivatedAt: row.deactivatedAt,
    hasSecret: row.secretHash !== null,
    payloadTemplate: row.payloadTemplate,
    successorOf: row.successorOf,
    silentAfterDays: row.silentAfterDays,
  };
}

interface WatchedKey extends Omit<KeyToWatch, "lastUsedMs"> {
  name: string;
  successorId: string | null;
}

/** Active keys that end within the longest notice period or have an inactivity alert. */
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

/** Sets the inactivity alert of a key in days; null removes it. Returns null if the workspace has no such key. */
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
