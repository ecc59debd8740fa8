/**
 * A clock that stands still while code runs. Once every caller waits for a call that never returns, the clock jumps to
 * the end of the next time limit. So hours of waiting take milliseconds. Short timers are real.
 */
import { vi } from "vitest";

/** A timer of at least this length follows the test clock, a shorter one real time. */
const LONG_MS = 1_000;
const TICK_MS = 2;
/** Idle ticks before the clock jumps if no call is known to hang. */
const LONG_QUIET_TICKS = 150;

export class WaitingClock {
  readonly #quietTicks: number;
  readonly #setTimeout = globalThis.setTimeout;
  readonly #clearTimeout = globalThis.clearTimeout;
  /** The due time of each long timer, by handle. */
  readonly #dueMs = new Map<number, number>();
  #lastHandle = 1_000_000_000;
  /** Waiting callers that have not given up. */
  #hung = 0;

  /**
   * @param quietTicks idle ticks before the clock jumps while a call is known to hang. With too few ticks a time limit can
   * end while a slow object still works, which is one more fault. A test that counts faults needs more ticks.
   */
  constructor(quietTicks = 3) {
    this.#quietTicks = quietTicks;
  }

  begin(nowMs: number): void {
    vi.useFakeTimers({ toFake: ["Date"], now: nowMs });
    globalThis.setTimeout = ((callback: (...given: unknown[]) => void, ms = 0, ...given: unknown[]) =>
      ms < LONG_MS
        ? this.#setTimeout(callback, ms, ...given)
        : this.#long(callback, ms, given)) as unknown as typeof setTimeout;
    globalThis.clearTimeout = ((handle: number) => {
      if (!this.#dueMs.delete(handle)) this.#clearTimeout(handle);
    }) as typeof clearTimeout;
  }

  end(): void {
    globalThis.setTimeout = this.#setTimeout;
    globalThis.clearTimeout = this.#clearTimeout;
    this.#dueMs.clear();
    vi.useRealTimers();
  }

  /** A call never returns: only a time limit helps. */
  hung(): void {
    this.#hung++;
  }

  forgetHung(): void {
    this.#hung = 0;
  }

  pass(ms: number): void {
    vi.setSystemTime(Date.now() + ms);
  }

  /** Waits in real time, not by this clock. */
  really(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#setTimeout(resolve, ms));
  }

  /**
   * Watches `work`: when nothing moves any more although a caller waits, jumps to the next time limit.
   *
   * @param activity changes with every event; null: a real call is in progress.
   */
  async watch<T>(work: Promise<T>, activity: () => number | null): Promise<T> {
    const watched = { done: false };
    const ended = (): void => void (watched.done = true);
    work.then(ended, ended);
    for (let quiet = 0, before = activity(); !watched.done;) {
      await this.really(TICK_MS);
      const now = activity();
      quiet = now === before ? quiet + 1 : 0;
      before = now;
      // A call in progress may belong to an object or request that has ended, and is then never answered.
      if (quiet < (this.#hung > 0 && now !== null ? this.#quietTicks : LONG_QUIET_TICKS)) continue;
      quiet = 0;
      this.#jump();
    }
    return work;
  }

  #jump(): void {
    // Overdue timers check the clock themselves, or belong to an object that is gone.
    const nowMs = Date.now();
    const nextMs = Math.min(...[...this.#dueMs.values()].filter((dueMs) => dueMs > nowMs));
    if (nextMs < Number.POSITIVE_INFINITY) vi.setSystemTime(nextMs);
  }

  /** Runs in the context that set the timer: a timer of an object belongs to that object. */
  #long(callback: (...given: unknown[]) => void, ms: number, given: unknown[]): number {
    const handle = ++this.#lastHandle;
    const dueMs = Date.now() + ms;
    this.#dueMs.set(handle, dueMs);
    const look = (): void => {
      if (!this.#dueMs.has(handle)) return;
      if (Date.now() < dueMs) {
        this.#setTimeout(look, TICK_MS);
        return;
      }
      this.#dueMs.delete(handle);
      this.#hung = Math.max(0, this.#hung - 1);
      callback(...given);
    };
    this.#setTimeout(look, TICK_MS);
    return handle;
  }
}
