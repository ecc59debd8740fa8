/**
 * The way from the outbox to the queue. What has been sent is remembered in memory only: a restart sends everything that
 * is not settled again, which is harmless.
 */
import { errorText, logEvent } from "../http/log.ts";
import { DRAIN_DELAY_MS, RESEND_AFTER_MS } from "../limits.ts";
import { retryDelaySeconds } from "../queue/back-off.ts";
import { oldestUnsettled, sendNextRows } from "./outbox.ts";
import type { SendMessages } from "./outbox.ts";

export class Drain {
  readonly #sql: SqlStorage;
  readonly #workspaceId: string;
  readonly #send: SendMessages;
  readonly #alarmBy: (atMs: number) => void;
  /** Rows up to here have been handed to the queue since the object started. */
  #sentUpTo = 0;
  #timer = false;
  #running = false;
  /** Rows were written while it ran. */
  #more = false;
  #failedSends = 0;
  /** When unsettled rows were last sent again; a restart sends all of them. */
  #resentAtMs = Date.now();

  /** @param alarmBy makes sure that `run` is called at that time or sooner. */
  constructor(sql: SqlStorage, workspaceId: string, send: SendMessages, alarmBy: (atMs: number) => void) {
    this.#sql = sql;
    this.#workspaceId = workspaceId;
    this.#send = send;
    this.#alarmBy = alarmBy;
  }

  /** After a commit: a moment later, so that commits that follow share the message. */
  soon(): void {
    this.#more = true;
    // While the queue refuses, only the alarm tries: backing off, not with every commit.
    if (this.#timer || this.#running || this.#failedSends > 0) return;
    this.#timer = true;
    setTimeout(() => {
      this.#timer = false;
      void this.run();
    }, DRAIN_DELAY_MS);
  }

  /**
   * Sends what has not been sent since the object started, then what was lost on the way, and has the alarm set for what
   * is left to do. Never throws.
   */
  async run(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    try {
      this.#more = false;
      await this.#sendRows(this.#sentUpTo, Number.MAX_SAFE_INTEGER, (row) => (this.#sentUpTo = row));
      const nowMs = Date.now();
      if (this.#nextResendMs() <= nowMs) {
        await this.#sendRows(0, nowMs - RESEND_AFTER_MS, () => {});
        this.#resentAtMs = nowMs;
      }
      this.#failedSends = 0;
      this.#alarmBy(this.#nextResendMs());
    } catch (error) {
      this.#failedSends++;
      logEvent("drain_failed", { workspace: this.#workspaceId, failed: this.#failedSends, error: errorText(error) });
      this.#alarmBy(Date.now() + retryDelaySeconds(this.#failedSends) * 1_000);
    } finally {
      this.#running = false;
    }
    if (this.#more) this.soon();
  }

  /** When unsettled rows are to be sent again; infinity when there are none. */
  #nextResendMs(): number {
    const oldestMs = oldestUnsettled(this.#sql);
    return oldestMs === null ? Number.POSITIVE_INFINITY : Math.max(oldestMs, this.#resentAtMs) + RESEND_AFTER_MS;
  }

  async #sendRows(afterRow: number, admittedUntil: number, sent: (row: number) => void): Promise<void> {
    let last: number | null = afterRow;
    while (last !== null) {
      // oxlint-disable-next-line no-await-in-loop -- in order, and no more than one sendBatch in memory
      last = await sendNextRows(this.#sql, this.#send, this.#workspaceId, { afterRow: last, admittedUntil });
      if (last !== null) sent(last);
    }
  }
}
