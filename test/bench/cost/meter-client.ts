/** Client of a running metered Worker. */
import { setTimeout as sleep } from "node:timers/promises";
import type { RunningWorker } from "../start.ts";
import { METER_PATH } from "./meter-call.ts";
import type { MeterCall, Quiet, Size } from "./meter-call.ts";
import { addUsage } from "./usage.ts";
import type { Usage } from "./usage.ts";

/** Longer than a message waits for its batch. Later work is started by an alarm. */
const QUIET_MS = 3_000;
const POLL_MS = 250;
const SETTLE_TIMEOUT_MS = 60_000;

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
    const deadline = performance.now() + SETTLE_TIMEOUT_MS;
    for (;;) {
      const { open, quietMs } = await this.#ask<Quiet>({ call: "quiet" });
      if (open === 0 && quietMs >= QUIET_MS) return;
      if (performance.now() > deadline)
        throw new Error(`not settled after ${SETTLE_TIMEOUT_MS} ms: ${open} open, quiet for ${Math.round(quietMs)} ms`);
      await sleep(POLL_MS);
    }
  }

  async pass(ms: number): Promise<void> {
    await this.#ask({ call: "pass", ms });
  }

  async objectBytes(): Promise<number> {
    return (await this.#ask<Size>({ call: "size" })).objectBytes;
  }

  async #ask<Answer>(call: MeterCall): Promise<Answer> {
    // A separate connection, because the runtime closes a connection that was idle during a long call.
    const response = await fetch(`${this.#running.origin}${METER_PATH}`, {
      method: "POST",
      body: JSON.stringify(call),
      headers: { connection: "close" },
    });
    if (!response.ok) throw new Error(`the meter: ${response.status} ${await response.text()}`);
    return (await response.json()) as Answer;
  }
}
