/**
 * A workspace with a simulated clock, which jumps to the next alarm or message that the objects and the queue schedule.
 * Meanwhile some calls fail or never return. Only these alarms and messages cause progress.
 */
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { expect } from "vitest";
import { deliverByHand, QueueByHand } from "./deliver.ts";
import { SeededFaults, type Outcome } from "./seeded-faults.ts";
import type { WaitingClock } from "./waiting-clock.ts";
import { newWorkspace, type Problem, type TestWorkspace } from "./workspace.ts";

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;

/** The failing calls and the kind of failure: calls such as `SIGNALS.sendBatch`. */
export type Outage = readonly (readonly [RegExp, Outcome])[];

export class OutageRun {
  readonly workspace: TestWorkspace;
  readonly faults: SeededFaults;
  /** Ids of signals answered with 202. */
  readonly acknowledged: string[] = [];
  /** The Retry-After in seconds of each call answered with 503. */
  readonly rejected: number[] = [];
  readonly #clock: WaitingClock;
  readonly #queue: QueueByHand;
  #sent = 0;

  private constructor(workspace: TestWorkspace, clock: WaitingClock, faults: SeededFaults, queue: QueueByHand) {
    this.workspace = workspace;
    this.#clock = clock;
    this.faults = faults;
    this.#queue = queue;
  }

  static async make(clock: WaitingClock): Promise<OutageRun> {
    const queue = new QueueByHand();
    const faults = new SeededFaults(clock, queue);
    faults.begin(1, 0);
    const workspace = await newWorkspace();
    const rule = { name: "visit", event: "Visit", conditions: [], scoring_signal: "visit", points: 1 };
    await workspace.operator("POST", "/rules", rule);
    return new OutageRun(workspace, clock, faults, queue);
  }

  begin(outage: Outage): void {
    this.faults.ends = (call) => outage.find(([calls]) => calls.test(call))?.[1] ?? null;
  }

  end(): void {
    this.faults.ends = () => null;
  }

  /** Sends a signal, which is acknowledged or temporarily rejected. */
  async send(signal: object): Promise<number> {
    const messageId = `message ${this.#sent++}`;
    const body = { type: "track", event: "Visit", messageId, ...signal };
    const response = await this.#inTime(this.workspace.send(body));
    if (response.status === 202) this.acknowledged.push((await response.json<{ id: string }>()).id);
    else {
      expect(response.status).toBe(503);
      expect((await response.json<Problem>()).code).toBe("unavailable");
      this.rejected.push(Number(response.headers.get("retry-after")));
    }
    return response.status;
  }

  /** Moves the clock: alarms ring and messages are delivered when they are due. */
  async pass(ms: number): Promise<void> {
    const endMs = Date.now() + ms;
    for (;;) {
      // A commit sends its messages at once, with a timer of milliseconds.
      await this.#clock.really(2);
      const [counterMs, storeMs] = [await this.#alarmMs(this.#counter), await this.#alarmMs(this.#store)];
      const queueMs = Math.min(...this.#queue.waiting.map(({ atMs }) => atMs));
      const nextMs = Math.min(counterMs, storeMs, queueMs);
      if (nextMs > endMs) break;
      if (nextMs > Date.now()) this.#clock.pass(nextMs - Date.now());
      if (queueMs === nextMs) await this.#inTime(this.#deliver());
      else await this.#inTime(runDurableObjectAlarm(counterMs === nextMs ? this.#counter : this.#store));
    }
    if (endMs > Date.now()) this.#clock.pass(endMs - Date.now());
  }

  get backlog() {
    return this.workspace.counter.backlog();
  }

  get #counter() {
    return this.faults.real.QUOTA_COUNTER.getByName(this.workspace.id);
  }

  get #store() {
    return this.faults.real.SIGNAL_STORE.getByName(this.workspace.id);
  }

  async #deliver(): Promise<void> {
    const { waiting } = this.#queue;
    const due = waiting.filter(({ atMs }) => atMs <= Date.now());
    for (const message of due) waiting.splice(waiting.indexOf(message), 1);
    waiting.push(...(await deliverByHand(due)));
  }

  /** The time of the object's alarm; infinity: none. */
  async #alarmMs(stub: DurableObjectStub): Promise<number> {
    const alarmMs = await runInDurableObject(stub, (_, { storage }) => storage.getAlarm());
    return alarmMs ?? Number.POSITIVE_INFINITY;
  }

  #inTime<T>(work: Promise<T>): Promise<T> {
    return this.#clock.watch(work, () => (this.faults.underWay > 0 ? null : this.faults.moves));
  }
}
