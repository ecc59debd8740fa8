/**
 * Limits the API keys and the payload templates of a workspace, because all workspaces share the database and the row of a
 * key is never deleted (spec §3.1). The statement that inserts a key contains the check, so that concurrent calls cannot
 * exceed a limit together.
 */
import { and, eq, exists, gt, gte, isNotNull, isNull, lt, notExists, or, sql, type SQL } from "drizzle-orm";
import { isKey, toApiKey, type ApiKey } from "./api-keys.ts";
import { auditEntry } from "./audit.ts";
import { KEY_ENDS_AT, apiKeys } from "./control-schema.ts";
import { iso, type Change, type ControlDatabase } from "./database.ts";
import type { PayloadMapping } from "../domain/accounts/payload-template.ts";
import { DAY_MS } from "../domain/duration.ts";
import { composeKey, keyEnds, keyStatus, composeSecret } from "../domain/keys/api-key.ts";
import { ok, refuse, type Result } from "../domain/result.ts";
import type { EndpointType } from "../domain/signal/signal.ts";
import {
  TEMPLATE_KEPT_DAYS,
  WORKSPACE_MAX_ACTIVE_KEYS,
  WORKSPACE_MAX_KEYS_A_DAY,
  WORKSPACE_TEMPLATES_MAX_BYTES,
} from "../limits.ts";
import { digestHex } from "../platform/hashes.ts";
import { newId, uuidv7From } from "../platform/ids.ts";

const SECRET_BYTES = 32;

export interface NewKey {
  name: string;
  endpointType: EndpointType;
  expiresAt: string | null;
  /** Whether a shared secret is generated with the key. */
  secret: boolean;
  payloadTemplate: PayloadMapping[] | null;
  /** Inactivity alert in days; a successor inherits it. */
  silentAfterDays?: number | null;
}

export interface CreatedKey {
  record: ApiKey;
  /** The full key, shown once. */
  value: string;
  /** The shared secret, shown once. */
  secret: string | null;
}

/** The same form has already created this key, whose value cannot be shown again. */
interface MadeBefore {
  reason: "made_before";
  key: ApiKey;
}

export interface Rotation {
  keyId: string;
  /** How long the old key stays valid; 0 ends it now, and the caller also deactivates it (see rotateKey). */
  overlapMs: number;
  /** The successor's expiration; undefined keeps the old key's. */
  expiresAt?: string | null | undefined;
  /** Idempotency token of the form: one successor per token. Null creates a successor on every call. */
  formToken: string | null;
}

export async function createKey(
  db: ControlDatabase,
  workspaceId: string,
  key: NewKey,
  by: Change,
): Promise<Result<CreatedKey, LimitReached>> {
  const draft = await composeRow(workspaceId, key, by);
  const [, [reached], inserted] = await db.batch([
    ...insertion(db, draft, by.nowMs),
    creationEntry(db, draft, key, by),
  ]);
  return inserted.length === 1 ? ok(draft.created) : refuse(limitOf(reached));
}

/**
 * Creates one key per form token: of several calls with the same token, even concurrent ones, only the first creates a key.
 */
export async function createKeyOnce(
  db: ControlDatabase,
  workspaceId: string,
  key: NewKey,
  formToken: string,
  by: Change,
): Promise<Result<CreatedKey, MadeBefore | LimitReached>> {
  const draft = await composeRow(workspaceId, key, by, { formToken });
  const [, [reached], inserted] = await db.batch([
    ...insertion(db, draft, by.nowMs),
    creationEntry(db, draft, key, by),
  ]);
  return inserted.length === 1 ? ok(draft.created) : whyNotInserted(db, draft, reached);
}

/**
 * Creates a successor with the same settings (design §5). The old key ends with the overlap or at its own earlier end. The
 * overlap must be longer than the edge caches key facts. Without an overlap, the caller then deactivates the old key. If the
 * caller fails before that, the old key ends when the cached facts expire.
 */
export async function rotateKey(
  db: ControlDatabase,
  workspaceId: string,
  { keyId, overlapMs, expiresAt, formToken }: Rotation,
  by: Change,
): Promise<Result<CreatedKey, { reason: "not_found" | "key_inactive" } | MadeBefore | LimitReached>> {
  const old = await db.select().from(apiKeys).where(isKey(workspaceId, keyId)).get();
  if (old === undefined) return refuse({ reason: "not_found" });
  const settings = { ...old, secret: old.secretHash !== null };
  if (expiresAt !== undefined) settings.expiresAt = expiresAt;
  const draft = await composeRow(workspaceId, settings, by, { formToken, successorOf: old.id });
  // Checked before the status: a repeated rotation without overlap finds the old key already ended.
  const before = formToken === null ? undefined : await madeBy(db, draft.row);
  if (before !== undefined) return refuse({ reason: "made_before", key: toApiKey(before) });
  if (keyStatus(toApiKey(old), by.nowMs) === "Inactive") return refuse({ reason: "key_inactive" });

  const ends = iso(by.nowMs + overlapMs);
  const neverLater = sql<string>`min(coalesce(${apiKeys.overlapEndsAt}, ${ends}), ${ends})`;
  const detail = { successor: draft.row.id, overlap_ms: overlapMs, expires_at: draft.row.expiresAt };
  const isMade = wasInserted(db, draft);
  const [, [reached], inserted] = await db.batch([
    ...insertion(db, draft, by.nowMs),
    auditEntry(db, by, { workspaceId, action: "key.rotated", target: old.id, detail }, isMade),
    db
      .update(apiKeys)
      .set({ overlapEndsAt: neverLater })
      .where(and(isKey(workspaceId, keyId), isMade)),
  ]);
  return inserted.length === 1 ? ok(draft.created) : whyNotInserted(db, draft, reached);
}

interface Draft {
  row: typeof apiKeys.$inferSelect;
  /** The payload template as it is stored: JSON. */
  template: string | null;
  created: CreatedKey;
}

/** The first statements of a batch that inserts a key within the limits. The second one returns the limit that is reached. */
function insertion(db: ControlDatabase, draft: Draft, nowMs: number) {
  const { row, template } = draft;
  const limit = limitReached(db, { ...row, template }, nowMs);
  return [
    dropOldTemplates(db, row.workspaceId, nowMs),
    db.select({ limit }).from(sql`(select 1)`),
    insertKey(db, draft, limit),
  ] as const;
}

/** Inserts nothing if a limit is reached or the same form has already created a key. */
function insertKey(db: ControlDatabase, { row, template }: Draft, limit: SQL<KeyLimit | null>) {
  const sameForm = [apiKeys.workspaceId, apiKeys.formToken];
  return (
    db
      .insert(apiKeys)
      // INSERT … SELECT takes the columns in the order of the table.
      .select(
        sql`select ${row.id}, ${row.workspaceId}, ${row.name}, ${row.endpointType}, ${row.keyHash}, ${row.keyFirst8},
          ${row.keyLast4}, ${row.secretHash}, ${template}, ${row.createdAt}, ${row.createdBy}, ${row.expiresAt},
          ${row.overlapEndsAt}, ${row.deactivatedAt}, ${row.successorOf}, ${row.silentAfterDays}, ${row.formToken}
          where ${limit} is null`,
      )
      .onConflictDoNothing({ target: sameForm })
      .returning({ id: apiKeys.id })
  );
}

function wasInserted(db: ControlDatabase, { row }: Draft) {
  return exists(db.select({ id: apiKeys.id }).from(apiKeys).where(eq(apiKeys.id, row.id)));
}

function creationEntry(db: ControlDatabase, draft: Draft, key: NewKey, by: Change) {
  const { id, workspaceId, name, endpointType, expiresAt } = draft.row;
  const detail = { name, endpoint_type: endpointType, expires_at: expiresAt, has_secret: key.secret };
  return auditEntry(db, by, { workspaceId, action: "key.created", target: id, detail }, wasInserted(db, draft));
}

async function whyNotInserted(
  db: ControlDatabase,
  { row }: Draft,
  reached: { limit: KeyLimit | null } | undefined,
): Promise<Result<never, MadeBefore | LimitReached>> {
  const made = row.formToken === null ? undefined : await madeBy(db, row);
  return refuse(made === undefined ? limitOf(reached) : { reason: "made_before", key: toApiKey(made) });
}

function limitOf(reached: { limit: KeyLimit | null } | undefined): LimitReached {
  if (!reached?.limit) throw new Error("The key was not inserted, although no limit is reached.");
  return { reason: reached.limit };
}

function madeBy(db: ControlDatabase, { workspaceId, formToken }: Draft["row"]) {
  const isSameForm = and(eq(apiKeys.workspaceId, workspaceId), eq(apiKeys.formToken, formToken ?? ""));
  return db.select().from(apiKeys).where(isSameForm).get();
}

async function composeRow(
  workspaceId: string,
  key: NewKey,
  by: Change,
  { formToken = null, successorOf = null }: { formToken?: string | null; successorOf?: string | null } = {},
): Promise<Draft> {
  const value = composeKey(randomBytes);
  const secret = key.secret ? composeSecret(() => Buffer.from(randomBytes(SECRET_BYTES)).toString("base64url")) : null;
  const { first8, last4 } = keyEnds(value);
  const row: Draft["row"] = {
    id: newId("key", by.nowMs),
    workspaceId,
    name: key.name,
    endpointType: key.endpointType,
    keyHash: await digestHex(value),
    keyFirst8: first8,
    keyLast4: last4,
    secretHash: secret === null ? null : await digestHex(secret),
    payloadTemplate: key.payloadTemplate,
    createdAt: iso(by.nowMs),
    createdBy: by.actor,
    expiresAt: key.expiresAt,
    overlapEndsAt: null,
    deactivatedAt: null,
    successorOf,
    silentAfterDays: key.silentAfterDays ?? null,
    formToken: formToken === null ? null : await digestHex(formToken),
  };
  const template = key.payloadTemplate === null ? null : JSON.stringify(key.payloadTemplate);
  return { row, template, created: { record: toApiKey(row), value, secret } };
}

function randomBytes(n: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(n));
}

/** The limits of a workspace that may refuse a new key; limits.ts has the numbers. */
export const KEY_LIMITS = ["too_many_keys", "too_many_keys_a_day", "templates_too_large"] as const;
export type KeyLimit = (typeof KEY_LIMITS)[number];

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
  // Ids begin with their creation time.
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
 * Drops the payload templates of keys that ended more than TEMPLATE_KEPT_DAYS ago. The batch of each new key runs this
 * statement before it checks the limits. A signal that still needs such a template becomes a dead letter.
 */
export function dropOldTemplates(db: ControlDatabase, workspaceId: string, nowMs: number) {
  const before = iso(nowMs - TEMPLATE_KEPT_DAYS * DAY_MS);
  const isOld = or(lt(apiKeys.deactivatedAt, before), lt(KEY_ENDS_AT, before));
  return db
    .update(apiKeys)
    .set({ payloadTemplate: null })
    .where(and(eq(apiKeys.workspaceId, workspaceId), isNotNull(apiKeys.payloadTemplate), isOld));
}
