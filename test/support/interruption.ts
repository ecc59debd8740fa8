/**
 * One interruption of an operation: a call of D1 or of an object fails after it took effect, or all objects are
 * killed at that moment. Calls of the Worker and of the Signal Store share one count.
 */
import { abortAllDurableObjects, runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { withBindings } from "./cold.ts";
import { intercept } from "./intercept.ts";
import { restart } from "./restart.ts";
import { until } from "./until.ts";

export type Harm = "fails" | "is the last before a crash";

export class Interruption {
  readonly #at: number;
  readonly #harm: Harm;
  readonly #withR2: boolean;
  #hasCrashed = false;
  #calls = 0;

  /** @param at number of the call that is harmed, from 0. @param options whether calls of R2 count too. */
  constructor(at: number, harm: Harm, { withR2 = false } = {}) {
    this.#at = at;
    this.#harm = harm;
    this.#withR2 = withR2;
  }

  /** Whether the operation has reached that call. */
  get hasHappened(): boolean {
    return this.#calls > this.#at;
  }

  /** Bindings for the Worker and, until a restart, for the workspace's store. */
  async #bindings(workspaceId: string): Promise<Env> {
    const harmed = <T extends object>(binding: T): T => intercept(binding, ({ make }) => this.#call(make));
    const { DB, QUOTA_COUNTER, DESTINATIONS, SIGNAL_STORE, COLD } = env;
    const objects = { QUOTA_COUNTER: harmed(QUOTA_COUNTER), DESTINATIONS: harmed(DESTINATIONS) };
    const bindings = { DB: harmed(DB), ...objects, ...(this.#withR2 && { COLD: harmed(COLD) }) };
    // The store's parts keep the bindings that they began with.
    await restart(SIGNAL_STORE.getByName(workspaceId));
    await withBindings(workspaceId, bindings);
    return { ...env, ...bindings, SIGNAL_STORE: harmed(SIGNAL_STORE) };
  }

  /** Runs the operation and the store's alarm, and then restarts all objects, so that no later call is interrupted. */
  async run(workspaceId: string, operation: (bindings: Env) => Promise<unknown>): Promise<void> {
    let isOver = false;
    const bindings = await this.#bindings(workspaceId);
    void operation(bindings)
      .catch(() => undefined)
      .then(() => runDurableObjectAlarm(env.SIGNAL_STORE.getByName(workspaceId)))
      .catch(() => undefined)
      .finally(() => (isOver = true));
    // A poll, because continuing within the interrupted call would kill the object from inside and the runtime with
    // it.
    await until(() => {
      if (!isOver && !this.#hasCrashed) throw new Error("neither over nor harmed");
    });
    await abortAllDurableObjects();
  }

  async #call(make: () => unknown): Promise<unknown> {
    const harm = this.#calls++ === this.#at ? this.#harm : null;
    const answer: unknown = await make();
    if (harm === "fails") throw new Error("interrupted after the call");
    if (harm === null) return answer;
    this.#hasCrashed = true;
    return new Promise(() => {});
  }
}
