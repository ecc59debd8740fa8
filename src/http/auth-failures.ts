/**
 * Limits failed authentications of each network (domain/keys/client-network.ts), and failed look-ups of each isolate.
 * All causes count the same, so guessing keys teaches nothing. Senders share addresses, and one's errors must not delay
 * the others: a key that this isolate knows never waits, and a new one hardly ever.
 */
import type { HonoRequest } from "hono";
import { networkOf } from "../domain/keys/client-network.ts";
import { FULL_BUCKET, takeRequest } from "../domain/quota/request-rate.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { Lru } from "../platform/lru.ts";
import { within } from "../platform/time-limit.ts";

export const AUTH_FAILURES_PER_MINUTE = 300;
const AUTH_FAILURE_PENALTY_MS = 10_000;
/**
 * Look-ups a second for networks that exceeded the limit, and for all while too many look-ups fail. So valid keys still
 * work.
 */
const PENALISED_LOOKUPS = { perSecond: 50, burst: 50 };
const PENALISED_NETWORKS = 10_000;

/** After the timeout the call is not limited. */
const LIMITER_TIMEOUT_MS = 1_000;

/** Network → end of its penalty. A flood then costs no further calls of the rate limiter. */
const penalisedUntilMs = new Lru<string, number>(PENALISED_NETWORKS);

let penalisedBucket = FULL_BUCKET;

/** Many senders may start at once with the keys of another environment. */
export const MISSES_BURST = 1_000;
/**
 * Failed look-ups and starts of a sign-in, of all networks. Each asks the database that all workspaces share; an attacker may
 * have many networks, and honest senders mistype a key sometimes.
 */
const MISSES = { perSecond: 200, burst: MISSES_BURST };
let missesBucket = FULL_BUCKET;

export function clientNetwork({ req }: { req: HonoRequest }): string {
  return networkOf(req.header("cf-connecting-ip"));
}

/** Milliseconds until the database may be asked for an unknown key, session or sign-in of the network; 0: now. */
export function lookupWaitMs(network: string, nowMs: number): number {
  const leftMs = Math.max(penaltyLeftMs(network, nowMs), missesWaitMs(nowMs));
  if (leftMs === 0) return 0;
  const taken = takeRequest(penalisedBucket, nowMs, PENALISED_LOOKUPS);
  penalisedBucket = taken.bucket;
  return taken.allowed ? 0 : leftMs;
}

/** Counts a caller that the database does not know. */
export function countMiss(nowMs: number): void {
  missesBucket = takeRequest(missesBucket, nowMs, MISSES).bucket;
}

function missesWaitMs(nowMs: number): number {
  const { allowed, bucket, retryAfterMs } = takeRequest(missesBucket, nowMs, MISSES);
  // A miss is taken when it is counted. Until then only the clock of the debt may change.
  if (!allowed) missesBucket = bucket;
  return retryAfterMs;
}

export async function countFailure(limiter: RateLimit, network: string, nowMs: number): Promise<number> {
  const leftMs = penaltyLeftMs(network, nowMs);
  if (leftMs > 0) return leftMs;
  if (await isWithin(limiter, network)) return 0;
  penalisedUntilMs.set(network, nowMs + AUTH_FAILURE_PENALTY_MS);
  return AUTH_FAILURE_PENALTY_MS;
}

/** Counts a call. A rate limiter that fails limits nothing. */
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
  // More than a whole penalty: the clock was set back.
  return leftMs > AUTH_FAILURE_PENALTY_MS ? 0 : Math.max(0, leftMs);
}
