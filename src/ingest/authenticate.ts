/**
 * Authenticates a call (spec §5). The Quota Counter checks whether the key is active; an isolate caches only that a key is
 * deactivated.
 */
import { isExpired, isWellFormedKey } from "../domain/keys/api-key.ts";
import { networkOf } from "../domain/keys/client-network.ts";
import type { Refusal, UnauthorizedCause } from "../domain/keys/refusal.ts";
import { configuredJurisdiction } from "../env.ts";
import { countFailure, countMiss, lookupWaitMs } from "../http/auth-failures.ts";
import { digest } from "../platform/hashes.ts";
import { requireJurisdiction } from "../domain/jurisdiction.ts";
import { cachedKey, deactivatedKey, lookUpKey, rememberDeactivated, wasKnown, type KnownKey } from "./key-cache.ts";

export type Authentication =
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
    const waitMs = wasKnown(apiKey) ? 0 : lookupWaitMs(networkOf(credentials.address), nowMs);
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
