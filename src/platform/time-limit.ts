/** Time limits and retry delays of calls. */
import { RETRY_MAX_SECONDS, RETRY_MIN_SECONDS } from "../limits.ts";

export class TimeLimitExceeded extends Error {}

/**
 * Settles as `work` does, or fails after `maxMs`. The work continues after the timeout; its result is ignored. Each signal's
 * call uses it, so it costs only one promise and one timer.
 */
export function within<T>(maxMs: number, work: PromiseLike<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new TimeLimitExceeded(`no answer within ${maxMs} ms`)), maxMs);
    work.then(
      // oxlint-disable-next-line promise/always-return -- the caller gets the outer promise
      (result) => {
        clearTimeout(timer);
        resolve(result);
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error instanceof Error ? error : new Error(String(error)));
      },
    );
  });
}

/** Seconds to wait after the `attempt`-th failure, from 1: doubling, with an upper bound. */
export function retryDelaySeconds(attempt: number): number {
  return Math.min(RETRY_MAX_SECONDS, RETRY_MIN_SECONDS * 2 ** (attempt - 1));
}
