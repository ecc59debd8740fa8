/**
 * Hands on what an object has raised to the workspace's Destinations, after the commit that raised it: whoever made that
 * commit does not wait for it. What fails, or is cut off with the object, the object's alarm tries again, ever less often,
 * until it has been taken over; that an event comes twice is harmless, for it has an id.
 */
import type { WorkspaceEvent } from "../domain/events/workspace-event.ts";
import { CALL_TIMEOUT_MS, SAFETY_ALARM_MS } from "../limits.ts";
import { retryDelaySeconds } from "../platform/time-limit.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import type { RaisedDeletion, RaisedEvents } from "./raised-events.ts";

export interface HandOnOptions {
  workspaceId: string;
  /** Gives events to the workspace's Destinations, which have them for good when this resolves. */
  raise: (events: WorkspaceEvent[]) => Promise<void>;
  /** Of an object that deletes persons. */
  deletions?: {
    /** Has the workspace's Destinations delete a person. */
    handOver: (deletion: RaisedDeletion) => Promise<void>;
    /** Called with the commit that forgets the raised deletion. */
    handedOver: (deletion: RaisedDeletion) => void;
  };
  /** Makes sure that `run` is called at that time or sooner. */
  alarmBy: (atMs: number) => void;
}

export class HandOn {
  readonly #raised: RaisedEvents;
  readonly #options: HandOnOptions;
  /** When the alarm is to try, while something waits. */
  #dueMs = 0;
  #failures = 0;
  /** The run that is under way; null when none is. */
  #running: Promise<void> | null = null;

  constructor(raised: RaisedEvents, options: HandOnOptions) {
    this.#raised = raised;
    this.#options = options;
  }

  /** When the alarm is to call `run`, in milliseconds since 1970; null: nothing waits. */
  get dueMs(): number | null {
    return this.#raised.isEmpty ? null : this.#dueMs;
  }

  /**
   * Begins to hand on, which the caller does not wait for. To be called after whatever may have raised something. While
   * handing on fails only the alarm tries.
   */
  start(): void {
    if (this.#raised.isEmpty || this.#running !== null || this.#failures > 0) return;
    void this.run();
    // The alarm goes on with it should the object be killed before it is done.
    this.#options.alarmBy(this.#dueMs);
  }

  /** Hands on until nothing waits any more, or it has failed. Never throws. */
  run(): Promise<void> {
    if (this.#running !== null) return this.#running;
    // While it is under way, the alarm is not due for it.
    this.#dueMs = Date.now() + SAFETY_ALARM_MS;
    this.#running = this.#runOnce().finally(() => {
      this.#running = null;
      this.start();
    });
    return this.#running;
  }

  /** Hands on what is due. To be called when the alarm has rung, for whatever reason. */
  async runIfDue(): Promise<void> {
    const { dueMs } = this;
    if (dueMs === null) return;
    if (dueMs <= Date.now()) await this.run();
    else this.#options.alarmBy(dueMs);
  }

  async #runOnce(): Promise<void> {
    const { workspaceId, raise, deletions, alarmBy } = this.#options;
    try {
      for (let next = this.#raised.next(); next !== null; next = this.#raised.next()) {
        const { deletion, events, lastRow } = next;
        const call = deletion === null ? raise(events) : deletions?.handOver(deletion);
        // Without a time limit, a call that never ends would end the handing on.
        // oxlint-disable-next-line no-await-in-loop -- in order, and no more than one call in memory
        if (call !== undefined) await within(CALL_TIMEOUT_MS, call);
        this.#raised.handedOn(lastRow);
        if (deletion !== null) deletions?.handedOver(deletion);
      }
      this.#failures = 0;
    } catch (error) {
      this.#failures++;
      logEvent("raise_failed", { workspace: workspaceId, failed: this.#failures, error: errorText(error) });
      this.#dueMs = Date.now() + retryDelaySeconds(this.#failures) * 1_000;
      alarmBy(this.#dueMs);
    }
  }
}
