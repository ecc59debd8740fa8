/**
 * Puts a function of the test between code and a binding: D1, a bucket, a queue, a limiter, objects. For each call it
 * may make the call, fail it before or after its effect, answer instead of it, or never answer.
 */

/** A call that has an answer. */
export interface Call {
  /** Such as `run`, `batch`, `put`, `admit`. */
  method: string;
  given: unknown[];
  /** The statements of a call of D1, with their bound values. */
  statements: Statement[];
  /** The constraint of D1's session; null: without a session. */
  session: string | null;
  make: () => unknown;
}

interface Statement {
  query: string;
  bindings: unknown[];
}

/** The origin of an intercepted object. */
interface Origin {
  target: object;
  statement: Statement | null;
  session: string | null;
}

type Method = (...given: unknown[]) => unknown;

/** These return objects whose calls are intercepted. */
const BUILDERS = new Set(["prepare", "bind", "withSession", "getByName"]);
/** No calls with an answer, or the test's own access to an object. */
const UNTOUCHED = new Set(["constructor", "then", "fetch", "getBookmark", "idFromName", "idFromString", "newUniqueId"]);

const origins = new WeakMap<object, Origin>();

export function intercept<T extends object>(target: T, around: (call: Call) => unknown): T {
  return intercepted({ target, statement: null, session: null }, around) as T;
}

function intercepted(origin: Origin, around: (call: Call) => unknown): object {
  const { target, statement, session } = origin;
  const proxy = new Proxy(target, {
    get: (_, method) => {
      const value: unknown = Reflect.get(target, method);
      if (typeof value !== "function" || typeof method === "symbol" || method === "constructor") return value;
      if (UNTOUCHED.has(method)) return value.bind(target) as unknown;
      return (...given: unknown[]) => {
        // D1 executes its own statements only.
        const make = () => Reflect.apply(value as Method, target, given.map(originalOf));
        if (!BUILDERS.has(method)) {
          const executed = statement === null ? given.flat().flatMap(statementOf) : [statement];
          return around({ method, given, statements: executed, session, make });
        }
        const made = { ...origin, target: make() as object };
        if (method === "prepare") made.statement = { query: String(given[0]), bindings: [] };
        if (method === "bind" && statement !== null) made.statement = { ...statement, bindings: given };
        if (method === "withSession") made.session = String(given[0]);
        return intercepted(made, around);
      };
    },
  });
  origins.set(proxy, origin);
  return proxy;
}

function originalOf(given: unknown): unknown {
  if (Array.isArray(given)) return given.map(originalOf);
  return typeof given === "object" && given !== null ? (origins.get(given)?.target ?? given) : given;
}

function statementOf(given: unknown): Statement[] {
  const statement = typeof given === "object" && given !== null ? origins.get(given)?.statement : null;
  return statement === null || statement === undefined ? [] : [statement];
}
