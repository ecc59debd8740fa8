/**
 * Failed authentications, limited by client address. Only failures that cost something are counted: an unknown key that
 * took a look-up, a wrong secret. Senders of many customers share addresses, so what one of them does wrong must not
 * hold up the others: keys that this isolate has known never wait, new ones hardly ever do.
 */
import { takeRequest } from "../domain/request-rate.ts";
import { errorText, logEvent } from "../http/log.ts";
import { AUTH_FAILURE_ADDRESSES, AUTH_FAILURE_PENALTY_MS, PENALISED_LOOKUPS_PER_SECOND } from "../limits.ts";
import { Lru } from "../platform/lru.ts";

export type FailureKind = "unknown_key" | "wrong_secret";

/** Until when an address is known to have failed too often, so that a flood costs no further calls. */
const penalisedUntilMs = new Lru<string, number>(AUTH_FAILURE_ADDRESSES);

const LOOKUPS = { perSecond: PENALISED_LOOKUPS_PER_SECOND, burst: PENALISED_LOOKUPS_PER_SECOND };
let lookupsEmptyAtMs = 0;

/** Milliseconds until an address may have a key looked up that this isolate does not know; 0: at once. */
export function lookupWaitMs(address: string, nowMs: number): number {
  const leftMs = penaltyLeftMs("unknown_key", address, nowMs);
  if (leftMs === 0) return 0;
  const taken = takeRequest(lookupsEmptyAtMs, nowMs, LOOKUPS);
  lookupsEmptyAtMs = taken.emptyAtMs;
  return taken.allowed ? 0 : leftMs;
}

/** Counts a failure. Returns milliseconds to wait if there were too many of its kind; 0 otherwise. */
export async function countFailure(
  limiter: RateLimit,
  kind: FailureKind,
  address: string,
  nowMs: number,
): Promise<number> {
  const leftMs = penaltyLeftMs(kind, address, nowMs);
  if (leftMs > 0) return leftMs;
  try {
    const { success } = await limiter.limit({ key: `${kind} ${address}` });
    if (success) return 0;
  } catch (error) {
    // Without the limiter the answer is the same 401 as ever.
    logEvent("limiter_failed", { error: errorText(error) });
    return 0;
  }
  penalisedUntilMs.set(`${kind} ${address}`, nowMs + AUTH_FAILURE_PENALTY_MS);
  return AUTH_FAILURE_PENALTY_MS;
}

function penaltyLeftMs(kind: FailureKind, address: string, nowMs: number): number {
  return Math.max(0, (penalisedUntilMs.get(`${kind} ${address}`) ?? 0) - nowMs);
}
