import { RETRY_MAX_SECONDS, RETRY_MIN_SECONDS } from "../limits.ts";

export class TimeLimitExceeded extends Error {}

/** After the timeout the work continues and its result is ignored. On the hot path: one promise and one timer. */
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

/** @param attempt number of failures so far, from 1. */
export function retryDelaySeconds(attempt: number): number {
  return Math.min(RETRY_MAX_SECONDS, RETRY_MIN_SECONDS * 2 ** (attempt - 1));
}
