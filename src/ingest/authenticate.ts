/**
 * Authenticates a call (spec §5): checks, cache of keys, look-up. The Quota Counter checks whether the key is active; an
 * isolate caches only that a key is deactivated.
 */
import { isExpired, isWellFormedKey, keyEnd } from "../domain/keys/api-key.ts";
import { networkOf } from "../domain/keys/client-network.ts";
import type { Refusal, UnauthorizedCause, Rejection } from "../domain/keys/refusal.ts";
import { configuredJurisdiction } from "../env.ts";
import { countFailure, countMiss, lookupWaitMs } from "../http/auth-failures.ts";
import { digest, digestHex } from "../platform/hashes.ts";
import { requireJurisdiction } from "../domain/jurisdiction.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { FULL_BUCKET, type RateBucket } from "../domain/quota/request-rate.ts";
import { Lru } from "../platform/lru.ts";
import { within } from "../platform/time-limit.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { compileTemplate, type CompiledTemplate, type PayloadMapping } from "../domain/accounts/payload-template.ts";
import type { EndpointType } from "../domain/signal/signal.ts";

type Authentication =
  | { ok: true; key: KnownKey }
  /** `key`: the key whose rejections list gets the refusal; null: unknown key. */
  | { ok: false; refusal: Refusal; key: KnownKey | null };

export interface Credentials {
  apiKey: string;
  secret: string | undefined;
  address: string | undefined;
}

/** Compared with the secret of an unknown key, so that the comparison takes the same time. */
const DUMMY_HASH = new Uint8Array(32);

/**
 * Checks in order (design §5): cached as deactivated, shape of the key, known, not expired, secret. The sender gets the same
 * 401 for each failure. Every failure except a wrong shape, which anybody can check, counts for the client's network.
 */
export async function authenticate(env: Env, credentials: Credentials, nowMs: number): Promise<Authentication> {
  const { apiKey, secret } = credentials;
  const ended = deactivatedKey(apiKey);
  if (ended !== undefined) return failed(env, credentials, "key_deactivated", ended, nowMs);
  if (!isWellFormedKey(apiKey)) return unauthorized("key_malformed", null);
  let key = cachedKey(apiKey, nowMs);
  if (key === undefined) {
    // A key that was known at its last look-up never waits.
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
  // The payload template is dropped some time after the key was deactivated (control/new-keys.ts).
  if (key.endpointType === "product_org" && key.template === null) {
    return { ok: false, refusal: await failDeactivated(env, credentials, key, nowMs), key };
  }
  if (key.secretHash === null) return { ok: true, key };
  if (secret === undefined) return failed(env, credentials, "secret_missing", key, nowMs);
  if (await matchesHash(secret, key.secretHash)) return { ok: true, key };
  return failed(env, credentials, "secret_wrong", key, nowMs);
}

/**
 * Refuses a key that the Quota Counter has reported as deactivated. Deactivation is final, so this cache entry never becomes
 * wrong.
 */
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

/** Spec §5.4: hashes the supplied value and compares it with the stored hash in constant time. */
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

// Facts of keys that an isolate caches: facts that never change, the configuration version of the workspace, and the
// isolate's statistics of calls. No entry can make a deactivated key acceptable. Unknown keys are not cached, so a new
// key works at once. Entries are plain data without promises, because requests of an isolate share them.

/** Lifetime of cached facts. A changed expiration takes effect within this time. */
export const KEY_CACHE_MS = 60_000;
/** Lifetime of cached facts while the database fails. The shortest overlap of a rotation is longer. */
export const KEY_STALE_MS = 10 * 60_000;
/**
 * Maximum weight of cached keys per isolate: about 300 bytes a key; each mapping of a payload template counts as one more
 * key.
 */
const KEY_CACHE_ENTRIES = 20_000;
/** Number of deactivated keys that an isolate caches, so that further calls with them cost nothing. */
const DEACTIVATED_KEYS = 5_000;

export interface KnownKey extends Omit<KeyFacts, "payloadTemplate"> {
  /** Payload template of a `product_org` key, otherwise null. */
  template: CompiledTemplate | null;
  /** Whether the Quota Counter has reported the key as deactivated. */
  isDeactivated: boolean;
  /** This isolate's estimate of the key's request rate, which refuses floods before they reach the object. */
  shedBucket: RateBucket;
  /** From this time one call of a flood goes to the counter, to ask whether the key is still active. */
  shedAskAtMs: number;
  /** Failed authentications that the counter does not know yet. */
  refused: Rejection[];
  /** Time by which a pending call reports `refused` to the counter; 0: none is pending. */
  refusedReportMs: number;
  /** Earliest time of the next report of `refused`, which limits the number of reports. */
  refusedPauseMs: number;
  /** Earliest time of the next configuration push, after one has started or failed. */
  configPushFromMs: number;
}

interface CachedKey {
  key: KnownKey;
  readAtMs: number;
  /** Until this time a pending or failed look-up refreshes the key; other calls use the cached facts. */
  askedUntilMs: number;
}

const entries = new Lru<string, CachedKey>(KEY_CACHE_ENTRIES);

/** Keys that the Quota Counter has reported as deactivated. Entries never expire; only the limit evicts them. */
const deactivated = new Lru<string, KnownKey>(DEACTIVATED_KEYS);

/** Returns the key if this isolate knows that it is deactivated. */
export function deactivatedKey(value: string): KnownKey | undefined {
  return deactivated.get(value);
}

function rememberDeactivated(value: string, key: KnownKey): void {
  if (deactivated.has(value)) return;
  deactivated.set(value, { ...key, isDeactivated: true, template: null, refused: [], refusedReportMs: 0 });
}

/** Returns the key if it was read less than KEY_CACHE_MS ago, or if another call is refreshing it. */
export function cachedKey(value: string, nowMs: number): KnownKey | undefined {
  const entry = entries.get(value);
  if (entry === undefined) return undefined;
  const ageMs = nowMs - entry.readAtMs;
  return ageMs < KEY_CACHE_MS || (nowMs < entry.askedUntilMs && ageMs < KEY_STALE_MS) ? entry.key : undefined;
}

/**
 * Looks a key up at the nearest replica, then at the primary. If the database fails, returns facts of up to KEY_STALE_MS
 * ago, because the cached facts never change.
 */
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
  const nearest = await findKeyFacts(d1.withSession("first-unconstrained"), hash);
  const facts =
    nearest.facts === null && !nearest.byPrimary
      ? (await findKeyFacts(d1.withSession("first-primary"), hash)).facts
      : nearest.facts;
  if (facts === null) return undefined;
  const { payloadTemplate, ...asRead } = facts;
  const template = payloadTemplate === null ? null : compileTemplate(payloadTemplate);
  // A refresh keeps the statistics; otherwise concurrent look-ups would each start with a full bucket.
  const statistics = entries.get(value)?.key ?? {
    isDeactivated: false,
    shedBucket: FULL_BUCKET,
    shedAskAtMs: 0,
    refused: [],
    refusedReportMs: 0,
    refusedPauseMs: 0,
    configPushFromMs: 0,
  };
  const key: KnownKey = Object.assign(statistics, asRead, { template });
  entries.set(value, { key, readAtMs: nowMs, askedUntilMs: 0 }, 1 + (template?.length ?? 0));
  return key;
}

// The edge's look-up of a key (design §5). Uses plain SQL, so that an isolate need not load the query builder before
// its first signal.

/**
 * Facts of a key that the edge caches. All but `configVersion` never change. The Quota Counter knows whether the key is
 * active.
 */
interface KeyFacts {
  keyId: string;
  workspaceId: string;
  endpointType: EndpointType;
  /** SHA-256 of the shared secret, 32 bytes; null: none needed. */
  secretHash: Uint8Array | null;
  endsAtMs: number | null;
  /** Null unless the key is of type `product_org`. */
  payloadTemplate: PayloadMapping[] | null;
  /** Version of the workspace's configuration, as of the look-up. */
  configVersion: number;
  /** Jurisdiction of the workspace's objects; empty: none. */
  jurisdiction: string;
}

interface KeyLookUp {
  facts: KeyFacts | null;
  /** Whether the primary answered: a replica may not know a new key yet. */
  byPrimary: boolean;
}

interface KeyFactsRow {
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

/** Finds a key by its hash, deactivated or not: the Quota Counter checks that when it counts. */
async function findKeyFacts(d1: D1Database | D1DatabaseSession, keyHash: string): Promise<KeyLookUp> {
  const { results, meta } = await d1
    .prepare(
      `SELECT k.id, workspace_id, endpoint_type, secret_hash, expires_at, overlap_ends_at, payload_template, config_version,
         jurisdiction
       FROM api_keys k JOIN workspaces w ON w.id = workspace_id WHERE key_hash = ?`,
    )
    .bind(keyHash)
    .run<KeyFactsRow>();
  const [row] = results;
  return { facts: row === undefined ? null : toKeyFacts(row), byPrimary: meta.served_by_primary === true };
}

function toKeyFacts(row: KeyFactsRow): KeyFacts {
  const endsAt = keyEnd({ expiresAt: row.expires_at, overlapEndsAt: row.overlap_ends_at });
  return {
    keyId: row.id,
    workspaceId: row.workspace_id,
    endpointType: row.endpoint_type,
    secretHash: row.secret_hash === null ? null : Uint8Array.from(Buffer.from(row.secret_hash, "hex")),
    endsAtMs: endsAt === null ? null : Date.parse(endsAt),
    payloadTemplate: row.payload_template === null ? null : (JSON.parse(row.payload_template) as PayloadMapping[]),
    configVersion: row.config_version,
    jurisdiction: row.jurisdiction,
  };
}
