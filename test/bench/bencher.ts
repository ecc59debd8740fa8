/** Calls a running service as an operator or a sender, and records failures. */
import { VARS, type FilledWorkspace } from "./growth-workspaces.ts";
import type { LoadCall, LoadGenerator, LoadResult } from "./load.ts";
import { OperatorApi } from "./operator-api.ts";
import type { RunningWorker } from "./start.ts";

export class Bencher {
  readonly running: RunningWorker;
  readonly api: OperatorApi;
  readonly #bench: string;
  readonly #generator: LoadGenerator;
  readonly #failures: string[];

  constructor(bench: string, running: RunningWorker, generator: LoadGenerator, failures: string[]) {
    this.#bench = bench;
    this.running = running;
    this.#generator = generator;
    this.#failures = failures;
    this.api = new OperatorApi(running.origin, VARS.OPERATOR_TOKEN);
  }

  /** Makes each call once. */
  async load(calls: LoadCall[], connections = 1): Promise<LoadResult> {
    const result = await this.#generator.run({
      origin: this.running.origin,
      path: "",
      connections,
      until: { requests: calls.length },
      signalsPerRequest: 1,
      expected: [200, 202],
      addresses: 1,
      calls,
    });
    for (const [failure, count] of Object.entries(result.failures))
      this.#failures.push(`${this.#bench}, ${calls[0]?.path ?? ""}: ${count} × ${failure}`);
    return result;
  }

  async settle({ id }: FilledWorkspace): Promise<void> {
    await this.api.settled(id);
  }

  async audit({ id, sent }: FilledWorkspace): Promise<string[]> {
    const books = await this.api.books(id);
    return books.balanced && books.accepted === sent
      ? []
      : [`${this.#bench}: ${sent} sent, but ${JSON.stringify(books)}`];
  }
}
