/**
 * Each isolate estimates the request rate of a key. It refuses floods before they reach the Quota Counter, and large
 * bodies before it parses them. The Quota Counter decides exactly, and would also refuse every call that is refused here.
 */
import type { Refusal } from "../domain/keys/refusal.ts";
import {
  REQUEST_BODY_BYTES,
  REQUEST_SIGNALS,
  chargeRequests,
  requestsLeft,
  takeRequest,
} from "../domain/quota/request-rate.ts";
import type { RateDecision, RequestRate } from "../domain/quota/request-rate.ts";
import type { KnownKey } from "./authenticate.ts";

/** An isolate refuses calls of a key beyond this multiple of the request rate. */
export const SHED_FACTOR = 4;
/** Interval at which a refused call still goes to the Quota Counter, to ask whether the key is active. */
export const SHED_ASK_MS = 1_000;

/** Takes a call from the key's token bucket in this isolate. */
export function shedCall(key: KnownKey, nowMs: number, rate: RequestRate): RateDecision {
  const taken = takeRequest(key.shedBucket, nowMs, shedRate(rate));
  key.shedBucket = taken.bucket;
  return taken;
}

/**
 * Charges the call for its body, which was read and unpacked. If the bucket was empty before the charge, returns the
 * milliseconds to wait, and the caller does not parse the body. Many bodies at the same time empty the bucket. Bytes are
 * charged at the rate itself, not at SHED_FACTOR times the rate. A small call is cheap to pass on, but bytes take CPU time of
 * this isolate.
 *
 * @param more requests that the body counts as, beyond the requests that were already charged.
 */
export function shedBody(key: KnownKey, nowMs: number, rate: RequestRate, more: number): number {
  if (more === 0) return 0;
  const shed = shedRate(rate);
  const isEmpty = requestsLeft(key.shedBucket, nowMs, shed).remaining === 0;
  key.shedBucket = chargeRequests(key.shedBucket, nowMs, shed, Math.min(more, rate.burst - 1) * SHED_FACTOR);
  return isEmpty ? takeRequest(key.shedBucket, nowMs, shed).retryAfterMs : 0;
}

/** The refusal of a call that comes too fast. `requests`: the number of requests that its body counts as. */
export function tooFast(retryAfterMs: number, requests: number): Refusal {
  if (requests === 1) return { code: "rate_limited", retryAfterMs };
  const detail =
    `Requests came faster than the request rate allows: this body counts as ${requests} requests, one for each started ` +
    `${REQUEST_BODY_BYTES / 1024} KB or ${REQUEST_SIGNALS} signals. Send again after Retry-After seconds, or send less.`;
  return { code: "rate_limited", retryAfterMs, detail };
}

function shedRate({ perSecond, burst }: RequestRate): RequestRate {
  return { perSecond: perSecond * SHED_FACTOR, burst: burst * SHED_FACTOR };
}
