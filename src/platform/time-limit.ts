/** A limit to the time that a call of something else may take. */

/** Why `within` fails when the work takes too long. */
export class TimeLimitExceeded extends Error {}

/**
 * Settles as `work` does, or fails when that takes longer than `maxMs`; the work itself goes on, and its
 * result is ignored. Each signal's call comes through here: one promise and one timer is all that it takes.
 */
export function within<T>(maxMs: number, work: PromiseLike<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new TimeLimitExceeded(`no answer within ${maxMs} ms`)), maxMs);
    work.then(
      // oxlint-disable-next-line promise/always-return -- what follows is the promise that is given back
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
