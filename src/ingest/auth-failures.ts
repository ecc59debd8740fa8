/**
 * Failed authentications, limited by the client's network (domain/keys/client-network.ts). All causes are counted alike, and
 * look alike beyond the limit too: an address that tries keys learns nothing from what it is told. Senders of many customers
 * share addresses, so what one of them does wrong must not hold up the others: keys that this isolate has known never wait,
 * new ones hardly ever do.
 */
import { takeRequest } from "../domain/quota/request-rate.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { Lru } from "../platform/lru.ts";
import { within } from "../platform/time-limit.ts";

/** How long an isolate remembers that an address failed too often. */
const AUTH_FAILURE_PENALTY_MS = 10_000;
/** Look-ups per second and isolate for addresses that failed too often: their neighbours' valid keys still get in. */
const PENALISED_LOOKUPS_PER_SECOND = 50;
/** Addresses remembered per isolate as having failed too often. */
const AUTH_FAILURE_ADDRESSES = 10_000;

/** A limiter that takes longer limits nobody: whoever failed is told so all the same. */
const LIMITER_TIMEOUT_MS = 1_000;

/** Until when a network is known to have failed too often, so that a flood costs no further calls. */
const penalisedUntilMs = new Lru<string, number>(AUTH_FAILURE_ADDRESSES);

const LOOKUPS = { perSecond: PENALISED_LOOKUPS_PER_SECOND, burst: PENALISED_LOOKUPS_PER_SECOND };
let lookupsEmptyAtMs = 0;

/** Milliseconds until a network may have a key looked up that this isolate does not know; 0: at once. */
export function lookupWaitMs(network: string, nowMs: number): number {
  const leftMs = penaltyLeftMs(network, nowMs);
  if (leftMs === 0) return 0;
  const taken = takeRequest(lookupsEmptyAtMs, nowMs, LOOKUPS);
  lookupsEmptyAtMs = taken.emptyAtMs;
  return taken.allowed ? 0 : leftMs;
}

/** Counts a failure. Returns milliseconds to wait if there were too many; 0 otherwise. */
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
  return Math.max(0, (penalisedUntilMs.get(network) ?? 0) - nowMs);
}
