/**
 * Authenticates a call (spec §5). Only the Quota Counter knows that a key is active; an isolate caches that a key is
 * deactivated.
 */
import { isExpired, isWellFormedKey, keyEnd } from "../domain/keys/api-key.ts";
import { networkOf } from "../domain/keys/client-network.ts";
import { isBefore } from "../domain/duration.ts";
import type { Rejection, UnauthorizedCause, RejectionEntry } from "../domain/keys/rejection.ts";
import { configuredJurisdiction, requireJurisdiction } from "../env.ts";
import { countFailure, countMiss, lookupWaitMs } from "../http/auth-failures.ts";
import { callsOf, type WorkspaceCalls } from "../http/workspace-share.ts";
import { digest, digestHex } from "../platform/hashes.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { Lru } from "../platform/lru.ts";
import { within } from "../platform/time-limit.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import {
  compileKeyTemplate,
  type CompiledKeyTemplate,
  type KeyTemplate,
  type MisfitHandling,
  type SuccessStatus,
} from "../domain/template/key-template.ts";
import type { EndpointType } from "../domain/signal/signal.ts";

export type Authentication =
  | { ok: true; key: KnownKey }
  /** `key`: its rejections list gets the rejection; null: unknown key. */
  | { ok: false; rejection: Rejection; key: KnownKey | null };

export interface Credentials {
  apiKey: string;
  secret: string | undefined;
  address: string | undefined;
}

/** Work that the answer does not wait for. */
export type Background = Pick<ExecutionContext, "waitUntil">;

/** Until a workspace has moved. */
export const CLOSED = { code: "unavailable", retryAfterMs: 60_000 } as const;

/** Compared for an unknown key, so that the answer takes the same time. */
const DUMMY_HASH = new Uint8Array(32);

/**
 * Checks the shape of the key, then that it is known and not expired, then the secret. Each failure gets the same 401 and counts for the client's network. A wrong shape
 * does not count, because anybody can check it.
 */
export async function authenticate(
  env: Env,
  credentials: Credentials,
  nowMs: number,
  background: Background,
): Promise<Authentication> {
  const { apiKey, secret } = credentials;
  const ended = deactivatedKey(apiKey);
  if (ended !== undefined) return failed(env, credentials, "key_deactivated", ended, nowMs);
  if (!isWellFormedKey(apiKey)) return unauthorized("key_malformed", null);
  let key = cachedKey(apiKey, nowMs);
  if (key === undefined) {
    // A known key never waits.
    const waitMs = entries.has(apiKey) ? 0 : lookupWaitMs(networkOf(credentials.address), nowMs);
    if (waitMs > 0) return tooManyFailures(waitMs, null);
    key = await lookUpKey(env.DB, apiKey, nowMs, background);
  }
  if (key === undefined) return failUnknown(env, credentials, nowMs);
  // Before any answer that its Quota Counter would record.
  requireJurisdiction(configuredJurisdiction(env), key.jurisdiction);
  if (isExpired(key.endsAtMs, nowMs)) return failed(env, credentials, "key_expired", key, nowMs);
  // The template is dropped some time after the deactivation (d1/new-keys.ts).
  if (key.endpointType === "product_org" && key.template === null) {
    return { ok: false, rejection: await failDeactivated(env, credentials, key, nowMs), key };
  }
  if (key.secretHash === null) return { ok: true, key };
  if (secret === undefined) return failed(env, credentials, "secret_missing", key, nowMs);
  if (await matchesHash(secret, key.secretHash)) return { ok: true, key };
  return failed(env, credentials, "secret_wrong", key, nowMs);
}

/** The counter knows of a rotation that the copy of the fields does not know yet. */
export async function failEnded(env: Env, credentials: Credentials, key: KnownKey, nowMs: number): Promise<Rejection> {
  return (await failed(env, credentials, "key_expired", key, nowMs)).rejection;
}

/**
 * Asks D1, after the Quota Counter has answered `gone` or `closed`: the workspace has ended or is closed, or its keys have moved to another
 * one. The key is never remembered as deactivated, because an import may bring it back. The call with a key of a closed workspace is no failed
 * authentication. @throws if D1 does not answer.
 */
export async function followKey(
  env: Env,
  credentials: Credentials,
  { key: before, answer }: { key: KnownKey; answer: "gone" | "closed" },
  nowMs: number,
  background: Background,
): Promise<Authentication> {
  const { apiKey } = credentials;
  entries.delete(apiKey);
  const named = { value: apiKey, hash: await digestHex(apiKey) };
  const key = await within(CALL_TIMEOUT_MS, readKey(env.DB, named, nowMs, background, "first-primary"));
  if (key !== undefined && key.workspaceId !== before.workspaceId) {
    requireJurisdiction(configuredJurisdiction(env), key.jurisdiction);
    return { ok: true, key };
  }
  if (answer === "closed") return { ok: false, rejection: CLOSED, key: before };
  entries.delete(apiKey);
  return failUnknown(env, credentials, nowMs);
}

/** A workspace under import answers 503: its keys are known once the import is finished. */
async function failUnknown(env: Env, credentials: Credentials, nowMs: number): Promise<Authentication & { ok: false }> {
  const { apiKey, secret } = credentials;
  countMiss(nowMs);
  if (secret !== undefined) await matchesHash(secret, DUMMY_HASH);
  const isImported = await within(CALL_TIMEOUT_MS, isBeingImported(env.DB, await digestHex(apiKey)));
  if (isImported) return { ok: false, rejection: CLOSED, key: null };
  return failed(env, credentials, "key_unknown", null, nowMs);
}

/** Deactivation is final, so the cache entry never becomes wrong. */
export async function failDeactivated(
  env: Env,
  credentials: Credentials,
  key: KnownKey,
  nowMs: number,
): Promise<Rejection> {
  deactivated.set(credentials.apiKey, {
    ...key,
    isDeactivated: true,
    template: null,
    rejected: [],
    rejectedReportMs: 0,
  });
  const { rejection } = await failed(env, credentials, "key_deactivated", key, nowMs);
  return rejection;
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
  return { ok: false, rejection: { code: "unauthorized", cause }, key };
}

const TOO_MANY_FAILURES =
  "Too many calls with an unknown key, or with a missing or wrong secret, came from this network or to this server. Send " +
  "again after Retry-After seconds.";

function tooManyFailures(retryAfterMs: number, key: KnownKey | null): Authentication & { ok: false } {
  return { ok: false, rejection: { code: "rate_limited", retryAfterMs, detail: TOO_MANY_FAILURES }, key };
}

// The cache of an isolate: fields of keys, which never change, the configuration version of the workspace, and
// statistics of calls. No entry makes a deactivated key acceptable. Unknown keys are not cached, so a new key works at
// once. Requests share the entries, so they are plain data without promises.

/** A changed expiration takes effect within this time. */
export const KEY_CACHE_MS = 60_000;
/** The fields of an older copy are used if D1 fails or takes longer. */
export const KEY_LOOKUP_MS = 2_000;
/** About 300 bytes each; each mapping of a payload template counts as one more. */
const KEY_CACHE_ENTRIES = 20_000;
const DEACTIVATED_KEYS = 5_000;

export interface KnownKey extends ReturnType<typeof keyRecord> {
  isDeactivated: boolean;
  /** When D1 gave the fields. */
  readAtMs: number;
  /** Shared by all keys of the workspace. */
  calls: WorkspaceCalls;
  /** When one call of a flood asks the counter whether the key is still active. */
  shedAskAtMs: number;
  /** Failed authentications that the counter does not know yet. */
  rejected: RejectionEntry[];
  /** When a pending call reports `rejected` to the counter, at the latest; 0: none is pending. */
  rejectedReportMs: number;
  /** The next report waits until then: a deactivated key has one in 25 seconds. */
  rejectedPauseMs: number;
  configPushFromMs: number;
  /** Until then the key rejects misfits, because too many wait. */
  misfitsFullUntilMs: number;
}

interface CachedKey {
  key: KnownKey;
  /** A pending or failed look-up refreshes the key until then; other calls use the cached fields. */
  askedUntilMs: number;
  /** From then on, the next look-up renews the copy in the cache of the data centre. */
  copyFromMs: number;
}

const entries = new Lru<string, CachedKey>(KEY_CACHE_ENTRIES);

/** Entries never expire; only the limit evicts them. */
const deactivated = new Lru<string, KnownKey>(DEACTIVATED_KEYS);

export function deactivatedKey(value: string): KnownKey | undefined {
  return deactivated.get(value);
}

/** A key that was read less than KEY_CACHE_MS ago, or that another call is refreshing. */
export function cachedKey(value: string, nowMs: number): KnownKey | undefined {
  const entry = entries.get(value);
  if (entry === undefined) return undefined;
  return !isCopy(entry.key, nowMs) || isBefore(entry.askedUntilMs, nowMs, CALL_TIMEOUT_MS) ? entry.key : undefined;
}

/** The fields may have changed: the counter rejects the key if a rotation has ended it. */
export function isCopy({ readAtMs }: KnownKey, nowMs: number): boolean {
  // Negative: the clock was set back.
  return nowMs < readAtMs || nowMs - readAtMs >= KEY_CACHE_MS;
}

/**
 * Asks the nearest replica, then the primary. If D1 fails or is slow, an older copy of the fields is used: that of this isolate, or that
 * in the cache of the data centre. None opens a window: fields never change but for the end of the key, which a rotation moves only
 * to an earlier time. The counter knows that time, as it knows each deactivated key.
 */
export async function lookUpKey(
  d1: D1Database,
  value: string,
  nowMs: number,
  background: Background,
): Promise<KnownKey | undefined> {
  const entry = entries.get(value);
  if (entry !== undefined) entry.askedUntilMs = nowMs + CALL_TIMEOUT_MS;
  const hash = await digestHex(value);
  const looked = readKey(d1, { value, hash }, nowMs, background);
  try {
    return await within(KEY_LOOKUP_MS, looked);
  } catch (error) {
    const key = entry?.key ?? (await copiedKey(value, hash, nowMs));
    // Nothing else is known: a slow answer is better than none.
    if (key === undefined) return within(CALL_TIMEOUT_MS - KEY_LOOKUP_MS, looked);
    logEvent("key_lookup_failed", { workspace: key.workspaceId, error: errorText(error) });
    return key;
  }
}

async function readKey(
  d1: D1Database,
  { value, hash }: { value: string; hash: string },
  nowMs: number,
  background: Background,
  session: "first-unconstrained" | "first-primary" = "first-unconstrained",
): Promise<KnownKey | undefined> {
  const nearest = await selectKey(d1.withSession(session), hash);
  // A replica may not know a new key yet.
  const isUnsure =
    nearest.results.length === 0 && nearest.meta.served_by_primary !== true && session !== "first-primary";
  const { results } = isUnsure ? await selectKey(d1.withSession("first-primary"), hash) : nearest;
  const [row] = results;
  if (row === undefined) return undefined;
  if (!isBefore(entries.get(value)?.copyFromMs ?? 0, nowMs, COPY_EVERY_MS))
    background.waitUntil(copyKey(hash, { row, readAtMs: nowMs }));
  return remember(value, row, { readAtMs: nowMs, askedUntilMs: 0, copyFromMs: nowMs + COPY_EVERY_MS });
}

function remember(
  value: string,
  row: KeyRow,
  { readAtMs, ...until }: Omit<CachedKey, "key"> & { readAtMs: number },
): KnownKey {
  const cached = entries.get(value)?.key;
  // Kept at a refresh; otherwise concurrent look-ups would each start with a full bucket.
  const statistics = (cached?.workspaceId === row.workspace_id ? cached : undefined) ?? {
    isDeactivated: false,
    calls: callsOf(row.workspace_id),
    shedAskAtMs: 0,
    rejected: [],
    rejectedReportMs: 0,
    rejectedPauseMs: 0,
    configPushFromMs: 0,
    misfitsFullUntilMs: 0,
  };
  const key: KnownKey = Object.assign(statistics, keyRecord(row), { readAtMs });
  entries.set(value, { key, ...until }, 1 + (key.template?.mappings ?? 0));
  return key;
}

// A second copy of the fields, for isolates that start while D1 is away: in the cache of the data centre, by the hash of the key. On
// workers.dev the platform keeps nothing there.

const COPIES = "key-fields";
/** Each isolate renews a copy so often. */
const COPY_EVERY_MS = 3_600_000;
const COPY_KEPT_S = 7 * 86_400;

interface KeyCopy {
  row: KeyRow;
  readAtMs: number;
}

/** The address is only a name: no request goes there. */
function copyAddress(hash: string): string {
  return `https://key-fields.invalid/${hash}`;
}

/** Never throws. */
async function copyKey(hash: string, copy: KeyCopy): Promise<void> {
  const headers = { "cache-control": `max-age=${COPY_KEPT_S}` };
  try {
    const cache = await caches.open(COPIES);
    await within(CALL_TIMEOUT_MS, cache.put(copyAddress(hash), Response.json(copy, { headers })));
  } catch (error) {
    logEvent("key_copy_failed", { workspace: copy.row.workspace_id, error: errorText(error) });
  }
}

/** Undefined: there is none, or the cache does not answer. It is kept in this isolate until D1 is back. */
async function copiedKey(value: string, hash: string, nowMs: number): Promise<KnownKey | undefined> {
  try {
    const cache = await caches.open(COPIES);
    const found = await within(CALL_TIMEOUT_MS, cache.match(copyAddress(hash)));
    if (found === undefined) return undefined;
    const { row, readAtMs } = await found.json<KeyCopy>();
    // Another look-up may have succeeded meanwhile.
    const known = entries.get(value)?.key;
    if (known !== undefined) return known;
    return remember(value, row, { readAtMs, askedUntilMs: nowMs + CALL_TIMEOUT_MS, copyFromMs: 0 });
  } catch {
    return undefined;
  }
}

interface KeyRow {
  id: string;
  first_key_id: string;
  workspace_id: string;
  endpoint_type: EndpointType;
  secret_hash: string | null;
  expires_at: string | null;
  overlap_ends_at: string | null;
  template_id: string | null;
  template: string | null;
  version: number | null;
  misfits: MisfitHandling;
  answer: SuccessStatus;
  config_version: number;
  jurisdiction: string;
}

async function isBeingImported(d1: D1Database, keyHash: string): Promise<boolean> {
  const query = "SELECT 1 FROM imported_rows WHERE table_name = 'api_keys' AND row ->> 'key_hash' = ?";
  return (await d1.prepare(query).bind(keyHash).first()) !== null;
}

/**
 * Finds deactivated keys too, because the Quota Counter checks that. Plain SQL, so that an isolate need not load the
 * query builder before its first signal.
 */
function selectKey(session: D1DatabaseSession, keyHash: string): Promise<D1Result<KeyRow>> {
  return session
    .prepare(
      `SELECT k.id, first_key_id, k.workspace_id, endpoint_type, secret_hash, expires_at, overlap_ends_at, template_id, template, t.version, misfits, answer,
         max(w.config_version, p.config_version) AS config_version, jurisdiction
       FROM api_keys k JOIN workspaces w ON w.id = k.workspace_id JOIN plans p ON p.id = plan_id
         LEFT JOIN payload_templates t ON t.id = template_id
           AND t.version = (SELECT max(version) FROM payload_templates WHERE id = template_id)
       WHERE key_hash = ?`,
    )
    .bind(keyHash)
    .run<KeyRow>();
}

function templateOf({ endpoint_type, template_id, template, version }: KeyRow): CompiledKeyTemplate | null {
  if (template_id === null || template === null || version === null) return null;
  const mappings = JSON.parse(template) as KeyTemplate;
  if (mappings.length === 0) return null;
  return compileKeyTemplate(endpoint_type, { firstKeyId: template_id, version, template: mappings });
}

function keyRecord(row: KeyRow) {
  const endsAt = keyEnd({ expiresAt: row.expires_at, overlapEndsAt: row.overlap_ends_at });
  return {
    keyId: row.id,
    firstKeyId: row.first_key_id,
    workspaceId: row.workspace_id,
    endpointType: row.endpoint_type,
    /** Null: no secret is needed. */
    secretHash: row.secret_hash === null ? null : Uint8Array.from(Buffer.from(row.secret_hash, "hex")),
    endsAtMs: endsAt === null ? null : Date.parse(endsAt),
    /** Null: the key has none, or it was removed or dropped. */
    template: templateOf(row),
    keepsMisfits: row.misfits === "keep",
    answer: row.answer,
    configVersion: row.config_version,
    jurisdiction: row.jurisdiction,
  };
}
