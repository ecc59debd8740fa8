/**
 * Creates and rotates API keys within the limits of a workspace. There are limits because all workspaces share the database and
 * the row of a key is never deleted (spec §3.1). The statement that inserts a key contains the check, so that concurrent
 * calls cannot exceed a limit together.
 */
import { and, eq, gt, gte, isNull, lt, or, sql, type SQL } from "drizzle-orm";
import type { BatchItem } from "drizzle-orm/batch";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { isKey, selectKeys, toApiKey, type ApiKey } from "./api-keys.ts";
import { auditEntry } from "./audit.ts";
import { dropUnusedVersions, storedTemplateBytes } from "./key-templates.ts";
import { changeBudget } from "./key-budgets.ts";
import {
  KEY_ENDS_AT,
  apiKeys,
  hasRow,
  insertIf,
  iso,
  payloadTemplates,
  type Change,
  type ControlContext,
  type ControlDatabase,
} from "./database.ts";
import { DAY_MS } from "../domain/duration.ts";
import { composeKey, keyEnds, keyStatus, composeSecret } from "../domain/keys/api-key.ts";
import { ok, reject, type Result } from "../domain/result.ts";
import type { MisfitHandling, SuccessStatus } from "../domain/template/key-template.ts";
import {
  TEMPLATE_KEPT_DAYS,
  WORKSPACE_MAX_ACTIVE_KEYS,
  WORKSPACE_MAX_KEYS_A_DAY,
  WORKSPACE_TEMPLATES_MAX_BYTES,
} from "../limits.ts";
import { digestHex } from "../platform/hashes.ts";
import { newId, uuidv7From } from "../platform/ids.ts";

const SECRET_BYTES = 32;

export interface NewKey extends Pick<ApiKey, "name" | "endpointType" | "expiresAt" | "payloadTemplate"> {
  /** Whether a shared secret is generated with the key. */
  secret: boolean;
  /** Inactivity alert in days; a successor inherits it, and the next two. */
  silentAfterDays?: number | null;
  misfits?: MisfitHandling;
  answer?: SuccessStatus;
  /** Signals of a billing period; a successor shares it. Null: no limit. */
  signalLimit?: number | null;
}

export interface CreatedKey {
  record: ApiKey;
  value: string;
  secret: string | null;
}

/** The limits of a workspace that may reject a new key; limits.ts has the numbers. */
export const KEY_LIMITS = ["too_many_keys", "too_many_keys_a_day", "templates_too_large"] as const;
export type KeyLimit = (typeof KEY_LIMITS)[number];

type KeyRejection =
  | { reason: KeyLimit }
  /** The same form has already created this key, whose value cannot be shown again. */
  | { reason: "made_before"; key: ApiKey };

/**
 * @param formToken idempotency token of the form: of several calls with the same token, even concurrent ones, only the
 * first creates a key. Null creates a key on every call.
 */
export async function createKey(
  { db, workspaceId, by }: ControlContext,
  key: NewKey,
  formToken: string | null = null,
): Promise<Result<CreatedKey, KeyRejection>> {
  const draft = await composeRow(workspaceId, key, by, { formToken, successor: null });
  const { id, name, endpointType, expiresAt } = draft.row;
  const limit = key.signalLimit ?? null;
  const detail = {
    name,
    endpoint_type: endpointType,
    expires_at: expiresAt,
    has_secret: key.secret,
    ...(limit !== null && { signal_limit: limit }),
  };
  const isMade = wasInserted(draft);
  const entry = auditEntry(db, by, { workspaceId, action: "key.created", target: id, detail }, isMade);
  const budget = limit === null ? [] : changeBudget({ db, workspaceId, by }, id, limit, isMade);
  return insertKey(db, draft, by.nowMs, [entry, ...budget]);
}

export interface Rotation {
  keyId: string;
  /** Milliseconds for which the old key stays valid. 0 ends it now; then the caller also deactivates it (see rotateKey). */
  overlapMs: number;
  /** The successor's expiration; undefined keeps the old key's. */
  expiresAt?: string | null | undefined;
  formToken: string | null;
}

/**
 * Creates a successor with the same settings. The old key ends with the overlap or at its own earlier end. The
 * overlap must be longer than the edge caches keys. Without an overlap, the caller then deactivates the old key. If the
 * caller fails before that, the old key ends when its cache entry expires.
 */
export async function rotateKey(
  { db, workspaceId, by }: ControlContext,
  { keyId, overlapMs, expiresAt, formToken }: Rotation,
): Promise<Result<CreatedKey, KeyRejection | { reason: "not_found" | "key_inactive" }>> {
  const old = await selectKeys(db).where(isKey(workspaceId, keyId)).get();
  if (old === undefined) return reject({ reason: "not_found" });
  const settings = { ...old, secret: old.secretHash !== null };
  if (expiresAt !== undefined) settings.expiresAt = expiresAt;
  const draft = await composeRow(workspaceId, settings, by, { formToken, successor: old });
  // Checked before the status: a repeated rotation without overlap finds the old key already ended.
  const before = await createdByForm(db, draft);
  if (before !== undefined) return reject({ reason: "made_before", key: before });
  if (keyStatus(toApiKey(old), by.nowMs) === "Inactive") return reject({ reason: "key_inactive" });

  const ends = iso(by.nowMs + overlapMs);
  const neverLater = sql<string>`min(coalesce(${apiKeys.overlapEndsAt}, ${ends}), ${ends})`;
  const detail = { successor: draft.row.id, overlap_ms: overlapMs, expires_at: draft.row.expiresAt };
  const isMade = wasInserted(draft);
  const ofOld = (column: SQLiteColumn) =>
    sql`(SELECT old.${sql.identifier(column.name)} FROM ${apiKeys} AS old WHERE old.id = ${old.id})`;
  const { templateId, misfits, answer, silentAfterDays } = apiKeys;
  return insertKey(db, draft, by.nowMs, [
    auditEntry(db, by, { workspaceId, action: "key.rotated", target: old.id, detail }, isMade),
    // The settings may have changed since the old key was read.
    db
      .update(apiKeys)
      .set({
        templateId: ofOld(templateId),
        misfits: ofOld(misfits),
        answer: ofOld(answer),
        silentAfterDays: ofOld(silentAfterDays),
      })
      .where(and(isKey(workspaceId, draft.row.id), eq(apiKeys.successorOf, old.id))),
    db
      .update(apiKeys)
      .set({ overlapEndsAt: neverLater })
      .where(and(isKey(workspaceId, keyId), isMade)),
  ]);
}

type KeyRow = typeof apiKeys.$inferSelect;

interface Draft {
  row: KeyRow;
  /** A new template; null: none, or that of the key that this one replaces. */
  template: typeof payloadTemplates.$inferSelect | null;
  created: CreatedKey;
}

/**
 * Inserts a key, unless a limit is reached or the same form has already created a key.
 *
 * @param more statements of the same batch.
 */
async function insertKey(
  db: ControlDatabase,
  draft: Draft,
  nowMs: number,
  more: BatchItem<"sqlite">[],
): Promise<Result<CreatedKey, KeyRejection>> {
  const { row } = draft;
  const limit = limitReached(db, draft, nowMs);
  const [, , [reached], inserted] = await db.batch([
    dropOldTemplates(db, row.workspaceId, nowMs),
    dropUnusedVersions(db, row.workspaceId, bytesOf(draft), nowMs),
    db.select({ limit }).from(sql`(select 1)`),
    insertIf(db, apiKeys, row, sql`${limit} is null`)
      .onConflictDoNothing({ target: [apiKeys.workspaceId, apiKeys.formToken] })
      .returning({ id: apiKeys.id }),
    ...(draft.template === null ? [] : [insertIf(db, payloadTemplates, draft.template, wasInserted(draft))]),
    ...more,
  ]);
  if (inserted.length === 1) return ok(draft.created);
  const existing = await createdByForm(db, draft);
  if (existing !== undefined) return reject({ reason: "made_before", key: existing });
  if (!reached?.limit) throw new Error("The key was not inserted, although no limit is reached.");
  return reject({ reason: reached.limit });
}

/** Size of its template, in bytes. */
function bytesOf({ template }: Pick<Draft, "template">): number {
  return template === null ? 0 : Buffer.byteLength(JSON.stringify(template.template));
}

function wasInserted({ row }: Draft): SQL {
  return hasRow(apiKeys, eq(apiKeys.id, row.id));
}

async function createdByForm(db: ControlDatabase, { row }: Draft): Promise<ApiKey | undefined> {
  if (row.formToken === null) return undefined;
  const isSameForm = and(eq(apiKeys.workspaceId, row.workspaceId), eq(apiKeys.formToken, row.formToken));
  const existing = await selectKeys(db).where(isSameForm).get();
  return existing && toApiKey(existing);
}

async function composeRow(
  workspaceId: string,
  key: NewKey,
  by: Change,
  { formToken, successor }: { formToken: string | null; successor: KeyRow | null },
): Promise<Draft> {
  const value = composeKey(randomBytes);
  const secret = key.secret ? composeSecret(() => Buffer.from(randomBytes(SECRET_BYTES)).toString("base64url")) : null;
  const { first8, last4 } = keyEnds(value);
  const id = newId("key", by.nowMs);
  const { payloadTemplate, signalLimit = null } = key;
  const template =
    payloadTemplate === null || successor !== null
      ? null
      : { id, workspaceId, template: payloadTemplate, version: 1, replacedAt: null };
  const row: KeyRow = {
    id,
    workspaceId,
    name: key.name,
    endpointType: key.endpointType,
    keyHash: await digestHex(value),
    keyFirst8: first8,
    keyLast4: last4,
    secretHash: secret === null ? null : await digestHex(secret),
    templateId: successor === null ? (template?.id ?? null) : successor.templateId,
    createdAt: iso(by.nowMs),
    createdBy: by.actor,
    expiresAt: key.expiresAt,
    overlapEndsAt: null,
    deactivatedAt: null,
    firstKeyId: successor?.firstKeyId ?? id,
    successorOf: successor?.id ?? null,
    silentAfterDays: key.silentAfterDays ?? null,
    misfits: key.misfits ?? "reject",
    answer: key.answer ?? 202,
    formToken: formToken === null ? null : await digestHex(formToken),
  };
  return { row, template, created: { record: toApiKey({ ...row, payloadTemplate, signalLimit }), value, secret } };
}

function randomBytes(n: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(n));
}

/**
 * SQL expression: the limit that the workspace has reached, or null if it may have this key. A rotation may exceed the limit
 * of active keys, so that a leaked key can always be replaced. It may not if the old key has an active successor already:
 * otherwise repeated rotations of the same key would have no limit.
 */
function limitReached(db: ControlDatabase, { row, template }: Draft, nowMs: number): SQL<KeyLimit | null> {
  const { workspaceId, successorOf } = row;
  const ofWorkspace = eq(apiKeys.workspaceId, workspaceId);
  const active = and(ofWorkspace, isNull(apiKeys.deactivatedAt), gt(KEY_ENDS_AT, iso(nowMs)));
  const isExempt =
    successorOf === null ? sql`false` : sql`not ${hasRow(apiKeys, and(active, eq(apiKeys.successorOf, successorOf)))}`;
  // Ids begin with their creation time.
  const ofLastDay = and(ofWorkspace, gte(apiKeys.id, `key_${uuidv7From(nowMs - DAY_MS)}`));
  const templateBytes = storedTemplateBytes(db, workspaceId);
  const bytes = bytesOf({ template });
  return sql<KeyLimit | null>`case
    when ${db.$count(apiKeys, ofLastDay)} >= ${WORKSPACE_MAX_KEYS_A_DAY} then ${"too_many_keys_a_day" satisfies KeyLimit}
    when not ${isExempt} and ${db.$count(apiKeys, active)} >= ${WORKSPACE_MAX_ACTIVE_KEYS}
      then ${"too_many_keys" satisfies KeyLimit}
    when ${bytes} > 0 and ${templateBytes} + ${bytes} > ${WORKSPACE_TEMPLATES_MAX_BYTES}
      then ${"templates_too_large" satisfies KeyLimit}
    end`;
}

/**
 * Drops payload templates whose last key ended more than TEMPLATE_KEPT_DAYS ago. The batch of each new key runs this
 * statement before it checks the limits. A signal that still needs such a template becomes a dead letter.
 */
function dropOldTemplates(db: ControlDatabase, workspaceId: string, nowMs: number) {
  const before = iso(nowMs - TEMPLATE_KEPT_DAYS * DAY_MS);
  const isOld = or(lt(apiKeys.deactivatedAt, before), lt(KEY_ENDS_AT, before));
  const isNeeded = hasRow(apiKeys, and(eq(apiKeys.templateId, payloadTemplates.id), sql`${isOld} IS NOT true`));
  return db.delete(payloadTemplates).where(and(eq(payloadTemplates.workspaceId, workspaceId), sql`NOT ${isNeeded}`));
}
