/**
 * Reads, renames and deactivates API keys (spec §2.1, §3.1); new-keys.ts creates them. The table holds only
 * SHA-256 hashes and the masked parts of a key.
 */
import { and, desc, eq, getTableColumns, gt, isNotNull, isNull, lt, ne, or, sql, type SQL } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { auditEntry, type AuditAction } from "./audit.ts";
import {
  apiKeys,
  hasRow,
  iso,
  isOneOf,
  keyBudgets,
  payloadTemplates,
  type ControlContext,
  type ControlDatabase,
} from "./database.ts";
import { DAY_MS } from "../domain/duration.ts";
import type { KeyTemplate, MisfitHandling, SuccessStatus } from "../domain/template/key-template.ts";
import type { KeyToWatch } from "../domain/notifications/key-notices.ts";
import { KEY_PREFIX, keyEnd, maskedKey } from "../domain/keys/api-key.ts";
import type { JsonObject } from "../domain/json/json-value.ts";
import { KEY_EXPIRING_DAYS } from "../limits.ts";
import { listPage, type ListQuery, type ListPage } from "../platform/list-page.ts";

type KeyRow = typeof apiKeys.$inferSelect;

/** Columns that no reader of a key sees. */
type HiddenColumn =
  | "workspaceId"
  | "keyHash"
  | "keyFirst8"
  | "keyLast4"
  | "secretHash"
  | "formToken"
  | "overlapEndsAt"
  | "templateId";

/** A key as it is shown. Times are ISO 8601 UTC. database.ts explains the stored fields. */
export interface ApiKey extends Omit<KeyRow, HiddenColumn> {
  /** The key's first 8 characters, an ellipsis, its last 4. */
  maskedKey: string;
  /** The earlier of the expiration and the end of the overlap after a rotation. */
  endsAt: string | null;
  hasSecret: boolean;
  /** The newest version. Null: it has none, or it was removed, or dropped after the key's end. */
  payloadTemplate: KeyTemplate | null;
  /** The budget of the key and the keys that it replaced: signals of a billing period. Null: none. */
  signalLimit: number | null;
}

/** A row of a key with its template and budget. */
type KeyWithTemplate = KeyRow & Pick<ApiKey, "payloadTemplate" | "signalLimit">;

/** SQL expression: the newest version of the template of a key in the outer query. */
export const NEWEST_VERSION = sql`(SELECT max(version) FROM payload_templates AS versions WHERE versions.id = ${apiKeys.templateId})`;

/** The start of a select of keys with their templates and budgets. */
export function selectKeys(db: ControlDatabase) {
  return db
    .select({
      ...getTableColumns(apiKeys),
      payloadTemplate: payloadTemplates.template,
      signalLimit: keyBudgets.signalLimit,
    })
    .from(apiKeys)
    .leftJoin(keyBudgets, eq(keyBudgets.firstKeyId, apiKeys.firstKeyId))
    .leftJoin(
      payloadTemplates,
      and(eq(payloadTemplates.id, apiKeys.templateId), eq(payloadTemplates.version, NEWEST_VERSION)),
    );
}

export function toApiKey(row: KeyWithTemplate): ApiKey {
  const { workspaceId: _w, keyHash: _h, formToken: _f, overlapEndsAt: _o, templateId: _t, ...rest } = row;
  const { secretHash, keyFirst8, keyLast4, payloadTemplate, ...shown } = rest;
  const masked = maskedKey({ first8: keyFirst8, last4: keyLast4 });
  const template = payloadTemplate === null || payloadTemplate.length === 0 ? null : payloadTemplate;
  return {
    ...shown,
    maskedKey: masked,
    endsAt: keyEnd(row),
    hasSecret: secretHash !== null,
    payloadTemplate: template,
  };
}

export function isKey(workspaceId: string, keyId: string) {
  return and(eq(apiKeys.workspaceId, workspaceId), eq(apiKeys.id, keyId));
}

/** Keys, newest first (spec §2.1). @param activeAtMs lists only the keys that are active at this time; undefined: all. */
export async function listKeys(
  db: ControlDatabase,
  workspaceId: string,
  listQuery: ListQuery,
  activeAtMs?: number,
): Promise<ListPage<ApiKey>> {
  const isAfterCursor = listQuery.cursor === null ? undefined : lt(apiKeys.id, listQuery.cursor);
  const isShown = activeAtMs === undefined ? undefined : isActive(activeAtMs);
  const rows = await selectKeys(db)
    .where(and(eq(apiKeys.workspaceId, workspaceId), isAfterCursor, isShown))
    .orderBy(desc(apiKeys.id))
    .limit(listQuery.limit + 1);
  return listPage(rows.map(toApiKey), listQuery, (key) => key.id);
}

function isActive(nowMs: number): SQL | undefined {
  const { deactivatedAt, expiresAt, overlapEndsAt } = apiKeys;
  const [isNotExpired, isInOverlap] = [expiresAt, overlapEndsAt].map((end) => or(isNull(end), gt(end, iso(nowMs))));
  return and(isNull(deactivatedAt), isNotExpired, isInOverlap);
}

/** The budgets of keys that may still send: at most WORKSPACE_MAX_ACTIVE_KEYS, because a rotation adds none. */
export function activeBudgets(db: ControlDatabase, workspaceId: string, nowMs: number) {
  const ofChain = and(eq(apiKeys.workspaceId, workspaceId), eq(apiKeys.firstKeyId, keyBudgets.firstKeyId));
  return db
    .select({ firstKeyId: keyBudgets.firstKeyId, signalLimit: keyBudgets.signalLimit })
    .from(keyBudgets)
    .where(and(eq(keyBudgets.workspaceId, workspaceId), hasRow(apiKeys, and(ofChain, isActive(nowMs)))));
}

/** Successors and predecessors of these keys, by key id. At most 200 of each. */
export async function rotatedWith(
  db: ControlDatabase,
  workspaceId: string,
  keys: readonly ApiKey[],
): Promise<{ successors: Map<string, ApiKey>; predecessors: Map<string, ApiKey> }> {
  const ids = keys.map(({ id }) => id);
  const replaced = keys.flatMap(({ successorOf }) => successorOf ?? []);
  const keysWhere = (condition: SQL) => selectKeys(db).where(and(eq(apiKeys.workspaceId, workspaceId), condition));
  const [after, before] = await db.batch([
    // The plus keeps SQLite from reading all of the workspace's keys in order of their ids.
    keysWhere(isOneOf(apiKeys.successorOf, ids)).orderBy(sql`+${apiKeys.id}`),
    keysWhere(isOneOf(apiKeys.id, replaced)),
  ]);
  return {
    successors: new Map(after.map((row) => [row.successorOf ?? "", toApiKey(row)] as const)),
    predecessors: new Map(before.map((row) => [row.id, toApiKey(row)] as const)),
  };
}

/** The newest key of each rotation chain, by the first one. */
export async function newestOfChains(
  db: ControlDatabase,
  workspaceId: string,
  firstKeyIds: readonly string[],
): Promise<Map<string, ApiKey>> {
  if (firstKeyIds.length === 0) return new Map();
  const rows = await selectKeys(db)
    .where(and(eq(apiKeys.workspaceId, workspaceId), isOneOf(apiKeys.firstKeyId, firstKeyIds)))
    .orderBy(apiKeys.id);
  return new Map(rows.map((row) => [row.firstKeyId, toApiKey(row)] as const));
}

/** Those of the keys that are active, oldest first. */
export async function activeKeys(
  db: ControlDatabase,
  workspaceId: string,
  keyIds: readonly string[],
  nowMs: number,
): Promise<ApiKey[]> {
  if (keyIds.length === 0) return [];
  const ofKeys = and(eq(apiKeys.workspaceId, workspaceId), isOneOf(apiKeys.id, keyIds), isActive(nowMs));
  return (await selectKeys(db).where(ofKeys).orderBy(apiKeys.id)).map(toApiKey);
}

export async function findKey(db: ControlDatabase, workspaceId: string, keyId: string): Promise<ApiKey | null> {
  const row = await selectKeys(db).where(isKey(workspaceId, keyId)).get();
  return row === undefined ? null : toApiKey(row);
}

/** When the overlap of a rotated key ends, in milliseconds since 1970; null: it was not rotated. */
export async function overlapEnd(db: ControlDatabase, workspaceId: string, keyId: string): Promise<number | null> {
  const { overlapEndsAt } = apiKeys;
  const row = await db.select({ overlapEndsAt }).from(apiKeys).where(isKey(workspaceId, keyId)).get();
  return parsedTime(row?.overlapEndsAt ?? null);
}

/** Identifies a key for people. The masked key is needed because keys keep their name after a rotation. */
export type KeyName = Pick<ApiKey, "name" | "maskedKey">;

export async function keyNames(
  db: ControlDatabase,
  workspaceId: string,
  keyIds: readonly string[],
): Promise<Map<string, KeyName>> {
  if (keyIds.length === 0) return new Map();
  const ofKeys = and(eq(apiKeys.workspaceId, workspaceId), isOneOf(apiKeys.id, keyIds));
  return namesById(await db.select(NAME_COLUMNS).from(apiKeys).where(ofKeys));
}

/**
 * Names of the newest keys, by id, whose name contains `text` or whose shown beginning it has: a whole key finds its key.
 * Ignores the case of ASCII letters in names.
 */
export async function newestKeyNames(
  db: ControlDatabase,
  workspaceId: string,
  text: string,
  limit: number,
): Promise<Map<string, KeyName>> {
  const nameMatches = text === "" ? undefined : sql`instr(lower(${apiKeys.name}), lower(${text})) > 0`;
  const keyMatches = text.startsWith(KEY_PREFIX)
    ? sql`instr(${apiKeys.keyFirst8}, ${text.slice(0, 8)}) = 1`
    : undefined;
  const ofText = and(eq(apiKeys.workspaceId, workspaceId), or(nameMatches, keyMatches));
  return namesById(await db.select(NAME_COLUMNS).from(apiKeys).where(ofText).orderBy(desc(apiKeys.id)).limit(limit));
}

const NAME_COLUMNS = { id: apiKeys.id, name: apiKeys.name, first8: apiKeys.keyFirst8, last4: apiKeys.keyLast4 };

function namesById(rows: { id: string; name: string; first8: string; last4: string }[]): Map<string, KeyName> {
  return new Map(rows.map(({ id, name, ...ends }) => [id, { name, maskedKey: maskedKey(ends) }] as const));
}

export async function deactivatedKeyIds(db: ControlDatabase, workspaceId: string): Promise<string[]> {
  const rows = await db
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .where(and(eq(apiKeys.workspaceId, workspaceId), isNotNull(apiKeys.deactivatedAt)));
  return rows.map(({ id }) => id);
}

/**
 * Deactivates keys that the Quota Counter knows as deactivated, which is final, also if D1 was restored to a moment before
 * it. @returns the number of changed keys.
 */
export async function deactivateCountersKeys(
  db: ControlDatabase,
  workspaceId: string,
  deactivated: readonly { keyId: string; atMs: number }[],
): Promise<number> {
  const times = JSON.stringify(deactivated.map(({ keyId, atMs }) => [keyId, iso(atMs)]));
  const atOf = sql`(SELECT value ->> 1 FROM json_each(${times}) WHERE value ->> 0 = ${apiKeys.id})`;
  const changed = await db
    .update(apiKeys)
    .set({ deactivatedAt: atOf })
    .where(and(eq(apiKeys.workspaceId, workspaceId), isNull(apiKeys.deactivatedAt), sql`${atOf} IS NOT NULL`))
    .returning({ id: apiKeys.id });
  return changed.length;
}

/** Marks a key as deactivated in D1 (spec §3.1); the caller has deactivated it in the Quota Counter. */
export function deactivateKey(context: ControlContext, keyId: string) {
  const set = { deactivatedAt: iso(context.by.nowMs) };
  return changeKey(context, keyId, { set, isChange: isNull(apiKeys.deactivatedAt), action: "key.deactivated" });
}

export function renameKey(context: ControlContext, keyId: string, name: string) {
  const isChange = ne(apiKeys.name, name);
  return changeKey(context, keyId, { set: { name }, isChange, action: "key.renamed", detail: { name } });
}

/** Sets the inactivity alert of a key in days; null removes it. */
export function watchForSilence(context: ControlContext, keyId: string, days: number | null) {
  const isChange = sql`${apiKeys.silentAfterDays} IS NOT ${days}`;
  const detail = { silent_after_days: days };
  return changeKey(context, keyId, { set: { silentAfterDays: days }, isChange, action: "key.silence_changed", detail });
}

/** What becomes of misfits, and the status for success. Undefined leaves a setting as it is. Calls follow within KEY_CACHE_MS. */
export function changeWebhookSettings(
  context: ControlContext,
  keyId: string,
  { misfits, answer }: { misfits?: MisfitHandling | undefined; answer?: SuccessStatus | undefined },
) {
  if (misfits === undefined && answer === undefined) return findKey(context.db, context.workspaceId, keyId);
  const set = { ...(misfits !== undefined && { misfits }), ...(answer !== undefined && { answer }) };
  const changes = [
    misfits === undefined ? undefined : ne(apiKeys.misfits, misfits),
    answer === undefined ? undefined : ne(apiKeys.answer, answer),
  ];
  const isChange = or(...changes) ?? sql`false`;
  return changeKey(context, keyId, { set, isChange, action: "key.webhook_changed", detail: set });
}

interface KeyChange {
  set: Partial<KeyRow>;
  /** Whether the change has an effect. A change without effect leaves no audit entry. */
  isChange: SQL;
  action: AuditAction;
  detail?: JsonObject;
}

/** Returns null if the workspace has no such key. */
async function changeKey(
  { db, workspaceId, by }: ControlContext,
  keyId: string,
  { set, isChange, ...entry }: KeyChange,
): Promise<ApiKey | null> {
  const isChanged = and(isKey(workspaceId, keyId), isChange);
  await db.batch([
    auditEntry(db, by, { workspaceId, target: keyId, ...entry }, hasRow(apiKeys, isChanged)),
    db.update(apiKeys).set(set).where(isChanged),
  ]);
  return findKey(db, workspaceId, keyId);
}

interface WatchedKey extends Omit<KeyToWatch, "lastUsedMs"> {
  name: string;
  successorId: string | null;
}

/** Active keys that end within the longest notice period or have an inactivity alert. */
export async function keysToWatch(db: ControlDatabase, workspaceId: string, nowMs: number): Promise<WatchedKey[]> {
  const soon = iso(nowMs + Math.max(...KEY_EXPIRING_DAYS) * DAY_MS);
  const successors = alias(apiKeys, "successors");
  const endsSoon = or(lt(apiKeys.expiresAt, soon), lt(apiKeys.overlapEndsAt, soon));
  const rows = await db
    .select({ key: apiKeys, successorId: successors.id, rotatedAt: successors.createdAt })
    .from(apiKeys)
    .leftJoin(successors, and(eq(successors.workspaceId, workspaceId), eq(successors.successorOf, apiKeys.id)))
    .where(and(eq(apiKeys.workspaceId, workspaceId), isActive(nowMs), or(endsSoon, isNotNull(apiKeys.silentAfterDays))))
    .orderBy(sql`${apiKeys.id}, ${successors.id}`);
  const byKey = new Map<string, WatchedKey>();
  for (const { key, successorId, rotatedAt } of rows) {
    byKey.set(key.id, {
      id: key.id,
      name: key.name,
      silentAfterDays: key.silentAfterDays,
      successorId,
      createdAtMs: Date.parse(key.createdAt),
      endsAtMs: parsedTime(keyEnd(key)),
      rotatedAtMs: parsedTime(rotatedAt),
    });
  }
  return [...byKey.values()];
}

function parsedTime(time: string | null): number | null {
  return time === null ? null : Date.parse(time);
}
