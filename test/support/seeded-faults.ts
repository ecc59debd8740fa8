/**
 * All bindings behind a layer of faults: the real D1, R2, rate limit and Durable Objects, and a queue. Any call may
 * fail, fail after it took effect, or never return. The seed determines the fate of the n-th call of each kind,
 * regardless of the other calls.
 */
import { env } from "cloudflare:workers";
import { randomNumbers } from "../../src/dev/sample.ts";
import { intercept } from "./intercept.ts";

export type Outcome = "well" | "fails" | "fails after success" | "is never answered";

/**
 * Calls for which every caller has a time limit. The callback learns when a caller begins to wait for a call that
 * never returns.
 */
interface Waiting {
  hung(): void;
}

const OBJECTS = ["QUOTA_COUNTER", "SIGNAL_STORE", "DESTINATIONS"] as const;
const BINDINGS = ["DB", "COLD", "SIGNALS", "AUTH_FAILURES", ...OBJECTS] as const;
export class SeededFaults {
  /** The number of occurrences by name: "DB.run fails" → 3. */
  readonly counts = new Map<string, number>();
  /** Calls of D1, R2, the limiter and the queue in progress. */
  underWay = 0;
  /** Calls of objects in progress, including those in which another call hangs. */
  calling = 0;
  /** Rises with each call that begins or ends. */
  moves = 0;
  /** Calls that never return, the latest last. */
  readonly hung: string[] = [];
  /** The fate of the next calls, regardless of the seed; null: by the seed. */
  ends: (call: string) => Outcome | null = () => null;
  /** The real objects, for tests that use one directly. */
  readonly real = { QUOTA_COUNTER: env.QUOTA_COUNTER, SIGNAL_STORE: env.SIGNAL_STORE };
  readonly #real: Map<string, object>;
  readonly #waiting: Waiting;
  #random = new Map<string, () => number>();
  #seed = 0;
  #rate = 0;

  /** @param SIGNALS in place of the queue, where a test delivers messages by itself. */
  constructor(waiting: Waiting, SIGNALS: Pick<Queue, "sendBatch"> = env.SIGNALS) {
    this.#waiting = waiting;
    this.#real = new Map<string, object>(BINDINGS.map((name) => [name, name === "SIGNALS" ? SIGNALS : env[name]]));
  }

  /** From now on this share of all calls fails, a third of them in each way. */
  begin(seed: number, rate: number): void {
    this.#seed = seed;
    this.#rate = rate;
    this.#random = new Map();
    for (const [name, real] of this.#real) {
      // Calls of objects call other bindings.
      const isLeaf = !(OBJECTS as readonly string[]).includes(name);
      const binding = intercept(real, ({ method, make }) => this.#call(`${name}.${method}`, make, isLeaf));
      Object.assign(env, { [name]: binding });
    }
  }

  /** Ends all faults, also for bindings handed out earlier. */
  end(): void {
    this.#rate = 0;
    for (const [name, real] of this.#real) Object.assign(env, { [name]: real });
  }

  /** Applies the same faults to other calls, such as the delivery of a message. */
  draw(name: string): number {
    const random = this.#random.get(name) ?? randomNumbers(this.#seed ^ hashOf(name));
    this.#random.set(name, random);
    return random();
  }

  get rate(): number {
    return this.#rate;
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
      // Half of the calls that never return by chance have taken effect.
      if (this.ends(name) === null && this.draw("effect") < 0.5) await this.#made(make, isLeaf).catch(() => null);
      return new Promise(() => {});
    }
    const answer = await this.#made(make, isLeaf);
    if (outcome === "fails after success") throw platformError(this.draw("error"));
    if (name !== "COLD.get" || answer === null) return answer;
    return intercept(answer as object, ({ method, make: read }) => this.#call(`COLD body.${method}`, read, true));
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
}

/** Errors like the platform's: some say that the call may be retried, some that the object is overloaded. */
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
