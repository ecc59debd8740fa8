/** Back-off of everything that goes through the queue. */
import { RETRY_MAX_SECONDS, RETRY_MIN_SECONDS } from "../limits.ts";

/** Seconds to wait after the `attempt`-th failure, from 1: doubling, with an upper bound. */
export function retryDelaySeconds(attempt: number): number {
  return Math.min(RETRY_MAX_SECONDS, RETRY_MIN_SECONDS * 2 ** (attempt - 1));
}
