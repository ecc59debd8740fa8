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

/** @param emptyAtMs state: when the bucket's debt is paid off; 0 for a key never seen. */
export function takeRequest(emptyAtMs: number, nowMs: number, rate: RequestRate): RateDecision {
  const intervalMs = 1_000 / rate.perSecond;
  const windowMs = intervalMs * rate.burst;
  const from = Math.max(emptyAtMs, nowMs);
  const next = from + intervalMs;
  const allowed = next - nowMs <= windowMs + 1e-6;
  const after = allowed ? next : from;
  return {
    allowed,
    emptyAtMs: after,
    remaining: Math.max(0, Math.floor((windowMs - (after - nowMs)) / intervalMs + 1e-6)),
    resetMs: after - nowMs,
    retryAfterMs: allowed ? 0 : next - nowMs - windowMs,
  };
}
