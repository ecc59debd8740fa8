/**
 * Runs the chores of the store's alarm. A chore that fails rests before a retry and does not block the others. Failing chores are stored
 * for health, because the object may leave memory between two retries.
 */
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

/** Chores that have failed since they last succeeded, with their first failure. */
export function failingChores(kv: SyncKvStorage): FailingJob[] {
  return kv.get<FailingJob[]>(FAILING_KEY) ?? [];
}

export class ChoreRunner {
  readonly #workspaceId: string;
  readonly #kv: SyncKvStorage;
  readonly #chores: readonly Chore[];
  /** When the rest of a failed chore ends, by name. */
  readonly #restUntilMs = new Map<string, number>();
  #failing: FailingJob[];

  /** @param chores in the order in which they run. */
  constructor(workspaceId: string, kv: SyncKvStorage, chores: readonly Chore[]) {
    this.#workspaceId = workspaceId;
    this.#kv = kv;
    this.#failing = failingChores(kv);
    this.#chores = chores;
  }

  /** When the next chore is due, in milliseconds since 1970; infinity: never. */
  nextMs(nowMs: number): number {
    return Math.min(...this.#chores.map((chore) => this.#dueMs(chore, nowMs)));
  }

  /** Takes a step of each chore that is due. Never throws: the platform drops an alarm that has thrown six times. */
  async run(): Promise<void> {
    for (const chore of this.#chores) {
      const { name } = chore;
      const dueMs = this.#dueMs(chore, Date.now());
      const restMs = this.#restUntilMs.get(name);
      try {
        // oxlint-disable-next-line no-await-in-loop -- chores work on the same lines
        if (dueMs <= Date.now()) await chore.step(Date.now());
        // Until then a failed chore may still have to retry.
        else if (dueMs <= Date.now() + CHORE_REST_MS) continue;
        // Some steps catch their errors and call `failed` themselves, which moves the end of the rest.
        if (this.#restUntilMs.get(name) === restMs) this.#succeeded(name);
      } catch (error) {
        this.#choreFailed(name, error);
      }
    }
  }

  /** Lets a failed chore rest, and stores its first failure since the last success. */
  failed(name: string, error: unknown): void {
    const sinceMs = Date.now();
    this.#restUntilMs.set(name, sinceMs + CHORE_REST_MS);
    if (this.#failing.some(({ job }) => job === name)) return;
    const failure = { job: name, sinceMs, error: errorText(error).slice(0, FAILURE_MAX_CHARACTERS) };
    try {
      this.#setFailing([...this.#failing, failure]);
    } catch (writeError) {
      logEvent("notes_failed", { workspace: this.#workspaceId, error: errorText(writeError) });
    }
  }

  /** If `due` throws, the chore fails and rests. Otherwise no alarm would be set for any chore. */
  #dueMs(chore: Chore, nowMs: number): number {
    const restUntilMs = this.#restUntilMs.get(chore.name) ?? 0;
    try {
      return Math.max(chore.due(nowMs) ?? Number.POSITIVE_INFINITY, restUntilMs);
    } catch (error) {
      if (restUntilMs > nowMs) return restUntilMs;
      this.#choreFailed(chore.name, error);
      return nowMs + CHORE_REST_MS;
    }
  }

  #choreFailed(name: string, error: unknown): void {
    logEvent("chore_failed", { workspace: this.#workspaceId, chore: name, error: errorText(error) });
    this.failed(name, error);
  }

  #succeeded(name: string): void {
    const remaining = this.#failing.filter(({ job }) => job !== name);
    if (remaining.length < this.#failing.length) this.#setFailing(remaining);
  }

  /** A row is written only if the list changes. */
  #setFailing(failing: FailingJob[]): void {
    this.#kv.put(FAILING_KEY, failing);
    this.#failing = failing;
  }
}
