/**
 * Calls of objects that are repeated once. A new version of the code resets each object, and the calls under way fail with an error that
 * is `retryable`. Recording and admitting repeat such calls themselves; this is for requests that only read.
 */
const OBJECTS = ["QUOTA_COUNTER", "SIGNAL_STORE", "DESTINATIONS"] as const;

/** The bindings with objects whose calls are repeated. Only for requests that change nothing: a failed call may have taken effect. */
export function withRetriedReads(env: Env): Env {
  const retried = OBJECTS.map((name) => [name, { get: () => objectsOf(env[name]), enumerable: true }] as const);
  return Object.create(env, Object.fromEntries(retried)) as Env;
}

type Method = (...args: unknown[]) => Promise<unknown>;

function objectsOf(all: { getByName(name: string): object }): object {
  return {
    getByName: (name: string) =>
      new Proxy(
        {},
        {
          // An object with `then` would be taken for a promise.
          get: (_, method: string): Method | undefined => (method === "then" ? undefined : callOf(all, name, method)),
        },
      ),
  };
}

/** After an error a stub stays broken, so each attempt takes a new one. */
function callOf(all: { getByName(name: string): object }, name: string, method: string): Method {
  const call: Method = async (...args) => (all.getByName(name) as Record<string, Method>)[method]?.(...args);
  return async (...args) => {
    try {
      return await call(...args);
    } catch (error) {
      if (!isRetryable(error)) throw error;
      return call(...args);
    }
  };
}

/** Whether the platform says that the same call may succeed now. */
export function isRetryable(error: unknown): boolean {
  const { retryable, overloaded } = error as { retryable?: boolean; overloaded?: boolean };
  return retryable === true && overloaded !== true;
}
