/**
 * Which chores have failed since they last succeeded: what health says of them. Stored, since an object that rests between
 * two attempts may lose its memory; a row is written when that changes, and none while all is well.
 */
import type { FailingJob } from "../domain/health/alarm.ts";

/** Characters that are kept of why a chore fails. */
const FAILURE_MAX_CHARACTERS = 300;

const KEY = "failing_chores";

export class FailingChores {
  readonly #kv: SyncKvStorage;
  /** The stored list; null: it has not been asked for yet. */
  #failing: FailingJob[] | null = null;

  constructor(kv: SyncKvStorage) {
    this.#kv = kv;
  }

  list(): readonly FailingJob[] {
    return (this.#failing ??= this.#kv.get<FailingJob[]>(KEY) ?? []);
  }

  /** Notes that a chore failed. Only its first failure since it last succeeded is kept, which says since when and why. */
  failed(job: string, error: string, nowMs: number): void {
    if (this.list().some((one) => one.job === job)) return;
    this.#put([...this.list(), { job, sinceMs: nowMs, error: error.slice(0, FAILURE_MAX_CHARACTERS) }]);
  }

  succeeded(job: string): void {
    if (this.list().some((one) => one.job === job)) this.#put(this.list().filter((one) => one.job !== job));
  }

  #put(failing: FailingJob[]): void {
    this.#kv.put(KEY, failing);
    this.#failing = failing;
  }
}
