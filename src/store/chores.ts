/** Runs the chores of the store's alarm. A failed chore rests before its retry and does not block the others. */
import type { FailingJob } from "../domain/health/alarm.ts";
import { errorText, logEvent } from "../platform/log.ts";

export const CHORE_REST_MS = 60_000;
const FAILURE_MAX_CHARACTERS = 300;
const FAILING_KEY = "failing_chores";

interface Chore {
  /** Shown in logs and in health. */
  name: string;
  failureEvent?: string;
  /** When the chore is due, in milliseconds since 1970; null: nothing to do. */
  due(nowMs: number): number | null;
  step(nowMs: number): void | Promise<void>;
}

/** Chores that have failed since they last succeeded. Stored, because the object may leave memory between two retries. */
export function failingChores(kv: SyncKvStorage): FailingJob[] {
  return kv.get<FailingJob[]>(FAILING_KEY) ?? [];
}

export class ChoreRunner {
  readonly #workspaceId: string;
  readonly #kv: SyncKvStorage;
  readonly #chores: readonly Chore[];
  readonly #restUntilMs = new Map<Chore, number>();
  readonly #running = new Map<Chore, Promise<void>>();
  #failing: FailingJob[];

  constructor(workspaceId: string, kv: SyncKvStorage, chores: readonly Chore[]) {
    this.#workspaceId = workspaceId;
    this.#kv = kv;
    this.#failing = failingChores(kv);
    this.#chores = chores;
  }

  nextDueMs(nowMs: number): number {
    return Math.min(...this.#chores.map((chore) => this.#dueMs(chore, nowMs)));
  }

  /** Takes a step of each chore that is due. Never throws: the platform drops an alarm that has thrown six times. */
  async run(): Promise<void> {
    for (const chore of this.#chores) {
      const dueMs = this.#dueMs(chore, Date.now());
      // oxlint-disable-next-line no-await-in-loop -- chores work on the same lines
      if (dueMs <= Date.now()) await this.#takeStep(chore);
      // A failed chore without work is healthy again. A chore that is due within a minute may rest after a failure.
      else if (dueMs > Date.now() + CHORE_REST_MS) this.#noteSuccess(chore);
    }
  }

  /** Takes a step of a chore that begins after this call. Never throws. */
  async runNow(name: string): Promise<void> {
    const chore = this.#chores.find((candidate) => candidate.name === name);
    if (chore === undefined) return;
    await this.#running.get(chore);
    // Callers that waited for the same step share the next step.
    await this.#takeStep(chore);
  }

  /** If `due` throws, the chore fails and rests. Otherwise no alarm would be set for any chore. */
  #dueMs(chore: Chore, nowMs: number): number {
    // The alarm repeats a running step that a crash of the object ends.
    const restUntilMs = this.#running.has(chore) ? nowMs + CHORE_REST_MS : (this.#restUntilMs.get(chore) ?? 0);
    try {
      return Math.max(chore.due(nowMs) ?? Number.POSITIVE_INFINITY, restUntilMs);
    } catch (error) {
      if (restUntilMs > nowMs) return restUntilMs;
      this.#noteFailure(chore, error);
      return nowMs + CHORE_REST_MS;
    }
  }

  #takeStep(chore: Chore): Promise<void> {
    const running = this.#running.get(chore) ?? this.#step(chore).finally(() => this.#running.delete(chore));
    this.#running.set(chore, running);
    return running;
  }

  async #step(chore: Chore): Promise<void> {
    try {
      await chore.step(Date.now());
      this.#noteSuccess(chore);
    } catch (error) {
      this.#noteFailure(chore, error);
    }
  }

  /** Lets a failed chore rest, and stores its first failure since the last success. */
  #noteFailure(chore: Chore, thrown: unknown): void {
    const { name: job, failureEvent = "chore_failed" } = chore;
    const [sinceMs, error] = [Date.now(), errorText(thrown)];
    logEvent(failureEvent, { workspace: this.#workspaceId, chore: job, error });
    this.#restUntilMs.set(chore, sinceMs + CHORE_REST_MS);
    if (this.#failing.some((failing) => failing.job === job)) return;
    this.#setFailing([...this.#failing, { job, sinceMs, error: error.slice(0, FAILURE_MAX_CHARACTERS) }]);
  }

  #noteSuccess(chore: Chore): void {
    this.#restUntilMs.delete(chore);
    const remaining = this.#failing.filter(({ job }) => job !== chore.name);
    if (remaining.length < this.#failing.length) this.#setFailing(remaining);
  }

  #setFailing(failing: FailingJob[]): void {
    try {
      this.#kv.put(FAILING_KEY, failing);
      this.#failing = failing;
    } catch (error) {
      logEvent("notes_failed", { workspace: this.#workspaceId, error: errorText(error) });
    }
  }
}
