/** The request rate of each key. It is not stored: an object idle long enough to be evicted has full buckets. */
import { FULL_BUCKET, requestsLeft, takeRequest } from "../domain/quota/request-rate.ts";
import type { RateBucket, RateDecision, RateState, RequestRate } from "../domain/quota/request-rate.ts";

export class RequestBuckets {
  readonly #rate: RequestRate;
  readonly #buckets = new Map<string, RateBucket>();

  constructor(rate: RequestRate) {
    this.#rate = rate;
  }

  /** @param requests how many requests the call counts as. */
  take(
    keyId: string,
    nowMs: number,
    requests = 1,
  ): { taken: Pick<RateDecision, "allowed" | "retryAfterMs">; rate: RateState } {
    const decision = takeRequest(this.#buckets.get(keyId) ?? FULL_BUCKET, nowMs, this.#rate, requests);
    this.#buckets.set(keyId, decision.bucket);
    return { taken: decision, rate: { remaining: decision.remaining, resetMs: decision.resetMs } };
  }

  left(keyId: string, nowMs: number): RateState {
    return requestsLeft(this.#buckets.get(keyId) ?? FULL_BUCKET, nowMs, this.#rate);
  }
}
