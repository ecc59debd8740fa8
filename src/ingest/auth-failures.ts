/**
 * Failed authentications, limited by client address. Only failures that cost something are counted: an unknown key that
 * took a look-up, a wrong secret. A key that this isolate has known is never held up by what others do at its address:
 * senders of many customers share addresses.
 */
import { LRUCache } from "lru-cache";
import { AUTH_FAILURE_ADDRESSES, AUTH_FAILURE_PENALTY_MS } from "../limits.ts";

/** Until when an address is known to have failed too often, so that a flood costs no further calls. */
const penalisedUntilMs = new LRUCache<string, number>({ max: AUTH_FAILURE_ADDRESSES });

/** Milliseconds until the address may try unknown keys again; 0: at once. */
export function penaltyLeftMs(address: string, nowMs: number): number {
  return Math.max(0, (penalisedUntilMs.get(address) ?? 0) - nowMs);
}

/** Counts a failure. Returns milliseconds to wait if there were too many; 0 otherwise. */
export async function countFailure(limiter: RateLimit, address: string, nowMs: number): Promise<number> {
  const left = penaltyLeftMs(address, nowMs);
  if (left > 0) return left;
  const { success } = await limiter.limit({ key: address });
  if (success) return 0;
  penalisedUntilMs.set(address, nowMs + AUTH_FAILURE_PENALTY_MS);
  return AUTH_FAILURE_PENALTY_MS;
}
