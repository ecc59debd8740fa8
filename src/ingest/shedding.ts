/**
 * An isolate's own view of a key's request rate: it refuses floods before they reach the Quota Counter, and large bodies
 * before they are read or parsed. The Quota Counter decides exactly; nothing is shed here that it would let through.
 */
import type { Refusal } from "../domain/keys/refusal.ts";
import { REQUEST_BODY_BYTES, chargeRequests, requestsLeft, takeRequest } from "../domain/quota/request-rate.ts";
import type { RateDecision, RequestRate } from "../domain/quota/request-rate.ts";
import { grouped } from "../domain/grouped.ts";
import type { KnownKey } from "./key-cache.ts";

/** An isolate sheds calls of one key beyond this many times the rate before they reach the object. */
export const SHED_FACTOR = 4;
/** One shed call in so long is let through to the object after all, to ask whether the key is still active. */
export const SHED_ASK_MS = 1_000;

/** Takes a call from the isolate's bucket of the key. */
export function shedCall(key: KnownKey, nowMs: number, rate: RequestRate): RateDecision {
  const taken = takeRequest(key.shedEmptyAtMs, nowMs, shedRate(rate));
  key.shedEmptyAtMs = taken.emptyAtMs;
  return taken;
}

/**
 * Charges the call for its body, which was read and unpacked. Returns milliseconds to wait if the bucket was empty by then,
 * as with many bodies at once: the body is not to be parsed. Bytes are charged at the rate itself, not at SHED_FACTOR times
 * the rate: small calls are cheap to pass on, but bytes take the time of this isolate.
 */
export function shedBody(key: KnownKey, nowMs: number, rate: RequestRate, requests: number): number {
  if (requests === 1) return 0;
  const shed = shedRate(rate);
  const isEmpty = requestsLeft(key.shedEmptyAtMs, nowMs, shed).remaining === 0;
  key.shedEmptyAtMs = chargeRequests(key.shedEmptyAtMs, nowMs, shed, (requests - 1) * SHED_FACTOR);
  return isEmpty ? takeRequest(key.shedEmptyAtMs, nowMs, shed).retryAfterMs : 0;
}

/** The 429 of a call that counts as so many requests. */
export function tooFast(retryAfterMs: number, requests: number): Refusal {
  if (requests === 1) return { code: "rate_limited", retryAfterMs };
  const detail =
    `Requests came faster than the request rate allows: this body counts as ${requests} requests, one for each started ` +
    `${grouped(REQUEST_BODY_BYTES)} bytes after decompression. Send again after Retry-After seconds, or send less.`;
  return { code: "rate_limited", retryAfterMs, detail };
}

function shedRate({ perSecond, burst }: RequestRate): RequestRate {
  return { perSecond: perSecond * SHED_FACTOR, burst: burst * SHED_FACTOR };
}
