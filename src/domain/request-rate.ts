/** The request rate of one key (spec §8.7) as a token bucket, in the form of GCRA: one number of state per key. */

export interface RequestRate {
  perSecond: number;
  /** Requests that may come at once. */
  burst: number;
}

export interface RateDecision {
  allowed: boolean;
  /** The new state; unchanged when refused. */
  emptyAtMs: number;
  /** Requests that may still come at once. */
  remaining: number;
  /** Until the whole burst is there again. */
  resetMs: number;
  /** Until one request is allowed; 0 when this one was. */
  retryAfterMs: number;
}

/**
 * Ticks that one request takes; `perSecond` of them pass in a millisecond. Counted in ticks everything is a whole number,
 * so a burst is never one short: a sum of thirds of milliseconds since 1970 would drift. Exact up to 4,000 per second (until 2039).
 */
const REQUEST_TICKS = 1_000;

/** @param emptyAtMs state: when the bucket's debt is paid off; 0 for a key never seen. */
export function takeRequest(emptyAtMs: number, nowMs: number, rate: RequestRate): RateDecision {
  const ticksPerMs = rate.perSecond;
  const burstTicks = rate.burst * REQUEST_TICKS;
  const now = Math.round(nowMs * ticksPerMs);
  const from = Math.max(Math.round(emptyAtMs * ticksPerMs), now);
  const next = from + REQUEST_TICKS;
  const allowed = next - now <= burstTicks;
  const emptyAt = allowed ? next : from;
  return {
    allowed,
    emptyAtMs: emptyAt / ticksPerMs,
    remaining: Math.max(0, Math.floor((burstTicks - (emptyAt - now)) / REQUEST_TICKS)),
    resetMs: (emptyAt - now) / ticksPerMs,
    retryAfterMs: allowed ? 0 : (next - now - burstTicks) / ticksPerMs,
  };
}
