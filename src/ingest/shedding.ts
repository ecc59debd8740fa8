/**
 * Refuses floods of a key before they reach the Quota Counter, and large bodies before they are parsed. The counter
 * decides exactly, and would also refuse every call that is refused here.
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

/** Multiple of the request rate beyond which an isolate refuses calls of a key. */
export const SHED_FACTOR = 4;
/** Interval at which a refused call still asks the Quota Counter whether the key is active. */
export const SHED_ASK_MS = 1_000;

export function shedCall(key: KnownKey, nowMs: number, rate: RequestRate): RateDecision {
  const taken = takeRequest(key.shedBucket, nowMs, shedRate(rate));
  key.shedBucket = taken.bucket;
  return taken;
}

/**
 * Returns the milliseconds to wait if the bucket was empty before the charge; then the body is not parsed. Bytes are
 * charged at the rate itself, not at SHED_FACTOR times the rate, because they take CPU time of this isolate.
 * @param more requests that the body counts as, beyond those already charged.
 */
export function shedBody(key: KnownKey, nowMs: number, rate: RequestRate, more: number): number {
  if (more === 0) return 0;
  const shed = shedRate(rate);
  const isEmpty = requestsLeft(key.shedBucket, nowMs, shed).remaining === 0;
  key.shedBucket = chargeRequests(key.shedBucket, nowMs, shed, Math.min(more, rate.burst - 1) * SHED_FACTOR);
  return isEmpty ? takeRequest(key.shedBucket, nowMs, shed).retryAfterMs : 0;
}

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
