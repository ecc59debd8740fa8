/**
 * Limits failed authentications for each client network (domain/keys/client-network.ts), and unsuccessful look-ups for each
 * isolate. All causes count the same and get the same answer, so a client that guesses keys learns nothing. Senders of many
 * customers share addresses, and the errors of a sender must not delay its neighbours: a key that this isolate knows never
 * waits, and a new key hardly ever does.
 */
import type { HonoRequest } from "hono";
import { networkOf } from "../domain/keys/client-network.ts";
import { FULL_BUCKET, takeRequest } from "../domain/quota/request-rate.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { Lru } from "../platform/lru.ts";
import { within } from "../platform/time-limit.ts";

/** Failed authentications that a network may have a minute: the limit of AUTH_FAILURES in wrangler.toml. */
export const AUTH_FAILURES_PER_MINUTE = 300;
/** Time for which an isolate remembers that a network exceeded the limit. */
const AUTH_FAILURE_PENALTY_MS = 10_000;
/**
 * Look-ups a second and isolate for networks that exceeded the limit, and for all networks while too many look-ups are
 * unsuccessful. So the valid keys of the neighbours still work.
 */
const PENALISED_LOOKUPS_PER_SECOND = 50;
/** Maximum number of networks that an isolate remembers. */
const AUTH_FAILURE_ADDRESSES = 10_000;

/** Timeout of the rate limiter. After it the call is not limited. */
const LIMITER_TIMEOUT_MS = 1_000;

/** Network → end of its penalty. A flood then costs no further calls of the rate limiter. */
const penalisedUntilMs = new Lru<string, number>(AUTH_FAILURE_ADDRESSES);

const PENALISED_LOOKUPS = { perSecond: PENALISED_LOOKUPS_PER_SECOND, burst: PENALISED_LOOKUPS_PER_SECOND };
let penalisedBucket = FULL_BUCKET;

/**
 * Unsuccessful look-ups a second and isolate, of all networks together. Each look-up asks the database that all workspaces
 * share, and a limit for each network does not stop an attacker with many networks. Honest senders mistype a key sometimes.
 */
const MISSES_PER_SECOND = 200;
/** Burst of unsuccessful look-ups, such as many senders that start with the keys of another environment. */
export const MISSES_BURST = 1_000;
const MISSES = { perSecond: MISSES_PER_SECOND, burst: MISSES_BURST };
let missesBucket = FULL_BUCKET;

/** The network that a request comes from. */
export function clientNetwork({ req }: { req: HonoRequest }): string {
  return networkOf(req.header("cf-connecting-ip"));
}

/**
 * Returns the milliseconds until this isolate may look up an unknown key or session for a network; 0: now.
 */
export function lookupWaitMs(network: string, nowMs: number): number {
  const leftMs = Math.max(penaltyLeftMs(network, nowMs), missesWaitMs(nowMs));
  if (leftMs === 0) return 0;
  const taken = takeRequest(penalisedBucket, nowMs, PENALISED_LOOKUPS);
  penalisedBucket = taken.bucket;
  return taken.allowed ? 0 : leftMs;
}

/** Counts an unsuccessful look-up. */
export function countMiss(nowMs: number): void {
  missesBucket = takeRequest(missesBucket, nowMs, MISSES).bucket;
}

function missesWaitMs(nowMs: number): number {
  const { allowed, bucket, retryAfterMs } = takeRequest(missesBucket, nowMs, MISSES);
  // A miss is taken when it is counted. Until then only the clock of the debt may change.
  if (!allowed) missesBucket = bucket;
  return retryAfterMs;
}

/** Counts a failed authentication. Returns the milliseconds until the next attempt; 0 below the limit. */
export async function countFailure(limiter: RateLimit, network: string, nowMs: number): Promise<number> {
  const leftMs = penaltyLeftMs(network, nowMs);
  if (leftMs > 0) return leftMs;
  if (await isWithin(limiter, network)) return 0;
  penalisedUntilMs.set(network, nowMs + AUTH_FAILURE_PENALTY_MS);
  return AUTH_FAILURE_PENALTY_MS;
}

/** Counts a call, and returns whether it is within the limit. A rate limiter that fails limits nothing. */
export async function isWithin(limiter: RateLimit, key: string): Promise<boolean> {
  try {
    return (await within(LIMITER_TIMEOUT_MS, limiter.limit({ key }))).success;
  } catch (error) {
    logEvent("limiter_failed", { error: errorText(error) });
    return true;
  }
}

function penaltyLeftMs(network: string, nowMs: number): number {
  const leftMs = (penalisedUntilMs.get(network) ?? 0) - nowMs;
  // More than a whole penalty cannot be left, so the clock was set back.
  return leftMs > AUTH_FAILURE_PENALTY_MS ? 0 : Math.max(0, leftMs);
}
