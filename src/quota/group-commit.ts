/**
 * Lets the calls that arrive within one turn of the event loop share a commit. A call that comes alone, as those of a
 * sender that waits for each answer do, is committed at once: waiting for company would double its answer time.
 */

interface Waiter<Call, Result> {
  call: Call;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}

export class GroupCommit<Call, Result> {
  readonly #commit: (calls: Call[]) => Result[];
  #waiting: Waiter<Call, Result>[] = [];
  #gathering = false;
  /** Whether the last call that was waited for had no company. */
  #alone = true;

  /** @param commit gives one result for each call; when it throws, all of them fail. */
  constructor(commit: (calls: Call[]) => Result[]) {
    this.#commit = commit;
  }

  submit(call: Call): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ call, resolve, reject });
      if (!this.#gathering) this.#gather();
    });
  }

  #gather(): void {
    this.#gathering = true;
    const alone = this.#alone;
    if (alone) this.#commitWaiting();
    setTimeout(() => {
      this.#gathering = false;
      const company = this.#waiting.length;
      this.#alone = alone ? company === 0 : company <= 1;
      if (company > 0) this.#commitWaiting();
    }, 0);
  }

  #commitWaiting(): void {
    const waiters = this.#waiting;
    this.#waiting = [];
    try {
      const results = this.#commit(waiters.map((waiter) => waiter.call));
      waiters.forEach((waiter, index) => waiter.resolve(results[index] as Result));
    } catch (error) {
      for (const waiter of waiters) waiter.reject(error);
    }
  }
}
