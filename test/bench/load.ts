/**
 * The load of the scenarios. A separate process (load-process.ts) generates it, so that it competes neither with
 * Miniflare's Node half nor with reading the Worker's logs.
 */
import { fork } from "node:child_process";
import { once } from "node:events";

export interface LoadCall {
  method: "GET" | "POST";
  path: string;
  /** The operator's token, if the call needs it. */
  token?: string;
  /** A session's cookie, for pages. */
  cookie?: string;
  body?: string;
}

export interface LoadOrder {
  origin: string;
  path: string;
  connections: number;
  until: { elapsedMs: number } | { requests: number };
  signalsPerRequest: number;
  /** The expected statuses. A 202 must also accept every signal. */
  expected: number[];
  /** Client addresses of the calls, in turn. */
  addresses: number;
  /** Sent instead of generated signals, in turn. */
  calls?: LoadCall[];
  /** The `X-Api-Secret` of generated signals. */
  secret?: string;
}

export interface LoadResult {
  /** Calls answered as expected. */
  requests: number;
  /** From the first byte sent to the last answer read. */
  elapsedMs: number;
  p50Ms: number;
  p99Ms: number;
  /** Unexpected results and their number. */
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
