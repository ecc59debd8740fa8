/**
 * Makes API keys (spec §3.1; design §5). The value and the secret leave this file once, in a `CreatedKey`.
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
import { isKey, toApiKey, type ApiKey } from "./stored-keys.ts";
import { apiKeys } from "./control-schema.ts";
import { and, eq, exists, sql } from "drizzle-orm";

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
  /** How long the old key goes on; 0: the caller ends it after the rotation. */
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
): Promise<CreatedKey> {
  const draft = await composeRow(workspaceId, key, by);
  await db.batch([insertKey(db, draft), creationEntry(db, draft, key, by)]);
  return draft.created;
}

/**
 * Makes a key once for each form: of several calls with one token, also at the same time, one makes the key.
 *
 * @param formToken random text of the form that is sent.
 */
export async function createKeyOnce(
  db: ControlDatabase,
  workspaceId: string,
  key: NewKey,
  formToken: string,
  by: Change,
): Promise<Result<CreatedKey, MadeBefore>> {
  const draft = await composeRow(workspaceId, key, by, { formToken });
  const [inserted] = await db.batch([insertKey(db, draft), creationEntry(db, draft, key, by)]);
  return inserted.length === 1 ? ok(draft.created) : madeBefore(db, draft);
}

/**
 * Makes a successor with the same settings (design §5); the old key ends when the overlap does, or when it would have
 * anyway, and the successor never with it. The overlap must be longer than key facts are cached; with none, deactivate
 * the old key after this.
 */
export async function rotateKey(
  db: ControlDatabase,
  workspaceId: string,
  { keyId, overlapMs, expiresAt, formToken }: Rotation,
  by: Change,
): Promise<Result<CreatedKey, { reason: "not_found" | "inactive" } | MadeBefore>> {
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
  const [inserted] = await db.batch([
    insertKey(db, draft),
    auditEntry(db, by, { workspaceId, action: "key.rotated", target: old.id, detail }, isMade),
    db
      .update(apiKeys)
      .set({ overlapEndsAt: overlapMs === 0 ? old.overlapEndsAt : neverLater })
      .where(and(isKey(workspaceId, keyId), isMade)),
  ]);
  return inserted.length === 1 ? ok(draft.created) : madeBefore(db, draft);
}

interface Draft {
  row: typeof apiKeys.$inferSelect;
  created: CreatedKey;
}

/** The statement that inserts a key; it writes nothing where the same form has made one. */
function insertKey(db: ControlDatabase, { row }: Draft) {
  const sameForm = [apiKeys.workspaceId, apiKeys.formToken];
  return db.insert(apiKeys).values(row).onConflictDoNothing({ target: sameForm }).returning({ id: apiKeys.id });
}

function wasInserted(db: ControlDatabase, { row }: Draft) {
  return exists(db.select({ id: apiKeys.id }).from(apiKeys).where(eq(apiKeys.id, row.id)));
}

function creationEntry(db: ControlDatabase, draft: Draft, key: NewKey, by: Change) {
  const { id, workspaceId, name, endpointType, expiresAt } = draft.row;
  const detail = { name, endpoint_type: endpointType, expires_at: expiresAt, has_secret: key.secret };
  return auditEntry(db, by, { workspaceId, action: "key.created", target: id, detail }, wasInserted(db, draft));
}

async function madeBefore(db: ControlDatabase, { row }: Draft): Promise<Result<never, MadeBefore>> {
  const made = await madeBy(db, row);
  if (made === undefined) throw new Error("The key was not inserted, and no other has its form's token.");
  return refuse({ reason: "made_before", key: toApiKey(made) });
}

/** The key that the row's form has made. */
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
  return { row, created: { record: toApiKey(row), value, secret } };
}

function randomBytes(n: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(n));
}
