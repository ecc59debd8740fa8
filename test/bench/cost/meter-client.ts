/** Client of a running metered Worker. */
import { until } from "../operator-api.ts";
import { ask, type RunningWorker } from "../start.ts";
import { METER_PATH, type MeterCall, type Quiet, type Size } from "./meter-call.ts";
import { addUsage, type Usage } from "./usage.ts";

/** Longer than a message waits for its batch. Later work is started by an alarm. */
const QUIET_MS = 3_000;
const POLL_MS = 250;

export class MeterClient {
  readonly #running: RunningWorker;

  constructor(running: RunningWorker) {
    this.#running = running;
  }

  /** The bill of `work` and its direct consequences. */
  async during(work: () => Promise<void>): Promise<Usage> {
    await this.settle();
    await this.#ask({ call: "take" });
    const cpuMicroseconds = this.#running.cpuMicroseconds();
    await work();
    await this.settle();
    const usage = await this.#ask<Usage>({ call: "take" });
    const spent = this.#running.cpuMicroseconds() - cpuMicroseconds;
    addUsage(usage, "worker_cpu_ms", "the whole runtime", spent / 1_000);
    return usage;
  }

  async settle(): Promise<void> {
    await until(async () => {
      const { open, quietMs } = await this.#ask<Quiet>({ call: "quiet" });
      return open === 0 && quietMs >= QUIET_MS;
    }, POLL_MS);
  }

  async pass(ms: number): Promise<void> {
    await this.#ask({ call: "pass", ms });
  }

  async watch(): Promise<void> {
    await this.#ask({ call: "watch" });
  }

  async objectBytes(): Promise<number> {
    return (await this.#ask<Size>({ call: "size" })).objectBytes;
  }

  #ask<Answer>(call: MeterCall): Promise<Answer> {
    return ask(`${this.#running.origin}${METER_PATH}`, call);
  }
}
