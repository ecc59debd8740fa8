/** Runs the chores of the alarm (chores.ts). A chore that fails rests before a retry and does not block the others. */
import type { FailingJob } from "../domain/health/alarm.ts";
import { errorText, logEvent } from "../platform/log.ts";

/** Delay before a failed chore is retried. */
export const CHORE_REST_MS = 60_000;
const FAILURE_MAX_CHARACTERS = 300;
const FAILING_KEY = "failing_chores";

export interface Chore {
  /** Name in logs and in health. */
  name: string;
  /** When the chore is due, in milliseconds since 1970; null: nothing to do. */
  due(nowMs: number): number | null;
  /** Does a bounded part of the work. */
  step(nowMs: number): void | Promise<void>;
}

export class ChoreRunner {
  readonly #chores: readonly Chore[];
  readonly #workspaceId: string;
  readonly #failing: FailingChores;
  /** When the rest of a failed chore ends, by name. */
  readonly #restUntilMs = new Map<string, number>();

  constructor(workspaceId: string, failing: FailingChores, chores: readonly Chore[]) {
    this.#workspaceId = workspaceId;
    this.#failing = failing;
    this.#chores = chores;
  }

  /** When the next chore is due, in milliseconds since 1970; infinity: never. */
  nextMs(nowMs: number): number {
    return Math.min(...this.#chores.map((chore) => this.#dueMs(chore, nowMs)));
  }

  /** Takes a step of each chore that is due. Never throws: the platform drops an alarm that has thrown six times. */
  async run(): Promise<void> {
    for (const chore of this.#chores) {
      const dueMs = this.#dueMs(chore, Date.now());
      try {
        // oxlint-disable-next-line no-await-in-loop -- chores work on the same lines
        if (dueMs <= Date.now()) await this.#step(chore);
        // A chore that is due later than a retry has nothing left of the work that failed.
        else if (dueMs > Date.now() + CHORE_REST_MS) this.#failing.succeeded(chore.name);
      } catch (error) {
        this.#choreFailed(chore, error);
      }
    }
  }

  /** Lets a failed chore rest, and notes the failure for health. */
  failed(name: string, error: unknown): void {
    this.#restUntilMs.set(name, Date.now() + CHORE_REST_MS);
    try {
      this.#failing.failed(name, errorText(error), Date.now());
    } catch (writeError) {
      logEvent("notes_failed", { workspace: this.#workspaceId, error: errorText(writeError) });
    }
  }

  /** Some steps catch their errors and call `failed` themselves. Then the rest has moved, and the chore has not succeeded. */
  async #step(chore: Chore): Promise<void> {
    const restBeforeMs = this.#restUntilMs.get(chore.name);
    await chore.step(Date.now());
    if (this.#restUntilMs.get(chore.name) === restBeforeMs) this.#failing.succeeded(chore.name);
  }

  /** If `due` throws, the chore fails and rests. Otherwise no alarm would be set for any chore. */
  #dueMs(chore: Chore, nowMs: number): number {
    const restUntilMs = this.#restUntilMs.get(chore.name) ?? 0;
    try {
      return Math.max(chore.due(nowMs) ?? Number.POSITIVE_INFINITY, restUntilMs);
    } catch (error) {
      if (restUntilMs > nowMs) return restUntilMs;
      this.#choreFailed(chore, error);
      return nowMs + CHORE_REST_MS;
    }
  }

  #choreFailed({ name }: Chore, error: unknown): void {
    logEvent("chore_failed", { workspace: this.#workspaceId, chore: name, error: errorText(error) });
    this.failed(name, error);
  }
}

/**
 * Chores that have failed since they last succeeded, for health. Stored, because the object may leave memory between two retries.
 * A row is written only when the list changes.
 */
export class FailingChores {
  readonly #kv: SyncKvStorage;
  #failing: FailingJob[] | null = null;

  constructor(kv: SyncKvStorage) {
    this.#kv = kv;
  }

  list(): readonly FailingJob[] {
    return (this.#failing ??= this.#kv.get<FailingJob[]>(FAILING_KEY) ?? []);
  }

  /** Keeps only the first failure since the last success. */
  failed(job: string, error: string, nowMs: number): void {
    if (this.list().some((failing) => failing.job === job)) return;
    this.#put([...this.list(), { job, sinceMs: nowMs, error: error.slice(0, FAILURE_MAX_CHARACTERS) }]);
  }

  succeeded(job: string): void {
    const remaining = this.list().filter((failing) => failing.job !== job);
    if (remaining.length < this.list().length) this.#put(remaining);
  }

  #put(failing: FailingJob[]): void {
    this.#kv.put(FAILING_KEY, failing);
    this.#failing = failing;
  }
}
