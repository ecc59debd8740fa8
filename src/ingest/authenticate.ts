/**
 * Authenticates a call (spec §5). Only the Quota Counter knows that a key is active; an isolate caches that a key is
 * deactivated.
 */
import { isExpired, isWellFormedKey, keyEnd } from "../domain/keys/api-key.ts";
import { networkOf } from "../domain/keys/client-network.ts";
import type { Refusal, UnauthorizedCause, Rejection } from "../domain/keys/refusal.ts";
import { configuredJurisdiction } from "../env.ts";
import { countFailure, countMiss, lookupWaitMs } from "../http/auth-failures.ts";
import { callsOf, type WorkspaceCalls } from "../http/workspace-share.ts";
import { digest, digestHex } from "../platform/hashes.ts";
import { requireJurisdiction } from "../domain/jurisdiction.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { Lru } from "../platform/lru.ts";
import { within } from "../platform/time-limit.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { compileTemplate, type PayloadMapping } from "../domain/accounts/payload-template.ts";
import type { EndpointType } from "../domain/signal/signal.ts";

type Authentication =
  | { ok: true; key: KnownKey }
  /** `key`: its rejections list gets the refusal; null: unknown key. */
  | { ok: false; refusal: Refusal; key: KnownKey | null };

export interface Credentials {
  apiKey: string;
  secret: string | undefined;
  address: string | undefined;
}

/** Compared for an unknown key, so that the answer takes the same time. */
const DUMMY_HASH = new Uint8Array(32);

/**
 * Checks in the order of design §5. Each failure gets the same 401 and counts for the client's network. A wrong shape
 * does not count, because anybody can check it.
 */
export async function authenticate(env: Env, credentials: Credentials, nowMs: number): Promise<Authentication> {
  const { apiKey, secret } = credentials;
  const ended = deactivatedKey(apiKey);
  if (ended !== undefined) return failed(env, credentials, "key_deactivated", ended, nowMs);
  if (!isWellFormedKey(apiKey)) return unauthorized("key_malformed", null);
  let key = cachedKey(apiKey, nowMs);
  if (key === undefined) {
    // A known key never waits.
    const waitMs = entries.has(apiKey) ? 0 : lookupWaitMs(networkOf(credentials.address), nowMs);
    if (waitMs > 0) return tooManyFailures(waitMs, null);
    key = await lookUpKey(env.DB, apiKey, nowMs);
  }
  if (key === undefined) {
    countMiss(nowMs);
    if (secret !== undefined) await matchesHash(secret, DUMMY_HASH);
    return failed(env, credentials, "key_unknown", null, nowMs);
  }
  // Before any answer that its Quota Counter would record.
  requireJurisdiction(configuredJurisdiction(env), key.jurisdiction);
  if (isExpired(key.endsAtMs, nowMs)) return failed(env, credentials, "key_expired", key, nowMs);
  // The template is dropped some time after the deactivation (control/new-keys.ts).
  if (key.endpointType === "product_org" && key.template === null) {
    return { ok: false, refusal: await failDeactivated(env, credentials, key, nowMs), key };
  }
  if (key.secretHash === null) return { ok: true, key };
  if (secret === undefined) return failed(env, credentials, "secret_missing", key, nowMs);
  if (await matchesHash(secret, key.secretHash)) return { ok: true, key };
  return failed(env, credentials, "secret_wrong", key, nowMs);
}

/** Deactivation is final, so the cache entry never becomes wrong. */
export async function failDeactivated(
  env: Env,
  credentials: Credentials,
  key: KnownKey,
  nowMs: number,
): Promise<Refusal> {
  rememberDeactivated(credentials.apiKey, key);
  const { refusal } = await failed(env, credentials, "key_deactivated", key, nowMs);
  return refusal;
}

async function failed(
  env: Env,
  credentials: Credentials,
  cause: UnauthorizedCause,
  key: KnownKey | null,
  nowMs: number,
): Promise<Authentication & { ok: false }> {
  const waitMs = await countFailure(env.AUTH_FAILURES, networkOf(credentials.address), nowMs);
  return waitMs > 0 ? tooManyFailures(waitMs, key) : unauthorized(cause, key);
}

/** Spec §5.4, in constant time. */
async function matchesHash(secret: string, hash: Uint8Array): Promise<boolean> {
  return crypto.subtle.timingSafeEqual(await digest(secret), hash);
}

function unauthorized(cause: UnauthorizedCause, key: KnownKey | null): Authentication & { ok: false } {
  return { ok: false, refusal: { code: "unauthorized", cause }, key };
}

const TOO_MANY_FAILURES =
  "Too many calls with an unknown key, or with a missing or wrong secret, came from this network or to this server. Send " +
  "again after Retry-After seconds.";

function tooManyFailures(retryAfterMs: number, key: KnownKey | null): Authentication & { ok: false } {
  return { ok: false, refusal: { code: "rate_limited", retryAfterMs, detail: TOO_MANY_FAILURES }, key };
}

// The cache of an isolate: facts of keys, which never change, the configuration version of the workspace, and
// statistics of calls. No entry makes a deactivated key acceptable. Unknown keys are not cached, so a new key works at
// once. Requests share the entries, so they are plain data without promises.

/** A changed expiration takes effect within this time. */
export const KEY_CACHE_MS = 60_000;
/** Cached facts are used up to this age while the database fails. The shortest overlap of a rotation is longer. */
export const KEY_STALE_MS = 10 * 60_000;
/** About 300 bytes each; each mapping of a payload template counts as one more. */
const KEY_CACHE_ENTRIES = 20_000;
const DEACTIVATED_KEYS = 5_000;

export interface KnownKey extends ReturnType<typeof keyFacts> {
  isDeactivated: boolean;
  /** Shared by all keys of the workspace. */
  calls: WorkspaceCalls;
  /** When one call of a flood asks the counter whether the key is still active. */
  shedAskAtMs: number;
  /** Failed authentications that the counter does not know yet. */
  refused: Rejection[];
  /** When a pending call reports `refused` to the counter, at the latest; 0: none is pending. */
  refusedReportMs: number;
  /** The next report waits until then: a deactivated key has one a minute. */
  refusedPauseMs: number;
  configPushFromMs: number;
}

interface CachedKey {
  key: KnownKey;
  readAtMs: number;
  /** A pending or failed look-up refreshes the key until then; other calls use the cached facts. */
  askedUntilMs: number;
}

const entries = new Lru<string, CachedKey>(KEY_CACHE_ENTRIES);

/** Entries never expire; only the limit evicts them. */
const deactivated = new Lru<string, KnownKey>(DEACTIVATED_KEYS);

export function deactivatedKey(value: string): KnownKey | undefined {
  return deactivated.get(value);
}

function rememberDeactivated(value: string, key: KnownKey): void {
  if (deactivated.has(value)) return;
  deactivated.set(value, { ...key, isDeactivated: true, template: null, refused: [], refusedReportMs: 0 });
}

/** A key that was read less than KEY_CACHE_MS ago, or that another call is refreshing. */
export function cachedKey(value: string, nowMs: number): KnownKey | undefined {
  const entry = entries.get(value);
  if (entry === undefined) return undefined;
  const ageMs = nowMs - entry.readAtMs;
  return ageMs < KEY_CACHE_MS || (nowMs < entry.askedUntilMs && ageMs < KEY_STALE_MS) ? entry.key : undefined;
}

/** Asks the nearest replica, then the primary. If the database fails, facts of up to KEY_STALE_MS ago are used. */
export async function lookUpKey(d1: D1Database, value: string, nowMs: number): Promise<KnownKey | undefined> {
  const entry = entries.get(value);
  if (entry !== undefined) entry.askedUntilMs = nowMs + CALL_TIMEOUT_MS;
  try {
    return await within(CALL_TIMEOUT_MS, readKey(d1, value, nowMs));
  } catch (error) {
    if (entry === undefined || nowMs - entry.readAtMs >= KEY_STALE_MS) throw error;
    logEvent("key_lookup_failed", { workspace: entry.key.workspaceId, error: errorText(error) });
    return entry.key;
  }
}

async function readKey(d1: D1Database, value: string, nowMs: number): Promise<KnownKey | undefined> {
  const hash = await digestHex(value);
  const nearest = await selectKey(d1.withSession("first-unconstrained"), hash);
  // A replica may not know a new key yet.
  const isUnsure = nearest.results.length === 0 && nearest.meta.served_by_primary !== true;
  const { results } = isUnsure ? await selectKey(d1.withSession("first-primary"), hash) : nearest;
  const [row] = results;
  if (row === undefined) return undefined;
  // Kept at a refresh; otherwise concurrent look-ups would each start with a full bucket.
  const statistics = entries.get(value)?.key ?? {
    isDeactivated: false,
    calls: callsOf(row.workspace_id),
    shedAskAtMs: 0,
    refused: [],
    refusedReportMs: 0,
    refusedPauseMs: 0,
    configPushFromMs: 0,
  };
  const key: KnownKey = Object.assign(statistics, keyFacts(row));
  entries.set(value, { key, readAtMs: nowMs, askedUntilMs: 0 }, 1 + (key.template?.length ?? 0));
  return key;
}

interface KeyRow {
  id: string;
  workspace_id: string;
  endpoint_type: EndpointType;
  secret_hash: string | null;
  expires_at: string | null;
  overlap_ends_at: string | null;
  payload_template: string | null;
  config_version: number;
  jurisdiction: string;
}

/**
 * Finds deactivated keys too, because the Quota Counter checks that. Plain SQL, so that an isolate need not load the
 * query builder before its first signal.
 */
function selectKey(session: D1DatabaseSession, keyHash: string): Promise<D1Result<KeyRow>> {
  return session
    .prepare(
      `SELECT k.id, workspace_id, endpoint_type, secret_hash, expires_at, overlap_ends_at, payload_template, config_version,
         jurisdiction
       FROM api_keys k JOIN workspaces w ON w.id = workspace_id WHERE key_hash = ?`,
    )
    .bind(keyHash)
    .run<KeyRow>();
}

function keyFacts(row: KeyRow) {
  const endsAt = keyEnd({ expiresAt: row.expires_at, overlapEndsAt: row.overlap_ends_at });
  const template = row.payload_template;
  return {
    keyId: row.id,
    workspaceId: row.workspace_id,
    endpointType: row.endpoint_type,
    /** Null: no secret is needed. */
    secretHash: row.secret_hash === null ? null : Uint8Array.from(Buffer.from(row.secret_hash, "hex")),
    endsAtMs: endsAt === null ? null : Date.parse(endsAt),
    /** Null: not a `product_org` key, or dropped. */
    template: template === null ? null : compileTemplate(JSON.parse(template) as PayloadMapping[]),
    configVersion: row.config_version,
    jurisdiction: row.jurisdiction,
  };
}
