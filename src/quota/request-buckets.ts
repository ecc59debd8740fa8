/** The request rate of each key. It is not stored: an object idle long enough to be evicted has full buckets. */
import { requestsLeft, takeRequest } from "../domain/quota/request-rate.ts";
import type { RateDecision, RateState, RequestRate } from "../domain/quota/request-rate.ts";

export class RequestBuckets {
  readonly #rate: RequestRate;
  readonly #emptyAtMs = new Map<string, number>();

  constructor(rate: RequestRate) {
    this.#rate = rate;
  }

  /** @param requests how many requests the call counts as. */
  take(
    keyId: string,
    nowMs: number,
    requests = 1,
  ): { taken: Pick<RateDecision, "allowed" | "retryAfterMs">; rate: RateState } {
    const decision = takeRequest(this.#emptyAtMs.get(keyId) ?? 0, nowMs, this.#rate, requests);
    this.#emptyAtMs.set(keyId, decision.emptyAtMs);
    return { taken: decision, rate: { remaining: decision.remaining, resetMs: decision.resetMs } };
  }

  left(keyId: string, nowMs: number): RateState {
    return requestsLeft(this.#emptyAtMs.get(keyId) ?? 0, nowMs, this.#rate);
  }
}
