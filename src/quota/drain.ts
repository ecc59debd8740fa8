/**
 * The way from the outbox to the queue. What has been sent is remembered in memory only: a restart sends everything that
 * is not settled again, which is harmless.
 *
 * While the Signal Store is full the outbox keeps everything, but for one message a minute: a probe. When that is settled
 * there is room again. A restart forgets that the store is full, and is told again by what it sends.
 */
import { errorText, logEvent } from "../http/log.ts";
import { DRAIN_DELAY_MS, RESEND_AFTER_MS, SEND_BATCH_MAX_MESSAGES, STORE_PROBE_MS } from "../limits.ts";
import { retryDelaySeconds } from "../queue/back-off.ts";
import { oldestUnsettled, sendNextRows } from "./outbox.ts";
import type { SendMessages } from "./outbox.ts";

const EVER = Number.MAX_SAFE_INTEGER;

interface Probing {
  /** When the next probe is due. */
  atMs: number;
  /** Up to this row the last probe held; 0 before the first one. */
  lastRow: number;
  /** That one was answered: the store is still full. */
  answered: boolean;
}

export class Drain {
  readonly #sql: SqlStorage;
  readonly #workspaceId: string;
  readonly #send: SendMessages;
  readonly #alarmBy: (atMs: number) => void;
  /** Rows up to here have been handed to the queue since the object started, or since the store had room again. */
  #sentUpTo = 0;
  #timer = false;
  #running = false;
  /** Rows were written while it ran. */
  #more = false;
  #failedSends = 0;
  /** When unsettled rows were last sent again; a restart sends all of them. */
  #resentAtMs = Date.now();
  /** Null while the Signal Store has room, as far as is known. */
  #probing: Probing | null = null;
  /** Raised when sending is to stop, or to start over: what is under way then says no longer how far it has come. */
  #round = 0;

  /** @param alarmBy makes sure that `run` is called at that time or sooner. */
  constructor(sql: SqlStorage, workspaceId: string, send: SendMessages, alarmBy: (atMs: number) => void) {
    this.#sql = sql;
    this.#workspaceId = workspaceId;
    this.#send = send;
    this.#alarmBy = alarmBy;
  }

  get storeFull(): boolean {
    return this.#probing !== null;
  }

  /** After a commit: a moment later, so that commits that follow share the message. */
  soon(): void {
    this.#more = true;
    // While the queue refuses, or the store is full, only the alarm tries: not every commit.
    if (this.#timer || this.#running || this.#failedSends > 0 || this.#probing !== null) return;
    this.#timer = true;
    setTimeout(() => {
      this.#timer = false;
      void this.run();
    }, DRAIN_DELAY_MS);
  }

  /** The store has refused what was sent, for want of room: from now on probes only. */
  stopForFullStore(): void {
    if (this.#probing !== null) {
      this.#probing.answered = true;
      return;
    }
    this.#probing = { atMs: Date.now() + STORE_PROBE_MS, lastRow: 0, answered: true };
    this.#round++;
    this.#alarmBy(this.#probing.atMs);
  }

  /** Sends everything that is not settled, from the oldest on. */
  startOver(): void {
    this.#probing = null;
    this.#sentUpTo = 0;
    this.#resentAtMs = Date.now();
    this.#round++;
    this.soon();
  }

  /**
   * Sends what has not been sent since the object started, then what was lost on the way, or a probe while the store is
   * full, and has the alarm set for what is left to do. Never throws.
   */
  async run(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    try {
      this.#more = false;
      if (this.#probing === null) await this.#sendUnsent();
      else if (this.#probing.atMs <= Date.now()) await this.#sendProbe(this.#probing);
      this.#failedSends = 0;
      this.#alarmBy(this.#probing?.atMs ?? this.#nextResendMs());
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

  async #sendUnsent(): Promise<void> {
    await this.#sendRows(this.#sentUpTo, EVER, (row) => (this.#sentUpTo = row));
    const nowMs = Date.now();
    if (this.#probing !== null || this.#nextResendMs() > nowMs) return;
    await this.#sendRows(0, nowMs - RESEND_AFTER_MS, () => {});
    this.#resentAtMs = nowMs;
  }

  async #sendRows(afterRow: number, admittedUntil: number, sent: (row: number) => void): Promise<void> {
    const round = this.#round;
    let last: number | null = afterRow;
    while (last !== null) {
      const range = { afterRow: last, admittedUntil, maxMessages: SEND_BATCH_MAX_MESSAGES };
      // oxlint-disable-next-line no-await-in-loop -- in order, and no more than one sendBatch in memory
      last = await sendNextRows(this.#sql, this.#send, this.#workspaceId, range);
      if (round !== this.#round) return;
      if (last !== null) sent(last);
    }
  }

  /**
   * The oldest rows, one message of them. Where nobody answered the last probe it may have held rows that can never be
   * settled: then those that follow.
   */
  async #sendProbe(probing: Probing): Promise<void> {
    const afterRow = probing.answered ? 0 : probing.lastRow;
    Object.assign(probing, { lastRow: afterRow, answered: false });
    const range = { afterRow, admittedUntil: EVER, maxMessages: 1 };
    const last = await sendNextRows(this.#sql, this.#send, this.#workspaceId, range);
    probing.lastRow = last ?? 0;
    probing.atMs = Date.now() + STORE_PROBE_MS;
    // Nothing waits any more: nothing is put off either.
    if (last === null && afterRow === 0 && this.#probing === probing) this.#probing = null;
  }
}
