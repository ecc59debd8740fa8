/**
 * A Signal Store that verifies after each call that it knows of all work of its alarm. Code that makes work for a chore and does not
 * say so (src/store/state/due.ts) fails the test, with the chore's name.
 */
import { expect } from "vitest";
import { SignalStore } from "../../src/dev/worker/shifted-objects.ts";
import type { ChoreName, NextDue } from "../../src/store/state/due.ts";
import type { StoreState } from "../../src/store/state/store-state.ts";

const unknown: string[] = [];

export class VerifiedStore extends SignalStore {
  /** The state of a test that calls the store's parts without the object; null: the object's own. */
  #testState: StoreState | null = null;

  protected override get state(): StoreState {
    return this.#testState ?? super.state;
  }

  protected override get due(): NextDue {
    return this.#testState?.due ?? super.due;
  }

  override unknownWork(): ChoreName[] {
    return super.unknownWork();
  }

  noteUnknownWork(call: string): void {
    for (const chore of this.unknownWork()) unknown.push(`${chore} after ${call}`);
  }

  /** Verifies the work that a test has made with the store's parts. Without the object, nothing forwards notifications. */
  noteUnknownWorkOf(state: StoreState): void {
    this.#testState = state;
    const chores = this.unknownWork().filter((chore) => chore !== "forward");
    unknown.push(...chores);
    this.#testState = null;
  }
}

/** Calls that make work, and those that do it. */
const CALLS = [
  "record",
  "configure",
  "link",
  "deletePerson",
  "resend",
  "applyRule",
  "wantNotifications",
  "markLostPayloads",
  "alarm",
] as const;

for (const call of CALLS) {
  Object.defineProperty(VerifiedStore.prototype, call, {
    value(this: VerifiedStore, ...args: unknown[]) {
      // Read at each call, because a test may replace it.
      const result = Reflect.apply(SignalStore.prototype[call], this, args) as unknown;
      if (result instanceof Promise) {
        return result.then((value: unknown) => {
          this.noteUnknownWork(call);
          return value;
        });
      }
      this.noteUnknownWork(call);
      return result;
    },
  });
}

/** Fails if a store did not know of work that one of its calls had made. */
export function expectKnownWork(): void {
  expect(unknown.splice(0)).toEqual([]);
}
