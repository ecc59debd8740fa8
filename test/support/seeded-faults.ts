/**
 * All bindings at once behind a layer of faults: the real D1, R2, rate limit and Durable Objects, and a queue, of which any
 * call may fail, fail after it has taken its effect, or never be answered. What happens to the n-th call of a kind follows
 * from the seed, whatever the others do meanwhile.
 */
import { env } from "cloudflare:workers";
import { randomNumbers } from "../../src/dev/sample.ts";

export type Outcome = "well" | "fails" | "fails after success" | "is never answered";

/** What every caller has a time limit for: told when it begins to wait for nothing. */
export interface Waiting {
  hung(): void;
}

const OBJECTS = ["QUOTA_COUNTER", "SIGNAL_STORE", "DESTINATIONS"] as const;
const BINDINGS = ["DB", "COLD", "SIGNALS", "AUTH_FAILURES", ...OBJECTS] as const;
/** What these give is not an answer: there is nothing that could fail yet. */
const SYNCHRONOUS = new Set(["prepare", "bind", "withSession", "getBookmark"]);
/** The tests' own way into an object. */
const UNTOUCHED = new Set(["fetch", "then"]);

export class SeededFaults {
  /** How often each thing happened: "DB.run fails" → 3. */
  readonly counts = new Map<string, number>();
  /** Calls of D1, R2, the limiter and the queue that are under way. */
  underWay = 0;
  /** Calls of objects that are under way, also those inside which something hangs. */
  calling = 0;
  /** Rises with each call that begins or ends. */
  moves = 0;
  /** What is waited for in vain, the latest last. */
  readonly hung: string[] = [];
  /** What a call is to end in, whatever the seed says; null: as that says. */
  ends: (call: string) => Outcome | null = () => null;
  /** The real objects, for what tests do with one of them beside calling it. */
  readonly real = { QUOTA_COUNTER: env.QUOTA_COUNTER, SIGNAL_STORE: env.SIGNAL_STORE };
  readonly #real: Map<string, unknown>;
  readonly #originals = new WeakMap<object, object>();
  readonly #waiting: Waiting;
  #random = new Map<string, () => number>();
  #seed = 0;
  #rate = 0;

  /** @param SIGNALS in place of the queue, where a test delivers messages by itself. */
  constructor(waiting: Waiting, SIGNALS: Pick<Queue, "sendBatch"> = env.SIGNALS) {
    this.#waiting = waiting;
    this.#real = new Map<string, unknown>(BINDINGS.map((name) => [name, name === "SIGNALS" ? SIGNALS : env[name]]));
  }

  /** From now on so large a part of all calls ends badly, a third of them in each way. */
  begin(seed: number, rate: number): void {
    this.#seed = seed;
    this.#rate = rate;
    this.#random = new Map();
    for (const [name, real] of this.#real) Object.assign(env, { [name]: this.#wrapped(name, real as object) });
  }

  /** All goes well again, also for whoever still has a binding of before. */
  end(): void {
    this.#rate = 0;
    for (const [name, real] of this.#real) Object.assign(env, { [name]: real });
  }

  /** Other calls than those of bindings, that are to go as these do: the delivery of a message, say. */
  draw(name: string): number {
    const random = this.#random.get(name) ?? randomNumbers(this.#seed ^ hashOf(name));
    this.#random.set(name, random);
    return random();
  }

  get rate(): number {
    return this.#rate;
  }

  #wrapped(name: string, real: object): object {
    if ((OBJECTS as readonly string[]).includes(name)) {
      return new Proxy(real as { getByName: (name: string) => object }, {
        get: (namespace, property) => {
          if (property === "getByName") {
            return (object: string) => this.#calls(name, namespace.getByName(object), false);
          }
          const value = Reflect.get(namespace, property) as unknown;
          return typeof value === "function" && property !== "constructor" ? (value.bind(namespace) as unknown) : value;
        },
      });
    }
    return this.#calls(name, real, true);
  }

  /** @param isLeaf whether its calls call nothing else that is wrapped. */
  #calls<T extends object>(name: string, target: T, isLeaf: boolean): T {
    const wrapped = new Proxy(target, {
      get: (_, property) => {
        const value = Reflect.get(target, property) as unknown;
        if (typeof value !== "function" || typeof property === "symbol" || property === "constructor") return value;
        if (UNTOUCHED.has(property)) return value.bind(target) as unknown;
        return (...given: unknown[]) => {
          const make = (): unknown =>
            Reflect.apply(
              value,
              target,
              given.map((statement) => this.#unwrapped(statement)),
            );
          if (SYNCHRONOUS.has(property)) return this.#calls(name, make() as object, isLeaf);
          return this.#call(`${name}.${property}`, make, isLeaf);
        };
      },
    });
    this.#originals.set(wrapped, target);
    return wrapped;
  }

  async #call(name: string, make: () => unknown, isLeaf: boolean): Promise<unknown> {
    const outcome = this.#outcome(name);
    const label = `${name} ${outcome}`;
    this.counts.set(label, (this.counts.get(label) ?? 0) + 1);
    this.moves++;
    if (outcome === "fails") throw platformError(this.draw("error"));
    if (outcome === "is never answered") {
      this.hung.push(name);
      this.#waiting.hung();
      // Half of what nobody hears of by chance has taken its effect.
      if (this.ends(name) === null && this.draw("effect") < 0.5) await this.#made(make, isLeaf).catch(() => null);
      return new Promise(() => {});
    }
    const answer = await this.#made(make, isLeaf);
    if (outcome === "fails after success") throw platformError(this.draw("error"));
    const isBody = name === "COLD.get" && answer !== null;
    return isBody ? this.#calls("COLD body", answer as object, true) : answer;
  }

  async #made(make: () => unknown, isLeaf: boolean): Promise<unknown> {
    const kind = isLeaf ? "underWay" : "calling";
    this[kind]++;
    try {
      return await make();
    } finally {
      this[kind]--;
      this.moves++;
    }
  }

  #outcome(name: string): Outcome {
    const given = this.ends(name);
    if (given !== null) return given;
    const drawn = this.draw(name);
    if (drawn >= this.#rate) return "well";
    const third = (3 * drawn) / this.#rate;
    return third < 1 ? "fails" : third < 2 ? "fails after success" : "is never answered";
  }

  /** D1 batches its own statements, not those that stand for them. */
  #unwrapped(given: unknown): unknown {
    if (Array.isArray(given)) return given.map((statement: unknown) => this.#unwrapped(statement));
    if (typeof given !== "object" || given === null) return given;
    return this.#originals.get(given) ?? given;
  }
}

/** As the platform's errors are: some say that the call may be repeated, some that the object has too much to do. */
function platformError(drawn: number): Error {
  const error = new Error("Network connection lost.");
  if (drawn < 0.5) return Object.assign(error, { retryable: true });
  return drawn < 0.6 ? Object.assign(error, { retryable: true, overloaded: true }) : error;
}

function hashOf(name: string): number {
  let hash = 0;
  for (const character of name) hash = (Math.imul(hash, 31) + (character.codePointAt(0) ?? 0)) | 0;
  return hash;
}
