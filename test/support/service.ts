/** The built service in a separate process on real files. Tests kill it and start it again on the same files. */
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { CLOCK_AHEAD, clockAheadMs, SHIFTED_WORKER } from "../../src/dev/clock-ahead.ts";
import { randomNumbers } from "../../src/dev/sample.ts";
import { SERVICE_CONFIG, buildOnce, type BuiltWorker } from "../bench/build.ts";
import { OperatorApi } from "../bench/operator-api.ts";
import { createTables, start, type RunningWorker, type StartOptions } from "../bench/start.ts";
import { seedOr, note } from "./amount.ts";

const TOKEN = "test-operator";

export interface ServiceOptions extends Omit<StartOptions, "stateDir"> {
  /** The clock of a `shifted` service is this far ahead of the test's, or behind it. */
  aheadMs?: number;
  /** Another Worker that runs with the service's bindings. */
  main?: BuiltWorker;
}

export class Service {
  readonly token = TOKEN;
  /** A folder for files that are removed with the service. */
  readonly scratch = mkdtempSync(path.join(os.tmpdir(), "signal-ingestion-"));
  readonly stateDir = path.join(this.scratch, "state");
  readonly built: BuiltWorker;
  #vars: Record<string, string> = { OPERATOR_TOKEN: TOKEN, DRAIN_PACE_MS: "50" };
  #aheadMs = 0;
  #running: RunningWorker | undefined;

  private constructor(built: BuiltWorker) {
    this.built = built;
  }

  /** Of a Worker that the caller has built. */
  static of(built: BuiltWorker): Service {
    return new Service(built);
  }

  /** Built as deployed, and running on an empty database. */
  static async make(options: ServiceOptions = {}): Promise<Service> {
    const service = new Service(await buildOnce(SERVICE_CONFIG, clockAheadMs === 0 ? undefined : SHIFTED_WORKER));
    await service.startEmpty(options);
    return service;
  }

  /** Built with a clock that the test moves. The state folder does not exist yet. */
  static async shifted(): Promise<Service> {
    const service = new Service(await buildOnce(SERVICE_CONFIG, SHIFTED_WORKER));
    // Only the tests may end a call.
    Object.assign(service.#vars, { REQUEST_RATE_PER_SECOND: "100000", REQUEST_BURST: "100000" });
    return service;
  }

  static async makeShifted(vars: Record<string, string> = {}): Promise<Service> {
    const service = await Service.shifted();
    await service.startEmpty({ vars });
    return service;
  }

  get running(): RunningWorker {
    if (this.#running === undefined) throw new Error("the service does not run");
    return this.#running;
  }

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  get origin(): string {
    return this.running.origin;
  }

  /** The time by the clock of a `shifted` service. */
  get nowMs(): number {
    return Date.now() + this.#aheadMs;
  }

  get api(): OperatorApi {
    return new OperatorApi(this.origin, TOKEN);
  }

  async startEmpty(options: ServiceOptions = {}): Promise<void> {
    await createTables(await this.start(options));
  }

  /** Starts the service, or restarts it. Variables of earlier starts stay. */
  async start({ aheadMs = 0, main = this.built, vars, ...options }: ServiceOptions = {}): Promise<RunningWorker> {
    await this.stop();
    this.#aheadMs = aheadMs;
    this.#vars = { ...this.#vars, ...vars, [CLOCK_AHEAD]: String(clockAheadMs + aheadMs) };
    this.#running = await start(main, { ...options, stateDir: this.stateDir, vars: this.#vars });
    return this.#running;
  }

  /** Kills at once, without a flush or a shutdown. */
  async kill(): Promise<void> {
    const { running } = this;
    if (running.pid === undefined) throw new Error("no runtime to kill");
    this.#running = undefined;
    process.kill(running.pid, "SIGKILL");
    await running.stop();
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
    return fetch(`${this.origin}/operator/${route}`, { headers: { authorization: `Bearer ${TOKEN}` } });
  }

  /** Posts to an endpoint for signals or account updates. A text is sent as it is, other bodies as JSON. */
  post(route: string, body: string | object, headers: Record<string, string> = {}): Promise<Response> {
    return fetch(`${this.origin}/api/${route}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
  }
}

/** Random numbers of a test. FAULT_SEED sets their seed, or in CI PROPERTY_SEED; a failing test shows the seed. */
export function chances(name: string): () => number {
  const seed = seedOr(process.env["FAULT_SEED"]);
  note(`${name}: FAULT_SEED=${seed}`);
  return randomNumbers(seed);
}
