/** The built service in a process of its own, on real files, which is killed and started again on what it has left. */
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { build } from "../../bench/build.ts";
import type { BuiltWorker } from "../../bench/build.ts";
import { OperatorApi } from "../../bench/operator-api.ts";
import { applySql, start } from "../../bench/start.ts";
import type { RunningWorker } from "../../bench/start.ts";
import { randomNumbers } from "../../../src/dev/random.ts";

const ROOT = path.resolve(import.meta.dirname, "../../..");
const TOKEN = "fault-operator";
/** In CI a run must say the same of the same code. */
const CI_SEED = 20_261_120;

export class Service {
  readonly stateDir: string;
  readonly #scratch: string;
  readonly #built: BuiltWorker;
  #running: RunningWorker | undefined;

  private constructor(scratch: string, built: BuiltWorker) {
    this.#scratch = scratch;
    this.stateDir = path.join(scratch, "state");
    this.#built = built;
  }

  /** Built, with an empty control plane, and stopped. */
  static async make(vars: Record<string, string> = {}): Promise<Service> {
    const scratch = mkdtempSync(path.join(os.tmpdir(), "signal-ingestion-fault-"));
    const shifted = path.join(import.meta.dirname, "../workers/shifted.toml");
    const built = await build(shifted, path.join(scratch, "worker"));
    const service = new Service(scratch, { ...built, configPath: path.join(ROOT, "wrangler.toml") });
    await applySql(await service.start(0, vars), "DB", path.join(ROOT, "migrations/d1"));
    return service;
  }

  get running(): RunningWorker {
    if (this.#running === undefined) throw new Error("the service does not run");
    return this.#running;
  }

  get api(): OperatorApi {
    return new OperatorApi(this.running.origin, TOKEN);
  }

  /** @param aheadMs of the real time; the clock goes on from there. */
  async start(aheadMs = 0, vars: Record<string, string> = {}): Promise<RunningWorker> {
    await this.#running?.stop();
    this.#running = await start(this.#built, {
      stateDir: this.stateDir,
      vars: {
        OPERATOR_TOKEN: TOKEN,
        CLOCK_AHEAD_MS: String(aheadMs),
        // Here nothing but the kill may end a call.
        REQUEST_RATE_PER_SECOND: "100000",
        REQUEST_BURST: "100000",
        ...vars,
      },
    });
    return this.#running;
  }

  /** At once and whole: nothing is flushed, nobody says goodbye. */
  async kill(): Promise<void> {
    const { pid } = this.running;
    if (pid === undefined) throw new Error("no runtime to kill");
    process.kill(pid, "SIGKILL");
    await this.stop();
  }

  async stop(): Promise<void> {
    await this.#running?.stop();
    this.#running = undefined;
  }

  async remove(): Promise<void> {
    await this.stop();
    rmSync(this.#scratch, { recursive: true, force: true });
  }

  /** A call of the operator's whose answer is no JSON. */
  get(route: string): Promise<Response> {
    return fetch(`${this.running.origin}/operator/${route}`, { headers: { authorization: `Bearer ${TOKEN}` } });
  }

  post(route: string, body: string): Promise<Response> {
    const headers = { "content-type": "application/json" };
    return fetch(`${this.running.origin}/api/${route}`, { method: "POST", headers, body });
  }
}

/** Other ones each time, but in CI; the seed is printed, and FAULT_SEED sets it. */
export function chances(name: string): () => number {
  const seed = Number(process.env["FAULT_SEED"] ?? (process.env["CI"] === undefined ? Date.now() % 2 ** 31 : CI_SEED));
  process.stdout.write(`${name}: FAULT_SEED=${seed}\n`);
  return randomNumbers(seed);
}
