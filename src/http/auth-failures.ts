/**
 * Limits failed authentications by the client's network (domain/keys/client-network.ts), and look-ups that find nothing by
 * isolate. All causes are counted alike, and look alike beyond the limit too: a client that tries keys learns nothing from the
 * answers. Senders of many customers share addresses, so what one sender does wrong must not hold up the others: what this
 * isolate knows already never waits, and new keys hardly ever do.
 */
import { takeRequest } from "../domain/quota/request-rate.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { Lru } from "../platform/lru.ts";
import { within } from "../platform/time-limit.ts";

/** Failed authentications a minute of one network, whatever they failed at: as wrangler.toml says of AUTH_FAILURES. */
export const AUTH_FAILURES_PER_MINUTE = 300;
/** How long an isolate remembers that an address failed too often. */
const AUTH_FAILURE_PENALTY_MS = 10_000;
/**
 * Look-ups a second and isolate while the client's network has failed too often, or too many look-ups of all networks found
 * nothing: the neighbours' valid keys still get in.
 */
const PENALISED_LOOKUPS_PER_SECOND = 50;
/** Addresses remembered per isolate as having failed too often. */
const AUTH_FAILURE_ADDRESSES = 10_000;

/** A limiter that takes longer limits nobody: whoever failed is told so all the same. */
const LIMITER_TIMEOUT_MS = 1_000;

/** Until when a network is known to have failed too often, so that a flood costs no further calls. */
const penalisedUntilMs = new Lru<string, number>(AUTH_FAILURE_ADDRESSES);

const PENALISED_LOOKUPS = { perSecond: PENALISED_LOOKUPS_PER_SECOND, burst: PENALISED_LOOKUPS_PER_SECOND };
let penalisedEmptyAtMs = 0;

/**
 * Look-ups of an isolate that may find nothing, of all networks together: each asks the one database that all workspaces
 * share, and an attacker with ever-new networks is stopped by no limit for each. Honest senders mistype a key now and then.
 */
export const MISSES_PER_SECOND = 200;
/** Look-ups that may find nothing at once: a deployment of many senders with the keys of another environment. */
export const MISSES_BURST = 1_000;
const MISSES = { perSecond: MISSES_PER_SECOND, burst: MISSES_BURST };
let missesEmptyAtMs = 0;

/**
 * Milliseconds until a network may have something looked up that this isolate does not know, such as a key or a session;
 * 0: at once.
 */
export function lookupWaitMs(network: string, nowMs: number): number {
  const leftMs = Math.max(penaltyLeftMs(network, nowMs), missesWaitMs(nowMs));
  if (leftMs === 0) return 0;
  const taken = takeRequest(penalisedEmptyAtMs, nowMs, PENALISED_LOOKUPS);
  penalisedEmptyAtMs = taken.emptyAtMs;
  return taken.allowed ? 0 : leftMs;
}

/** Counts a look-up that found nothing. */
export function countMiss(nowMs: number): void {
  missesEmptyAtMs = takeRequest(missesEmptyAtMs, nowMs, MISSES).emptyAtMs;
}

function missesWaitMs(nowMs: number): number {
  return takeRequest(missesEmptyAtMs, nowMs, MISSES).retryAfterMs;
}

/** Counts a failed authentication. Returns milliseconds to wait if there were too many; 0 otherwise. */
export async function countFailure(limiter: RateLimit, network: string, nowMs: number): Promise<number> {
  const leftMs = penaltyLeftMs(network, nowMs);
  if (leftMs > 0) return leftMs;
  try {
    const { success } = await within(LIMITER_TIMEOUT_MS, limiter.limit({ key: network }));
    if (success) return 0;
  } catch (error) {
    // A limiter that fails limits nobody: the answer is the same 401 as ever.
    logEvent("limiter_failed", { error: errorText(error) });
    return 0;
  }
  penalisedUntilMs.set(network, nowMs + AUTH_FAILURE_PENALTY_MS);
  return AUTH_FAILURE_PENALTY_MS;
}

function penaltyLeftMs(network: string, nowMs: number): number {
  const leftMs = (penalisedUntilMs.get(network) ?? 0) - nowMs;
  // More than a whole penalty cannot be left: the clock was set back.
  return leftMs > AUTH_FAILURE_PENALTY_MS ? 0 : Math.max(0, leftMs);
}
