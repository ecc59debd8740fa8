/**
 * Takes a step of each chore that is due (chores.ts). One that fails rests before it is tried again, and keeps no other from
 * its turn.
 */
import { errorText, logEvent } from "../platform/log.ts";
import type { FailingChores } from "./failing-chores.ts";

/** A chore of the store's alarm that has failed is tried again after this long. */
export const CHORE_REST_MS = 60_000;

export interface Chore {
  /** Name of the chore in logs and in health. */
  name: string;
  /** When the chore is due, in milliseconds since 1970; null: there is nothing to do. */
  due(nowMs: number): number | null;
  /** Does a bounded part of the chore. */
  step(nowMs: number): void | Promise<void>;
}

export class ChoreRunner {
  readonly #chores: readonly Chore[];
  readonly #workspaceId: string;
  readonly #failing: FailingChores;
  /** Until when a chore that has failed rests, by its name. */
  readonly #restUntilMs = new Map<string, number>();

  constructor(workspaceId: string, failing: FailingChores, chores: readonly Chore[]) {
    this.#workspaceId = workspaceId;
    this.#failing = failing;
    this.#chores = chores;
  }

  /** When the alarm is to ring, in milliseconds since 1970; infinity: never. */
  nextMs(nowMs: number): number {
    return Math.min(...this.#chores.map((chore) => this.#dueMs(chore, nowMs)));
  }

  /** Takes a step of each chore that is due. Never throws: an alarm that throws six times is gone. */
  async run(): Promise<void> {
    for (const chore of this.#chores) {
      const dueMs = this.#dueMs(chore, Date.now());
      try {
        // oxlint-disable-next-line no-await-in-loop -- one after the other: they work on the same lines
        if (dueMs <= Date.now()) await this.#take(chore);
        // What had failed and is due only after any rest is not what had failed: of that nothing is left.
        else if (dueMs > Date.now() + CHORE_REST_MS) this.#failing.succeeded(chore.name);
      } catch (error) {
        this.#failedAt(chore, error);
      }
    }
  }

  /** Lets a chore that has failed rest before it is tried again; health says that it fails, and why. */
  failed(name: string, error: unknown): void {
    this.#restUntilMs.set(name, Date.now() + CHORE_REST_MS);
    try {
      this.#failing.failed(name, errorText(error), Date.now());
    } catch (unwritten) {
      logEvent("notes_failed", { workspace: this.#workspaceId, error: errorText(unwritten) });
    }
  }

  /**
   * Takes a step. Only a chore that rests no longer than before has succeeded: linking, which is not only the alarm's, says
   * by itself that it failed.
   */
  async #take(chore: Chore): Promise<void> {
    const restedUntilMs = this.#restUntilMs.get(chore.name);
    await chore.step(Date.now());
    if (this.#restUntilMs.get(chore.name) === restedUntilMs) this.#failing.succeeded(chore.name);
  }

  /**
   * When a chore is to have its turn. One that cannot say has failed, and is asked again once it has rested: without that,
   * no alarm would be set, for any of them.
   */
  #dueMs(chore: Chore, nowMs: number): number {
    const restUntilMs = this.#restUntilMs.get(chore.name) ?? 0;
    try {
      return Math.max(chore.due(nowMs) ?? Number.POSITIVE_INFINITY, restUntilMs);
    } catch (error) {
      if (restUntilMs > nowMs) return restUntilMs;
      this.#failedAt(chore, error);
      return nowMs + CHORE_REST_MS;
    }
  }

  #failedAt({ name }: Chore, error: unknown): void {
    logEvent("chore_failed", { workspace: this.#workspaceId, chore: name, error: errorText(error) });
    this.failed(name, error);
  }
}
