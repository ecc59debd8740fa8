/**
 * API tokens of workspaces. The table holds only the SHA-256 and the masked parts of a token. Nothing about a
 * token is cached: each call reads its row from the primary, so a revocation takes effect at once and everywhere.
 */
import { and, desc, eq, gt, gte, inArray, isNull, lt, lte, not, or, sql, type SQL } from "drizzle-orm";
import { auditEntry, auditEntryForEach } from "./audit.ts";
import {
  apiTokens,
  members,
  hasRow,
  insertIf,
  iso,
  OPERATOR,
  type ControlContext,
  type ControlDatabase,
} from "./database.ts";
import { DAY_MS } from "../domain/duration.ts";
import { composeToken, keyEnds, maskedKey } from "../domain/keys/api-key.ts";
import { tokenStatus, type RevocationReason } from "../domain/keys/api-token.ts";
import { MANAGER_ROLES } from "../domain/keys/role.ts";
import { ok, reject, type Result } from "../domain/result.ts";
import { TOKEN_USE_STORED_MS, WORKSPACE_MAX_ACTIVE_TOKENS, WORKSPACE_MAX_TOKENS_A_DAY } from "../limits.ts";
import { digestHex } from "../platform/hashes.ts";
import { newId, uuidv7From } from "../platform/ids.ts";
import { listPage, type ListQuery, type ListPage } from "../platform/list-page.ts";

type TokenRow = typeof apiTokens.$inferSelect;

/** A token as it is shown. Times are ISO 8601 UTC. database.ts explains the stored fields. */
export interface ApiToken extends Omit<TokenRow, "tokenHash" | "tokenFirst8" | "tokenLast4" | "formToken"> {
  /** The token's first 8 characters, an ellipsis, its last 4. */
  maskedToken: string;
}

function toApiToken({ tokenHash: _h, formToken: _f, tokenFirst8, tokenLast4, ...shown }: TokenRow): ApiToken {
  return { ...shown, maskedToken: maskedKey({ first8: tokenFirst8, last4: tokenLast4 }) };
}

export type NewToken = Pick<ApiToken, "name" | "scopes" | "expiresAt">;

export interface CreatedToken {
  record: ApiToken;
  value: string;
}

/** The limits of a workspace that may reject a new token; limits.ts has the numbers. */
export const TOKEN_LIMITS = ["too_many_tokens", "too_many_tokens_a_day"] as const;
type TokenLimit = (typeof TOKEN_LIMITS)[number];

type TokenRejection =
  | { reason: TokenLimit }
  /** The creator is no owner or admin any more. */
  | { reason: "not_manager" }
  /** The same form has already created this token, whose value cannot be shown again. */
  | { reason: "made_before"; token: ApiToken };

/**
 * @param formToken idempotency token of the form: of several calls with the same token, even concurrent ones, only the
 * first creates an API token. Null creates one on every call.
 */
export async function createToken(
  { db, workspaceId, by }: ControlContext,
  { name, scopes, expiresAt }: NewToken,
  formToken: string | null = null,
): Promise<Result<CreatedToken, TokenRejection>> {
  const value = composeToken((n) => crypto.getRandomValues(new Uint8Array(n)));
  const { first8, last4 } = keyEnds(value);
  const row: TokenRow = {
    id: newId("tok", by.nowMs),
    workspaceId,
    name,
    tokenHash: await digestHex(value),
    tokenFirst8: first8,
    tokenLast4: last4,
    scopes,
    createdAt: iso(by.nowMs),
    createdBy: by.actor,
    expiresAt,
    revokedAt: null,
    revokedReason: null,
    lastUsedAt: null,
    formToken: formToken === null ? null : await digestHex(formToken),
  };
  const rejection = rejectionOf(db, row, by.nowMs);
  const detail = { name, scopes, expires_at: expiresAt };
  const entry = { workspaceId, action: "token.created", target: row.id, detail } as const;
  const [[decided], inserted] = await db.batch([
    db.select({ rejection }).from(sql`(select 1)`),
    insertIf(db, apiTokens, row, sql`${rejection} is null`)
      .onConflictDoNothing({ target: [apiTokens.workspaceId, apiTokens.formToken] })
      .returning({ id: apiTokens.id }),
    auditEntry(db, by, entry, hasRow(apiTokens, eq(apiTokens.id, row.id))),
  ]);
  if (inserted.length === 1) return ok({ record: toApiToken(row), value });
  const existing = await createdByForm(db, row);
  if (existing !== undefined) return reject({ reason: "made_before", token: existing });
  if (!decided?.rejection) throw new Error("The token was not inserted, although nothing rejects it.");
  return reject({ reason: decided.rejection });
}

/** SQL expression: why the workspace may not have this token; null if it may. */
function rejectionOf(db: ControlDatabase, { workspaceId, createdBy }: TokenRow, nowMs: number) {
  type Rejection = TokenLimit | "not_manager";
  const ofWorkspace = eq(apiTokens.workspaceId, workspaceId);
  // Ids begin with their creation time.
  const ofLastDay = and(ofWorkspace, gte(apiTokens.id, `tok_${uuidv7From(nowMs - DAY_MS)}`));
  return sql<Rejection | null>`case
    when not ${createdBy === OPERATOR ? sql`true` : isManager(workspaceId, createdBy)} then ${"not_manager" satisfies Rejection}
    when ${db.$count(apiTokens, ofLastDay)} >= ${WORKSPACE_MAX_TOKENS_A_DAY}
      then ${"too_many_tokens_a_day" satisfies Rejection}
    when ${db.$count(apiTokens, and(ofWorkspace, isActive(nowMs)))} >= ${WORKSPACE_MAX_ACTIVE_TOKENS}
      then ${"too_many_tokens" satisfies Rejection}
    end`;
}

function isActive(nowMs: number): SQL | undefined {
  return and(isNull(apiTokens.revokedAt), or(isNull(apiTokens.expiresAt), gt(apiTokens.expiresAt, iso(nowMs))));
}

async function createdByForm(db: ControlDatabase, { workspaceId, formToken }: TokenRow): Promise<ApiToken | undefined> {
  if (formToken === null) return undefined;
  const isSameForm = and(eq(apiTokens.workspaceId, workspaceId), eq(apiTokens.formToken, formToken));
  const existing = await db.select().from(apiTokens).where(isSameForm).get();
  return existing && toApiToken(existing);
}

/** Active, expired and revoked tokens, newest first. */
export async function listTokens(
  db: ControlDatabase,
  workspaceId: string,
  listQuery: ListQuery,
): Promise<ListPage<ApiToken>> {
  const rows = await db
    .select()
    .from(apiTokens)
    .where(
      and(
        eq(apiTokens.workspaceId, workspaceId),
        listQuery.cursor === null ? undefined : lt(apiTokens.id, listQuery.cursor),
      ),
    )
    .orderBy(desc(apiTokens.id))
    .limit(listQuery.limit + 1);
  return listPage(rows.map(toApiToken), listQuery, (token) => token.id);
}

/** @param hash SHA-256 of the token, hexadecimal. Null: it is unknown, expired or revoked. */
export async function findActiveToken(db: ControlDatabase, hash: string, nowMs: number): Promise<ApiToken | null> {
  const row = await db.select().from(apiTokens).where(eq(apiTokens.tokenHash, hash)).get();
  return row === undefined || tokenStatus(row, nowMs) !== "Active" ? null : toApiToken(row);
}

/** Stores the time of a token's use, at most once in TOKEN_USE_STORED_MS. */
export async function storeTokenUse(db: ControlDatabase, tokenId: string, nowMs: number): Promise<void> {
  const { lastUsedAt } = apiTokens;
  const isDue = or(isNull(lastUsedAt), lte(lastUsedAt, iso(nowMs - TOKEN_USE_STORED_MS)));
  await db
    .update(apiTokens)
    .set({ lastUsedAt: iso(nowMs) })
    .where(and(eq(apiTokens.id, tokenId), isDue));
}

/** Whether `storeTokenUse` would store a use now, as of the row that was read. */
export function isUseDue({ lastUsedAt }: ApiToken, nowMs: number): boolean {
  return lastUsedAt === null || nowMs - Date.parse(lastUsedAt) >= TOKEN_USE_STORED_MS;
}

/** Idempotent. Null: the workspace has no such token. */
export async function revokeToken(context: ControlContext, tokenId: string): Promise<ApiToken | null> {
  const { db, workspaceId } = context;
  const isToken = and(eq(apiTokens.workspaceId, workspaceId), eq(apiTokens.id, tokenId));
  const detail = sql`json_object('name', ${apiTokens.name})`;
  await db.batch(revokeWhere(context, and(isToken, isNull(apiTokens.revokedAt)), "requested", detail));
  const token = await db.select().from(apiTokens).where(isToken).get();
  return token === undefined ? null : toApiToken(token);
}

/**
 * Statements that revoke the active tokens of a member without the role of owner or admin. They end the batch that changes or
 * removes the member. The tokens stay revoked if the member gets the role back.
 */
export function revokeTokensOf(context: ControlContext, email: string) {
  const { workspaceId, by } = context;
  const ofMember = and(eq(apiTokens.workspaceId, workspaceId), eq(apiTokens.createdBy, email));
  const ending = and(ofMember, isActive(by.nowMs), not(isManager(workspaceId, email)));
  const detail = sql`json_object('name', ${apiTokens.name}, 'reason', 'role_lost')`;
  return revokeWhere(context, ending, "role_lost", detail);
}

function revokeWhere(
  { db, workspaceId, by }: ControlContext,
  condition: SQL | undefined,
  revokedReason: RevocationReason,
  detail: SQL,
) {
  const entry = { workspaceId, action: "token.revoked", target: sql`${apiTokens.id}`, detail } as const;
  return [
    auditEntryForEach(db, by, entry, sql`${apiTokens} where ${condition}`),
    db
      .update(apiTokens)
      .set({ revokedAt: iso(by.nowMs), revokedReason })
      .where(condition),
  ] as const;
}

function isManager(workspaceId: string, email: string): SQL {
  const isMember = and(eq(members.workspaceId, workspaceId), eq(members.email, email));
  return hasRow(members, and(isMember, inArray(members.role, MANAGER_ROLES)));
}
