/**
 * Who is calling (spec §5). Whether the key is still active is asked where the signal is counted; an isolate that has been
 * told that it is not need not ask again.
 */
import { isExpired, isWellFormedKey } from "../domain/keys/api-key.ts";
import { networkOf } from "../domain/keys/client-network.ts";
import type { Refusal, UnauthorizedCause } from "../domain/keys/refusal.ts";
import { countFailure, countMiss, lookupWaitMs } from "../http/auth-failures.ts";
import { digest } from "../platform/hashes.ts";
import { cachedKey, deactivatedKey, lookUpKey, rememberDeactivated, wasKnown } from "./key-cache.ts";
import type { KnownKey } from "./key-cache.ts";

export type Authentication =
  | { ok: true; key: KnownKey }
  /** `key`: whose list of rejections the refusal belongs to, when the key is known. */
  | { ok: false; refusal: Refusal; key: KnownKey | null };

export interface Credentials {
  apiKey: string;
  /** The `X-Api-Secret` header. */
  secret: string | undefined;
  /** The client's network address. */
  address: string | undefined;
}

/** Stands in for the secret's hash of a key that does not exist, so that the comparison takes the same time. */
const DUMMY_HASH = new Uint8Array(32);

/**
 * The checks in their order (design §5): known to be deactivated → key shape → known → not expired → secret. To the sender
 * all failures are the same 401; but for the shape, which anybody can check for themselves, they count for its network.
 */
export async function authenticate(env: Env, credentials: Credentials, nowMs: number): Promise<Authentication> {
  const { apiKey, secret } = credentials;
  const ended = deactivatedKey(apiKey);
  if (ended !== undefined) return failed(env, credentials, "key_deactivated", ended, nowMs);
  if (!isWellFormedKey(apiKey)) return unauthorized("key_malformed", null);
  let key = cachedKey(apiKey, nowMs);
  if (key === undefined) {
    const waitMs = wasKnown(apiKey) ? 0 : lookupWaitMs(networkOfClient(credentials), nowMs);
    if (waitMs > 0) return tooManyFailures(waitMs, null);
    key = await lookUpKey(env.DB, apiKey, nowMs);
  }
  if (key === undefined) {
    countMiss(nowMs);
    if (secret !== undefined) await matchesHash(secret, DUMMY_HASH);
    return failed(env, credentials, "key_unknown", null, nowMs);
  }
  if (isExpired(key.endsAtMs, nowMs)) return failed(env, credentials, "key_expired", key, nowMs);
  // The payload template is dropped some time after the key was deactivated (control/key-limits.ts).
  if (key.endpointType === "product_org" && key.template === null) {
    return { ok: false, refusal: await failDeactivated(env, credentials, key, nowMs), key };
  }
  if (key.secretHash === null) return { ok: true, key };
  if (secret === undefined) return failed(env, credentials, "secret_missing", key, nowMs);
  if (await matchesHash(secret, key.secretHash)) return { ok: true, key };
  return failed(env, credentials, "secret_wrong", key, nowMs);
}

/**
 * The Quota Counter has said that the key is deactivated. That is final: what this isolate remembers of it can never
 * become wrong.
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
  const waitMs = await countFailure(env.AUTH_FAILURES, networkOfClient(credentials), nowMs);
  return waitMs > 0 ? tooManyFailures(waitMs, key) : unauthorized(cause, key);
}

function networkOfClient({ address }: Credentials): string {
  return address === undefined ? "unknown" : networkOf(address);
}

/** Spec §5.4: the supplied value is hashed and compared with the stored hash, in constant time. */
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
