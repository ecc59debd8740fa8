/**
 * The request rate of one key (spec §8.7) as a token bucket, in the form of GCRA: one number of state per key. A large body
 * counts as several requests.
 */

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
 * Decompressed bytes of a body that count as one request: nearly all calls carry less. Reading the worst body takes some
 * 20 ns of a processor for a byte, so 500 requests a second take a third of one at most, and 16 MB count as 512 requests.
 */
export const REQUEST_BODY_BYTES = 32_768;

/** How many requests a body counts as: one for each started REQUEST_BODY_BYTES, after decompression. */
export function requestsOfBody(bytes: number): number {
  return Math.max(1, Math.ceil(bytes / REQUEST_BODY_BYTES));
}

/** Signals of a body that count as one request: each of them is parsed, checked and answered. */
export const REQUEST_SIGNALS = 100;

/** How many requests a body counts as: one for each started REQUEST_BODY_BYTES or REQUEST_SIGNALS, whichever are more. */
export function requestsOfSignals(requests: number, signals: number): number {
  return Math.max(requests, Math.ceil(signals / REQUEST_SIGNALS));
}

/**
 * A request owes 1,000 ticks, and `perSecond` of them are paid off in a millisecond. In ticks everything is a whole
 * number, also where a request takes a third of a millisecond, so rounding never makes a burst one short. Exact up to
 * 4,000 per second, where a tick can still be told apart in milliseconds since 1970.
 */
const REQUEST_TICKS = 1_000;

/** Bursts that may be owed at most: one by calls, and one by a large body or by several that came at once. */
const MAX_BURSTS_OWED = 2;

/** Where a key stands, without taking a request. */
export function requestsLeft(emptyAtMs: number, nowMs: number, rate: RequestRate): RateState {
  return stateOf(debtTicks(emptyAtMs, nowMs, rate), rate);
}

/**
 * Takes requests, if one is allowed. More than one may overdraw the bucket, and then the next request waits for longer: so
 * every body gets through, whatever the burst is. No body counts as more than a burst.
 *
 * @param emptyAtMs state: when the bucket's debt is paid off; 0 for a key never seen.
 * @param nowMs whole milliseconds since 1970.
 * @param requests how many requests the call counts as.
 */
export function takeRequest(emptyAtMs: number, nowMs: number, rate: RequestRate, requests = 1): RateDecision {
  const burstTicks = rate.burst * REQUEST_TICKS;
  const before = debtTicks(emptyAtMs, nowMs, rate);
  const allowed = before + REQUEST_TICKS <= burstTicks;
  const debt = allowed ? before + Math.min(requests, rate.burst) * REQUEST_TICKS : before;
  const state = stateOf(debt, rate);
  return {
    ...state,
    allowed,
    emptyAtMs: nowMs + state.resetMs,
    retryAfterMs: allowed ? 0 : (before + REQUEST_TICKS - burstTicks) / rate.perSecond,
  };
}

/**
 * The state after a call that was let through turns out to count as more requests.
 *
 * @param emptyAtMs state after the call was let through.
 * @param more requests beyond the one that was taken.
 */
export function chargeRequests(emptyAtMs: number, nowMs: number, rate: RequestRate, more: number): number {
  const debt = debtTicks(emptyAtMs, nowMs, rate) + more * REQUEST_TICKS;
  return nowMs + Math.min(MAX_BURSTS_OWED * rate.burst * REQUEST_TICKS, debt) / rate.perSecond;
}

function debtTicks(emptyAtMs: number, nowMs: number, rate: RequestRate): number {
  const debt = Math.max(0, Math.round((emptyAtMs - nowMs) * rate.perSecond));
  // More than can be owed: the clock was set back.
  return debt > (MAX_BURSTS_OWED + 1) * rate.burst * REQUEST_TICKS ? 0 : debt;
}

function stateOf(debt: number, rate: RequestRate): RateState {
  const remaining = Math.max(0, Math.floor((rate.burst * REQUEST_TICKS - debt) / REQUEST_TICKS));
  return { remaining, resetMs: debt / rate.perSecond };
}
