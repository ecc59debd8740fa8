/** Calls of bindings that fail. For the caller, a call that fails after its effect is a crash at that point. */
import { env } from "cloudflare:workers";
import { intercept, type Call } from "./intercept.ts";

export type Fault = "none" | "before" | "after";

/** Uses up a list of faults, one per call of any caller. After that every call succeeds. */
export class Faults {
  readonly #faults: Fault[];

  constructor(faults: readonly Fault[]) {
    this.#faults = [...faults];
  }

  /** Bindings for the consumer: D1 and both objects. */
  forConsumer(): Env {
    const { DB, SIGNAL_STORE, QUOTA_COUNTER } = env;
    return { ...env, ...this.#failing({ DB, SIGNAL_STORE, QUOTA_COUNTER }) };
  }

  /** Bindings for the store: D1 and R2. */
  forStore(): Partial<Env> {
    const { DB, COLD } = env;
    return this.#failing({ DB, COLD });
  }

  #failing<T extends object>(bindings: T): T {
    const failing = Object.entries(bindings).map(([name, binding]) => [
      name,
      intercept(binding as object, (call) => this.#call(call)),
    ]);
    return Object.fromEntries(failing) as T;
  }

  async #call({ make }: Call): Promise<unknown> {
    const fault = this.#faults.shift() ?? "none";
    if (fault === "before") throw new Error("crash before the call");
    const answer = await make();
    if (fault === "after") throw new Error("crash after the call");
    return answer;
  }
}

/** D1 whose matching statements fail, alone and in a batch. */
export function d1Failing(failing: RegExp, message: string): D1Database {
  return intercept(env.DB, ({ statements, make }) =>
    statements.some(({ query }) => failing.test(query)) ? Promise.reject(new Error(message)) : make(),
  );
}
