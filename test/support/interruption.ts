/**
 * One interruption of an operation: a call of D1 or of an object fails after it took effect, or all objects are
 * killed at that moment. Calls of the Worker and of the Signal Store share one count.
 */
import { abortAllDurableObjects } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { withBindings } from "./cold.ts";
import { until } from "./until.ts";

export type Harm = "fails" | "is the last before a crash";

type Method = (...given: unknown[]) => unknown;

const BOUND_CALLS = ["run", "all", "raw", "first"];

export class Interruption {
  readonly #at: number;
  readonly #harm: Harm;
  #hasCrashed = false;
  #calls = 0;

  /** @param at number of the call that is harmed, from 0. */
  constructor(at: number, harm: Harm) {
    this.#at = at;
    this.#harm = harm;
  }

  /** Whether the operation has reached that call. */
  get hasHappened(): boolean {
    return this.#calls > this.#at;
  }

  /** Bindings for the Worker and, until a restart, for the workspace's store. */
  async #bindings(workspaceId: string): Promise<Env> {
    const objects = (namespace: { getByName(name: string): object }) => ({
      getByName: (name: string) => this.#object(namespace.getByName(name)),
    });
    const bindings = {
      DB: this.#database(),
      QUOTA_COUNTER: objects(env.QUOTA_COUNTER),
      DESTINATIONS: objects(env.DESTINATIONS),
    } as unknown as Partial<Env>;
    await withBindings(workspaceId, bindings);
    return { ...env, ...bindings, SIGNAL_STORE: objects(env.SIGNAL_STORE) } as unknown as Env;
  }

  /** Runs the operation and then restarts all objects, so that no later call is interrupted. */
  async run(workspaceId: string, operation: (bindings: Env) => Promise<unknown>): Promise<void> {
    let isOver = false;
    const bindings = await this.#bindings(workspaceId);
    void operation(bindings)
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

  #object(stub: object): object {
    return new Proxy(stub, {
      get: (target, name) => {
        const method = Reflect.get(target, name) as Method;
        return (...given: unknown[]) => this.#call(() => Reflect.apply(method, target, given));
      },
    });
  }

  #database(): D1Database {
    const originals = new WeakMap<object, D1PreparedStatement>();
    const statement = (original: D1PreparedStatement): D1PreparedStatement => {
      const harmed = new Proxy(original, {
        get: (target, name) => {
          const method = Reflect.get(target, name) as Method;
          if (name === "bind") return (...given: unknown[]) => statement(target.bind(...given));
          if (!BOUND_CALLS.includes(String(name))) return method;
          return (...given: unknown[]) => this.#call(() => Reflect.apply(method, target, given));
        },
      });
      originals.set(harmed, original);
      return harmed;
    };
    const originalOf = (metered: D1PreparedStatement) => originals.get(metered) ?? metered;
    return {
      prepare: (query: string) => statement(env.DB.prepare(query)),
      batch: (all: D1PreparedStatement[]) => this.#call(() => env.DB.batch(all.map(originalOf))),
    } as unknown as D1Database;
  }
}
