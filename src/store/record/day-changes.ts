/** Adds up what a batch changes in counts per day, so that each row is written once. */
import { addToDays, dayOf } from "../../domain/day-counts.ts";
import type { DayCounts } from "../../domain/day-counts.ts";

export class DayChanges {
  readonly #changes = new Map<number, number>();

  add(atMs: number, by: number): void {
    const day = dayOf(atMs);
    this.#changes.set(day, (this.#changes.get(day) ?? 0) + by);
  }

  /** Whether the changes cancel each other out, or there are none. */
  get isNothing(): boolean {
    return [...this.#changes.values()].every((by) => by === 0);
  }

  applyTo(stored: DayCounts): DayCounts {
    return addToDays(stored, this.#changes);
  }
}
