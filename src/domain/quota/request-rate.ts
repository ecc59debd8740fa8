/**
 * The request rate of a key (spec §8.7) as a token bucket in the form of GCRA: two timestamps of state per key. A
 * large body counts as several requests.
 */

export interface RequestRate {
  perSecond: number;
  burst: number;
}

export interface RateState {
  remaining: number;
  /** Milliseconds until the whole burst is available again. */
  resetMs: number;
}

/** Times are milliseconds since 1970. */
export interface RateBucket {
  /** Time at which the debt is paid off. */
  readonly paidOffAtMs: number;
  /** A clock below this time was set back. */
  readonly writtenAtMs: number;
}

export const FULL_BUCKET: RateBucket = { paidOffAtMs: 0, writtenAtMs: 0 };

export interface RateDecision extends RateState {
  allowed: boolean;
  bucket: RateBucket;
  /** Milliseconds until a request is allowed; 0 if this one was. */
  retryAfterMs: number;
}

/**
 * Decompressed bytes of a body that count as one request; nearly all calls are smaller. Reading the worst body takes
 * about 20 ns per byte, so 500 requests a second use at most a third of a processor. 8 MB count as 256 requests.
 */
export const REQUEST_BODY_BYTES = 32_768;

export const REQUEST_SIGNALS = 100;

/** One for each started REQUEST_BODY_BYTES or REQUEST_SIGNALS. @param signals 1 until the body has been read. */
export function requestsOfBody(bytes: number, signals = 1): number {
  return Math.max(1, Math.ceil(bytes / REQUEST_BODY_BYTES), Math.ceil(signals / REQUEST_SIGNALS));
}

/**
 * A request owes 1,000 ticks, and `perSecond` ticks are paid off in a millisecond. Ticks are whole numbers even if a
 * request takes a third of a millisecond, so rounding never makes a burst one short. Exact up to 4,000 requests per
 * second, where a tick is still representable in milliseconds since 1970.
 */
const REQUEST_TICKS = 1_000;

/** Maximum debt in bursts: one from calls, and one from large bodies that arrived at the same time. */
const MAX_BURSTS_OWED = 2;

/**
 * Takes requests if a single one is allowed. A call that counts as several may overdraw the bucket, so that every body
 * gets through; the next call then waits longer. No body counts as more than a burst.
 */
export function takeRequest(bucket: RateBucket, nowMs: number, rate: RequestRate, requests = 1): RateDecision {
  const burstTicks = rate.burst * REQUEST_TICKS;
  const before = debtTicks(bucket, nowMs, rate);
  const allowed = before + REQUEST_TICKS <= burstTicks;
  const debt = allowed ? before + Math.min(requests, rate.burst) * REQUEST_TICKS : before;
  return {
    ...stateOf(debt, rate),
    allowed,
    bucket: bucketOf(debt, nowMs, rate),
    retryAfterMs: allowed ? 0 : (before + REQUEST_TICKS - burstTicks) / rate.perSecond,
  };
}

/** Charges an allowed call that turned out to count as `more` requests than the one that was taken. */
export function chargeRequests(bucket: RateBucket, nowMs: number, rate: RequestRate, more: number): RateBucket {
  const debt = debtTicks(bucket, nowMs, rate) + more * REQUEST_TICKS;
  return bucketOf(Math.min(MAX_BURSTS_OWED * rate.burst * REQUEST_TICKS, debt), nowMs, rate);
}

/** The debt at `nowMs`. If the clock was set back, no time counts as passed. */
function debtTicks({ paidOffAtMs, writtenAtMs }: RateBucket, nowMs: number, rate: RequestRate): number {
  return Math.max(0, Math.round((paidOffAtMs - Math.max(nowMs, writtenAtMs)) * rate.perSecond));
}

function bucketOf(debt: number, nowMs: number, rate: RequestRate): RateBucket {
  return { paidOffAtMs: nowMs + debt / rate.perSecond, writtenAtMs: nowMs };
}

function stateOf(debt: number, rate: RequestRate): RateState {
  const remaining = Math.max(0, Math.floor((rate.burst * REQUEST_TICKS - debt) / REQUEST_TICKS));
  return { remaining, resetMs: debt / rate.perSecond };
}
