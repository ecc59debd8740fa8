/**
 * What the store's alarm does: a table of chores, each with when it is due and one bounded step of it. One that fails rests
 * before it is tried again, and keeps no other from its turn.
 */
import { errorText, logEvent } from "../platform/log.ts";
import { CHORE_REST_MS } from "../limits.ts";
import type { FailingChores } from "./failing-chores.ts";

export interface Chore {
  /** Of the log event, should it fail. */
  name: string;
  /** When there is something to do, in milliseconds since 1970; null when there is nothing. */
  due(nowMs: number): number | null;
  /** A bounded part of it. */
  step(nowMs: number): void | Promise<void>;
}

export class Chores {
  readonly #chores: readonly Chore[];
  readonly #workspaceId: string;
  readonly #failing: FailingChores;
  /** Until then a chore that has failed is let alone. */
  readonly #restUntilMs = new Map<string, number>();

  constructor(workspaceId: string, failing: FailingChores, chores: readonly Chore[]) {
    this.#workspaceId = workspaceId;
    this.#failing = failing;
    this.#chores = chores;
  }

  /** When the alarm is to ring; infinity: never. */
  nextMs(nowMs: number): number {
    return Math.min(...this.#chores.map((chore) => this.#dueMs(chore, nowMs)));
  }

  /** A step of each that is due. Never throws: an alarm that throws six times is gone. */
  async run(): Promise<void> {
    for (const chore of this.#chores) {
      try {
        // oxlint-disable-next-line no-await-in-loop -- one after the other: they work on the same lines
        if (this.#dueMs(chore, Date.now()) <= Date.now()) await this.#take(chore);
      } catch (error) {
        logEvent("chore_failed", { workspace: this.#workspaceId, chore: chore.name, error: errorText(error) });
        this.failed(chore.name, error);
      }
    }
  }

  /** It rests before it is tried again, and health says that it fails, and why. */
  failed(name: string, error: unknown): void {
    this.#restUntilMs.set(name, Date.now() + CHORE_REST_MS);
    try {
      this.#failing.failed(name, errorText(error), Date.now());
    } catch (unwritten) {
      logEvent("notes_failed", { workspace: this.#workspaceId, error: errorText(unwritten) });
    }
  }

  /** A chore may have said by itself that it failed, as linking does, which is not only the alarm's. */
  async #take(chore: Chore): Promise<void> {
    const restedUntilMs = this.#restUntilMs.get(chore.name);
    await chore.step(Date.now());
    if (this.#restUntilMs.get(chore.name) === restedUntilMs) this.#failing.succeeded(chore.name);
  }

  #dueMs(chore: Chore, nowMs: number): number {
    const due = chore.due(nowMs) ?? Number.POSITIVE_INFINITY;
    return Math.max(due, this.#restUntilMs.get(chore.name) ?? 0);
  }
}
