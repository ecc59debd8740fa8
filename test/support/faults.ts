/**
 * Crashes at the awaits of the consumer and the store: calls of their bindings fail before they take effect, or after
 * it, so that the caller does not learn the result. For the caller such a failure is a crash at that point.
 */
import { env } from "cloudflare:workers";

export type Fault = "none" | "before" | "after";

/** Uses up a list of faults, one per call of any caller. After that every call succeeds. */
export class Faults {
  readonly #faults: Fault[];

  constructor(faults: readonly Fault[]) {
    this.#faults = [...faults];
  }

  /** Bindings for the consumer: D1 and both objects. */
  forConsumer(): Env {
    const objects = (namespace: { getByName(name: string): object }) => ({
      getByName: (name: string) => this.#calls(namespace.getByName(name)),
    });
    return {
      ...env,
      DB: this.#calls(env.DB),
      SIGNAL_STORE: objects(env.SIGNAL_STORE),
      QUOTA_COUNTER: objects(env.QUOTA_COUNTER),
    } as unknown as Env;
  }

  /** Bindings for the store: D1 and R2. */
  forStore(): Partial<Env> {
    return { DB: this.#calls(env.DB), COLD: this.#calls(env.COLD) };
  }

  #next(): Fault {
    return this.#faults.shift() ?? "none";
  }

  #calls<T extends object>(target: T): T {
    return new Proxy(target, {
      get: (_, property) => {
        const call = Reflect.get(target, property) as unknown;
        if (typeof call !== "function") return call;
        return (...given: unknown[]) => {
          const fault = this.#next();
          if (fault === "before") throw new Error("crash before the call");
          const answer: unknown = Reflect.apply(call, target, given);
          if (fault === "none") return answer;
          // A session of D1 is returned at once; every other call returns a promise.
          if (property === "withSession") throw new Error("crash after the call");
          return Promise.resolve(answer).then(() => {
            throw new Error("crash after the call");
          });
        };
      },
    });
  }
}

/** D1 with statements that fail as in a database that cannot execute them, alone and in a batch. */
export function d1Failing(failing: RegExp, message: string): D1Database {
  const failingStatements = new WeakSet<object>();
  const fail = () => Promise.reject(new Error(message));
  const statement = (): D1PreparedStatement => {
    const failed = { bind: statement, all: fail, run: fail, raw: fail, first: fail };
    failingStatements.add(failed);
    return failed;
  };
  return new Proxy(env.DB, {
    get(target, property) {
      if (property === "prepare") {
        return (query: string) => (failing.test(query) ? statement() : target.prepare(query));
      }
      if (property === "withSession") return () => d1Failing(failing, message);
      if (property === "batch") {
        return (all: D1PreparedStatement[]) =>
          all.some((prepared) => failingStatements.has(prepared)) ? fail() : target.batch(all);
      }
      const value = Reflect.get(target, property) as unknown;
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}
