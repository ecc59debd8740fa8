/**
 * The load, as the scenarios ask for it. It is generated in a process of its own (load-process.ts), so that it competes
 * neither with Miniflare's Node half nor with reading the Worker's logs.
 */
import { fork } from "node:child_process";
import { once } from "node:events";

export interface LoadCall {
  method: "GET" | "POST";
  path: string;
  /** The operator's, where the call needs one. */
  token?: string;
  /** A session's, where it is a page. */
  cookie?: string;
  body?: string;
}

export interface LoadOrder {
  origin: string;
  path: string;
  connections: number;
  until: { elapsedMs: number } | { requests: number };
  signalsPerRequest: number;
  /** The only statuses that are no failure; a 202 must also say that everything was accepted. */
  expected: number[];
  /** Client addresses that the calls come from, in turn. */
  addresses: number;
  /** Sent in place of generated signals, in turn. */
  calls?: LoadCall[];
  /** The `X-Api-Secret` of generated signals. */
  secret?: string;
}

export interface LoadResult {
  /** Answered as expected. */
  requests: number;
  /** From the first byte sent to the last answer read. */
  elapsedMs: number;
  p50Ms: number;
  p99Ms: number;
  /** What else happened, and how often. */
  failures: Record<string, number>;
}

export class LoadGenerator {
  readonly #process = fork(new URL("load-process.ts", import.meta.url), { serialization: "advanced" });

  async run(order: LoadOrder): Promise<LoadResult> {
    const ended = new AbortController();
    const onExit = (): void => ended.abort(new Error("the load generator has ended"));
    this.#process.once("exit", onExit);
    this.#process.send(order);
    const [result]: LoadResult[] = await once(this.#process, "message", { signal: ended.signal });
    this.#process.off("exit", onExit);
    if (result === undefined) throw new Error("the load generator has nothing to say");
    return result;
  }

  stop(): void {
    this.#process.disconnect();
  }
}
