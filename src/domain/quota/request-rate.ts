/** The request rate of one key (spec §8.7) as a token bucket, in the form of GCRA: one number of state per key. */

export interface RequestRate {
  perSecond: number;
  /** Requests that may come at once. */
  burst: number;
}

export interface RateState {
  /** Requests that may still come at once. */
  remaining: number;
  /** Milliseconds until the whole burst is there again. */
  resetMs: number;
}

export interface RateDecision extends RateState {
  allowed: boolean;
  /** The key's new state; unchanged when the request is refused. */
  emptyAtMs: number;
  /** Milliseconds until a request is allowed; 0 when this one was. */
  retryAfterMs: number;
}

/**
 * A request owes 1,000 ticks, and `perSecond` of them are paid off in a millisecond. In ticks everything is a whole
 * number, also where a request takes a third of a millisecond, so rounding never makes a burst one short. Exact up to
 * 4,000 per second, where a tick can still be told apart in milliseconds since 1970.
 */
const REQUEST_TICKS = 1_000;

/** Where a key stands, without taking a request. */
export function requestsLeft(emptyAtMs: number, nowMs: number, rate: RequestRate): RateState {
  return stateOf(debtTicks(emptyAtMs, nowMs, rate), rate);
}

/**
 * @param emptyAtMs state: when the bucket's debt is paid off; 0 for a key never seen.
 * @param nowMs whole milliseconds since 1970.
 */
export function takeRequest(emptyAtMs: number, nowMs: number, rate: RequestRate): RateDecision {
  const burstTicks = rate.burst * REQUEST_TICKS;
  const before = debtTicks(emptyAtMs, nowMs, rate);
  const allowed = before + REQUEST_TICKS <= burstTicks;
  const debt = allowed ? before + REQUEST_TICKS : before;
  const state = stateOf(debt, rate);
  return {
    ...state,
    allowed,
    emptyAtMs: nowMs + state.resetMs,
    retryAfterMs: allowed ? 0 : (before + REQUEST_TICKS - burstTicks) / rate.perSecond,
  };
}

function debtTicks(emptyAtMs: number, nowMs: number, rate: RequestRate): number {
  const debt = Math.round((emptyAtMs - nowMs) * rate.perSecond);
  // Never more than a burst, even when the clock was set back.
  return Math.min(rate.burst * REQUEST_TICKS, Math.max(0, debt));
}

function stateOf(debt: number, rate: RequestRate): RateState {
  const remaining = Math.max(0, Math.floor((rate.burst * REQUEST_TICKS - debt) / REQUEST_TICKS));
  return { remaining, resetMs: debt / rate.perSecond };
}
