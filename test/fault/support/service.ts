/** The built service in a separate process on real files, which tests kill and start again with the same files. */
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { buildOnce } from "../../bench/build.ts";
import type { BuiltWorker } from "../../bench/build.ts";
import { OperatorApi } from "../../bench/operator-api.ts";
import { applySql, start } from "../../bench/start.ts";
import type { RunningWorker } from "../../bench/start.ts";
import { randomNumbers } from "../../../src/dev/sample.ts";
import { seedOr } from "../../support/amount.ts";
import { note } from "../../support/note.ts";

export const ROOT = path.resolve(import.meta.dirname, "../../..");
const TOKEN = "fault-operator";

const SHIFTED = path.join(import.meta.dirname, "../workers/shifted.toml");

/** Workers that run instead of the service's own Worker and of its queue consumer. */
export interface Workers {
  main?: BuiltWorker;
  consumer?: BuiltWorker;
  /** Whether its memory can be read. */
  inspected?: boolean;
}

/** A Worker built from other sources runs with the service's bindings. */
export function withBindings(built: BuiltWorker): BuiltWorker {
  return { ...built, configPath: path.join(ROOT, "wrangler.toml") };
}

export class Service {
  /** A folder for files that are removed with the service. */
  readonly scratch: string;
  readonly stateDir: string;
  readonly built: BuiltWorker;
  #running: RunningWorker | undefined;

  private constructor(scratch: string, built: BuiltWorker) {
    this.scratch = scratch;
    this.stateDir = path.join(scratch, "state");
    this.built = built;
  }

  /** Built, and running with an empty control plane. */
  static async make(vars: Record<string, string> = {}): Promise<Service> {
    const service = await Service.build();
    await service.migrate(0, vars);
    return service;
  }

  /** Built, with a state folder that does not exist yet. */
  static async build(): Promise<Service> {
    const scratch = mkdtempSync(path.join(os.tmpdir(), "signal-ingestion-fault-"));
    return new Service(scratch, withBindings(await buildOnce(SHIFTED)));
  }

  get running(): RunningWorker {
    if (this.#running === undefined) throw new Error("the service does not run");
    return this.#running;
  }

  get token(): string {
    return TOKEN;
  }

  get api(): OperatorApi {
    return this.apiAt(this.running.origin);
  }

  apiAt(origin: string): OperatorApi {
    return new OperatorApi(origin, TOKEN);
  }

  /** Starts it and creates the control plane's tables. */
  async migrate(aheadMs: number, vars: Record<string, string>): Promise<void> {
    await applySql(await this.start(aheadMs, vars), "DB", path.join(ROOT, "migrations/d1"));
  }

  /** @param aheadMs of the real time; the clock goes on from there. */
  async start(aheadMs = 0, vars: Record<string, string> = {}, workers: Workers = {}): Promise<RunningWorker> {
    await this.#running?.stop();
    const { main = this.built, ...rest } = workers;
    this.#running = await start(main, {
      stateDir: this.stateDir,
      ...rest,
      vars: {
        OPERATOR_TOKEN: TOKEN,
        CLOCK_AHEAD_MS: String(aheadMs),
        DRAIN_PACE_MS: "50",
        // Only the kill may end a call here.
        REQUEST_RATE_PER_SECOND: "100000",
        REQUEST_BURST: "100000",
        ...vars,
      },
    });
    return this.#running;
  }

  /** Kills at once, without a flush or a shutdown. */
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
    rmSync(this.scratch, { recursive: true, force: true });
  }

  /** A call of the operator API whose answer is no JSON. */
  get(route: string): Promise<Response> {
    return fetch(`${this.running.origin}/operator/${route}`, { headers: { authorization: `Bearer ${TOKEN}` } });
  }

  post(route: string, body: string, origin = this.running.origin): Promise<Response> {
    const headers = { "content-type": "application/json" };
    return fetch(`${origin}/api/${route}`, { method: "POST", headers, body });
  }
}

/** Random numbers of a test. FAULT_SEED sets their seed, or in CI PROPERTY_SEED; a failing test shows the seed. */
export function chances(name: string): () => number {
  const seed = seedOr(process.env["FAULT_SEED"]);
  note(`${name}: FAULT_SEED=${seed}`);
  return randomNumbers(seed);
}
