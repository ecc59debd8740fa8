/**
 * Hands notifications from the object that raised them to the workspace's Destinations, after the commit and without
 * delaying the caller. The object's alarm retries after a failure or a crash, with growing pauses. Repeated
 * notifications are harmless because each has an id.
 */
import type { WorkspaceEvent } from "../domain/events/workspace-event.ts";
import { CALL_TIMEOUT_MS, SAFETY_ALARM_MS } from "../limits.ts";
import { retryDelaySeconds, within } from "../platform/time-limit.ts";
import { errorText, logEvent } from "../platform/log.ts";
import type { RaisedDeletion, RaisedEvents } from "./raised-events.ts";

export interface HandOnOptions {
  workspaceId: string;
  /** Passes notifications to the workspace's Destinations; they are durable when it resolves. */
  raise: (events: WorkspaceEvent[]) => Promise<void>;
  /** Only for an object that deletes people. */
  deletions?: {
    /** Passes the deletion of a person to the workspace's Destinations. */
    handOver: (deletion: RaisedDeletion) => Promise<void>;
    /** Runs in the transaction that removes the deletion from the raised rows. */
    handedOver: (deletion: RaisedDeletion) => void;
  };
  /** Ensures that `run` is called at this time or earlier. */
  alarmBy: (atMs: number) => void;
}

export class HandOn {
  readonly #raised: RaisedEvents;
  readonly #options: HandOnOptions;
  /** Next time at which the alarm retries. */
  #dueMs = 0;
  #failures = 0;
  /** The hand-on in progress; null if none. */
  #running: Promise<void> | null = null;

  constructor(raised: RaisedEvents, options: HandOnOptions) {
    this.#raised = raised;
    this.#options = options;
  }

  /** Next time at which the alarm must call `run`, in milliseconds since 1970; null if nothing waits. */
  get dueMs(): number | null {
    return this.#raised.isEmpty ? null : this.#dueMs;
  }

  /**
   * Starts handing on without blocking the caller. Call it after each commit that may have raised notifications.
   * While attempts fail, only the alarm retries.
   */
  start(): void {
    if (this.#raised.isEmpty || this.#running !== null || this.#failures > 0) return;
    void this.run();
    // The alarm continues if the object is killed before this ends.
    this.#options.alarmBy(this.#dueMs);
  }

  /** Hands on until nothing waits or an attempt fails. Never throws. */
  run(): Promise<void> {
    if (this.#running !== null) return this.#running;
    // While it runs, the alarm has nothing to do.
    this.#dueMs = Date.now() + SAFETY_ALARM_MS;
    this.#running = this.#runOnce().finally(() => {
      this.#running = null;
      this.start();
    });
    return this.#running;
  }

  /** Hands on if a retry is due. Call it on every alarm. */
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
        // The time limit keeps a call that never resolves from blocking all later ones. oxlint-disable-next-line
        // no-await-in-loop -- in order, and at most one call in memory
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
