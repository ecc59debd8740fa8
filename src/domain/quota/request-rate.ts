/**
 * The request rate of one key (spec §8.7) as a token bucket, in the form of GCRA: two times of state per key. A large body
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

/** The state of a key's bucket. Times are milliseconds since 1970. */
export interface RateBucket {
  /** When the debt is paid off. */
  readonly emptyAtMs: number;
  /** The clock when the state was written. An earlier time shows that the clock was set back. */
  readonly writtenAtMs: number;
}

/** The bucket of a key that was never seen. */
export const FULL_BUCKET: RateBucket = { emptyAtMs: 0, writtenAtMs: 0 };

export interface RateDecision extends RateState {
  allowed: boolean;
  /** The key's new state. A refused request adds no debt. */
  bucket: RateBucket;
  /** Milliseconds until a request is allowed; 0 when this one was. */
  retryAfterMs: number;
}

/**
 * Decompressed bytes of a body that count as one request: nearly all calls carry less. Reading the worst body takes some
 * 20 ns of a processor for a byte, so 500 requests a second take a third of one at most, and 16 MB count as 512 requests.
 */
export const REQUEST_BODY_BYTES = 32_768;

/** Signals of a body that count as one request: each of them is parsed, checked and answered. */
export const REQUEST_SIGNALS = 100;

/**
 * How many requests a body counts as: one for each started REQUEST_BODY_BYTES after decompression, or for each started
 * REQUEST_SIGNALS, whichever are more.
 *
 * @param signals 1 until the body has been read.
 */
export function requestsOfBody(bytes: number, signals = 1): number {
  return Math.max(1, Math.ceil(bytes / REQUEST_BODY_BYTES), Math.ceil(signals / REQUEST_SIGNALS));
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
export function requestsLeft(bucket: RateBucket, nowMs: number, rate: RequestRate): RateState {
  return stateOf(debtTicks(bucket, nowMs, rate), rate);
}

/**
 * Takes requests, if one is allowed. More than one may overdraw the bucket, and then the next request waits for longer: so
 * every body gets through, whatever the burst is. No body counts as more than a burst.
 *
 * @param nowMs whole milliseconds since 1970.
 * @param requests how many requests the call counts as.
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

/**
 * The state after a call that was let through turns out to count as more requests.
 *
 * @param bucket state after the call was let through.
 * @param more requests beyond the one that was taken.
 */
export function chargeRequests(bucket: RateBucket, nowMs: number, rate: RequestRate, more: number): RateBucket {
  const debt = debtTicks(bucket, nowMs, rate) + more * REQUEST_TICKS;
  return bucketOf(Math.min(MAX_BURSTS_OWED * rate.burst * REQUEST_TICKS, debt), nowMs, rate);
}

/** The debt at `nowMs`. When the clock was set back, the debt is what it was: as if no time had passed. */
function debtTicks({ emptyAtMs, writtenAtMs }: RateBucket, nowMs: number, rate: RequestRate): number {
  return Math.max(0, Math.round((emptyAtMs - Math.max(nowMs, writtenAtMs)) * rate.perSecond));
}

function bucketOf(debt: number, nowMs: number, rate: RequestRate): RateBucket {
  return { emptyAtMs: nowMs + debt / rate.perSecond, writtenAtMs: nowMs };
}

function stateOf(debt: number, rate: RequestRate): RateState {
  const remaining = Math.max(0, Math.floor((rate.burst * REQUEST_TICKS - debt) / REQUEST_TICKS));
  return { remaining, resetMs: debt / rate.perSecond };
}
