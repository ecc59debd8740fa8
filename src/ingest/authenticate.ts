/** Who is calling (spec §5). Whether the key is still active is not asked here but where the signal is counted. */
import { isExpired, isWellFormedKey } from "../domain/api-key.ts";
import type { Refusal, UnauthorizedCause } from "../domain/refusal.ts";
import { countFailure, lookupWaitMs } from "./auth-failures.ts";
import { cachedKey, lookUpKey, wasKnown } from "./key-cache.ts";
import type { KnownKey } from "./key-cache.ts";

export type Authentication =
  | { ok: true; key: KnownKey }
  /** `key`: whose list of rejections the refusal belongs to, when the key is known. */
  | { ok: false; refusal: Refusal; key: KnownKey | null };

export interface Credentials {
  apiKey: string;
  /** The `X-Api-Secret` header. */
  secret: string | undefined;
  /** The client's address. */
  address: string;
}

/** Compared with in place of the secret of a key that does not exist, so that both take the same time. */
const DUMMY_HASH = new Uint8Array(32);

const encoder = new TextEncoder();

/** In this order (design §5): key shape → known → not expired → secret. All of them are the same 401 to the sender. */
export async function authenticate(
  env: Env,
  { apiKey, secret, address }: Credentials,
  nowMs: number,
): Promise<Authentication> {
  if (!isWellFormedKey(apiKey)) return unauthorized("key_malformed", null);
  let key = cachedKey(apiKey, nowMs);
  if (key === undefined) {
    const waitMs = wasKnown(apiKey) ? 0 : lookupWaitMs(address, nowMs);
    if (waitMs > 0) return tooManyFailures(waitMs, null);
    key = await lookUpKey(env.DB, apiKey, nowMs);
  }
  if (key === undefined) {
    if (secret !== undefined) await matchesHash(secret, DUMMY_HASH);
    const waitMs = await countFailure(env.AUTH_FAILURES, "unknown_key", address, nowMs);
    return waitMs > 0 ? tooManyFailures(waitMs, null) : unauthorized("key_unknown", null);
  }
  if (isExpired(key.endsAtMs, nowMs)) return unauthorized("key_expired", key);
  if (key.secretHash === null) return { ok: true, key };
  if (secret === undefined) return unauthorized("secret_missing", key);
  if (await matchesHash(secret, key.secretHash)) return { ok: true, key };
  const waitMs = await countFailure(env.AUTH_FAILURES, "wrong_secret", address, nowMs);
  return waitMs > 0 ? tooManyFailures(waitMs, key) : unauthorized("secret_wrong", key);
}

/** §5.4: the supplied value is hashed and compared with the stored hash, in constant time. */
async function matchesHash(secret: string, hash: Uint8Array): Promise<boolean> {
  const digest = await crypto.subtle.digest("SHA-256", encoder.encode(secret));
  return crypto.subtle.timingSafeEqual(digest, hash);
}

function unauthorized(cause: UnauthorizedCause, key: KnownKey | null): Authentication {
  return { ok: false, refusal: { code: "unauthorized", cause }, key };
}

function tooManyFailures(retryAfterMs: number, key: KnownKey | null): Authentication {
  return { ok: false, refusal: { code: "rate_limited", retryAfterMs }, key };
}
