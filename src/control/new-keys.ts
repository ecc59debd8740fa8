/**
 * Makes API keys (spec §3.1; design §5). The value and the secret leave this file once, in a `CreatedKey`. The limits of a
 * workspace are enforced by the statement that inserts the key, so that concurrent calls cannot pass them together.
 */
import { composeKey, keyEnds, keyStatus } from "../domain/keys/api-key.ts";
import type { PayloadMapping } from "../domain/accounts/payload-template.ts";
import { ok, refuse, type Result } from "../domain/result.ts";
import { composeSecret } from "../domain/keys/shared-secret.ts";
import type { EndpointType } from "../domain/signal/signal.ts";
import { newId } from "../platform/ids.ts";
import { auditEntry } from "./audit.ts";
import { iso, type Change, type ControlDatabase } from "./database.ts";
import { digestHex } from "../platform/hashes.ts";
import { dropOldTemplates, limitReached, type KeyLimit, type LimitReached } from "./key-limits.ts";
import { isKey, toApiKey, type ApiKey } from "./stored-keys.ts";
import { apiKeys } from "./control-schema.ts";
import { and, eq, exists, sql, type SQL } from "drizzle-orm";

const SECRET_BYTES = 32;

export interface NewKey {
  name: string;
  endpointType: EndpointType;
  expiresAt: string | null;
  /** Whether a shared secret is generated with the key. */
  secret: boolean;
  payloadTemplate: PayloadMapping[] | null;
  /** Days without a call after which somebody wants to know; a successor takes it over. */
  silentAfterDays?: number | null;
}

export interface CreatedKey {
  record: ApiKey;
  /** The full key, shown once. */
  value: string;
  /** The shared secret, shown once. */
  secret: string | null;
}

/** What was asked for has been done already: `key` was made by the same form, and cannot be shown again. */
export interface MadeBefore {
  reason: "made_before";
  key: ApiKey;
}

export interface Rotation {
  keyId: string;
  /** How long the old key goes on; 0: it ends now, and the caller also deactivates it, see rotateKey. */
  overlapMs: number;
  /** The successor's expiration; undefined: what was asked for the old key. */
  expiresAt?: string | null | undefined;
  /** Random text of the form that is sent, for one successor per form; null: every call makes one. */
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
 * Makes one key for each form: of several calls with one token, also concurrent ones, only the first makes a key.
 *
 * @param formToken random text of the form that is sent.
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
 * Makes a successor with the same settings (design §5). The old key ends with the overlap, or at its own earlier end; the
 * successor does not end with it. The overlap must be longer than key facts are cached. Without an overlap the caller
 * deactivates the old key after this, so that it ends at once. If the caller fails before that, the old key ends when the
 * cached facts are read again.
 */
export async function rotateKey(
  db: ControlDatabase,
  workspaceId: string,
  { keyId, overlapMs, expiresAt, formToken }: Rotation,
  by: Change,
): Promise<Result<CreatedKey, { reason: "not_found" | "inactive" } | MadeBefore | LimitReached>> {
  const old = await db.select().from(apiKeys).where(isKey(workspaceId, keyId)).get();
  if (old === undefined) return refuse({ reason: "not_found" });
  const settings = { ...old, secret: old.secretHash !== null };
  if (expiresAt !== undefined) settings.expiresAt = expiresAt;
  const draft = await composeRow(workspaceId, settings, by, { formToken, successorOf: old.id });
  // Asked before the key's status: a rotation without overlap, sent again, finds the old key ended by the first.
  const before = formToken === null ? undefined : await madeBy(db, draft.row);
  if (before !== undefined) return refuse({ reason: "made_before", key: toApiKey(before) });
  if (keyStatus(toApiKey(old), by.nowMs) === "Inactive") return refuse({ reason: "inactive" });

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

/** The statements that insert a key within the limits, for the beginning of a batch: the second gives the limit reached. */
function insertion(db: ControlDatabase, draft: Draft, nowMs: number) {
  const { row, template } = draft;
  const limit = limitReached(db, { ...row, template }, nowMs);
  return [
    dropOldTemplates(db, row.workspaceId, nowMs),
    db.select({ limit }).from(sql`(select 1)`),
    insertKey(db, draft, limit),
  ] as const;
}

/** The statement that inserts a key. It writes nothing where a limit is reached, or where the same form has made a key. */
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

/** The key that the same form has made. */
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
