/**
 * The way from the outbox to the queue. What has been sent is remembered in memory only: a restart sends everything that
 * is not settled again, which is harmless.
 *
 * A message leaves when it is full. What does not fill one leaves at once after a quiet moment, and else with what comes
 * until the pace lets it: each message costs as much as three signals' rows.
 *
 * While the Signal Store is full the outbox keeps everything, but for one message a minute: a probe. When that is settled
 * there is room again. A restart forgets that the store is full, and is told again by what it sends.
 */
import { retryDelaySeconds } from "../platform/back-off.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import { writeMessage } from "../wire/message.ts";
import { STORE_PROBE_MS } from "./commit-decisions.ts";
import type { Outbox } from "./outbox.ts";
import {
  MessagePacker,
  type PackedMessage,
  type PackedRow,
  SEND_BATCH_MAX_BYTES,
  SEND_BATCH_MAX_MESSAGES,
  type WhichMessages,
} from "./pack.ts";

/** A call of the queue that takes longer has failed: it is made again. */
export const SEND_TIMEOUT_MS = 10_000;
/** An outbox row that is not settled after this long is sent again: longer than a healthy backlog. */
export const RESEND_AFTER_MS = 15 * 60_000;

const EVER = Number.MAX_SAFE_INTEGER;

/** The queue's `sendBatch`. */
export type SendMessages = (messages: { body: string; contentType: "text" }[]) => Promise<unknown>;

/** What the drain asks of the outbox. */
type Rows = Pick<Outbox, "messages" | "oldest">;

export interface DrainOptions {
  workspaceId: string;
  send: SendMessages;
  /** Milliseconds between two messages that are not full. */
  paceMs: number;
  /** Makes sure that `run` is called at that time or sooner. */
  alarmBy: (atMs: number) => void;
}

interface Probing {
  /** When the next probe is due. */
  atMs: number;
  /** Up to this row the last probe held; 0 before the first one. */
  lastRow: number;
  /** Whether the store has answered the last probe that it is still full. */
  answered: boolean;
}

export class Drain {
  readonly #outbox: Rows;
  readonly #options: DrainOptions;
  readonly #unsent: UnsentRows;
  #sentAtMs = Number.NEGATIVE_INFINITY;
  #paceTimer = false;
  #fullTimer = false;
  /** The run that is under way; null when none is. */
  #running: Promise<void> | null = null;
  #failedSends = 0;
  /** When unsettled rows were last sent again; a restart sends all of them. */
  #resentAtMs = Date.now();
  /** No unsettled row is older than this; null: not known. It saves reading the table with every message. */
  #noneOlderMs: number | null = null;
  /** The probes of a Signal Store that is full; null while it has room, as far as is known. */
  #probing: Probing | null = null;
  /** Raised when sending stops or starts over: a send that is under way then no longer says how far rows are sent. */
  #round = 0;

  constructor(outbox: Rows, options: DrainOptions) {
    this.#outbox = outbox;
    this.#options = options;
    this.#unsent = new UnsentRows(outbox);
    // Rows from before the start are in no hurry: they wait for the pace, so that those of the call that started this go along.
    if (!this.#unsent.isEmpty) this.#sentAtMs = Date.now();
    this.#schedule();
  }

  get storeFull(): boolean {
    return this.#probing !== null;
  }

  /** To be called with rows that have been committed to the outbox, behind all others. */
  committed(rows: readonly PackedRow[]): void {
    this.#unsent.add(rows);
    this.#schedule();
  }

  /** To be called when the store has refused rows for want of room: from then on only probes are sent. */
  stopForFullStore(): void {
    if (this.#probing !== null) {
      this.#probing.answered = true;
      return;
    }
    this.#probing = { atMs: Date.now() + STORE_PROBE_MS, lastRow: 0, answered: true };
    this.#round++;
    this.#unsent.forget();
    this.#options.alarmBy(this.#probing.atMs);
  }

  /** Sends everything that is not settled, from the oldest on. */
  startOver(): void {
    this.#probing = null;
    this.#unsent.startOver();
    this.#resentAtMs = Date.now();
    this.#round++;
    this.#schedule();
  }

  /**
   * Sends what has not been sent since the object started, then what was lost on the way, or a probe while the store is
   * full, and has the alarm set for what is left to do. Ends when nothing is under way any more, also of what was when it
   * was called: the alarm that calls it would not ring again for what an object leaves that is killed meanwhile. Never
   * throws.
   */
  async run(): Promise<void> {
    await this.#running;
    this.#noneOlderMs = null;
    await this.#start("all");
  }

  #start(which: WhichMessages): Promise<void> {
    this.#running ??= this.#runOnce(which).finally(() => {
      this.#running = null;
      this.#schedule();
    });
    return this.#running;
  }

  async #runOnce(which: WhichMessages): Promise<void> {
    try {
      if (this.#probing === null) await this.#sendUnsent(which);
      else if (this.#probing.atMs <= Date.now()) await this.#sendProbe(this.#probing);
      this.#failedSends = 0;
      this.#options.alarmBy(this.#probing?.atMs ?? this.#nextResendMs());
    } catch (error) {
      this.#failedSends++;
      this.#unsent.forget();
      const workspace = this.#options.workspaceId;
      logEvent("drain_failed", { workspace, failed: this.#failedSends, error: errorText(error) });
      this.#options.alarmBy(Date.now() + retryDelaySeconds(this.#failedSends) * 1_000);
    }
  }

  /** Has unsent rows sent when it is time. While the queue refuses, or the store is full, only the alarm tries. */
  #schedule(): void {
    if (this.#running !== null || this.#failedSends > 0 || this.#probing !== null) return;
    if (this.#unsent.isEmpty) return;
    if (!this.#paceTimer) {
      this.#paceTimer = true;
      const waitMs = this.#sentAtMs + this.#options.paceMs - Date.now();
      setTimeout(
        () => {
          this.#paceTimer = false;
          void this.#start("all");
        },
        Math.min(this.#options.paceMs, Math.max(0, waitMs)),
      );
    }
    if (!this.#fullTimer && this.#unsent.hasFullMessage) {
      this.#fullTimer = true;
      setTimeout(() => {
        this.#fullTimer = false;
        void this.#start("full");
      }, 0);
    }
  }

  /** When unsettled rows are to be sent again, or sooner; infinity when there are none. */
  #nextResendMs(): number {
    const knownMs = this.#resendMs(this.#noneOlderMs);
    if (knownMs > Date.now() && knownMs < Number.POSITIVE_INFINITY) return knownMs;
    this.#noneOlderMs = this.#outbox.oldest()?.atMs ?? null;
    return this.#resendMs(this.#noneOlderMs);
  }

  #resendMs(oldestMs: number | null): number {
    return oldestMs === null ? Number.POSITIVE_INFINITY : Math.max(oldestMs, this.#resentAtMs) + RESEND_AFTER_MS;
  }

  async #sendUnsent(which: WhichMessages): Promise<void> {
    const round = this.#round;
    for (let messages = this.#unsent.take(which); messages.length > 0; messages = this.#unsent.take(which)) {
      // oxlint-disable-next-line no-await-in-loop -- in order, and no more than one sendBatch in memory
      const lastRow = await this.#send(messages);
      if (round !== this.#round) return;
      this.#unsent.sent(lastRow);
    }
    const nowMs = Date.now();
    if (this.#probing !== null || this.#nextResendMs() > nowMs) return;
    await this.#sendAgain(nowMs - RESEND_AFTER_MS);
    this.#resentAtMs = nowMs;
  }

  async #sendAgain(admittedUntil: number): Promise<void> {
    const round = this.#round;
    let afterRow = 0;
    for (;;) {
      const messages = this.#read(afterRow, admittedUntil, SEND_BATCH_MAX_MESSAGES);
      if (messages.length === 0) return;
      // oxlint-disable-next-line no-await-in-loop -- in order, and no more than one sendBatch in memory
      afterRow = await this.#send(messages);
      if (round !== this.#round) return;
    }
  }

  /**
   * Sends one message of the oldest rows. A probe that nobody answered may have held rows that can never be settled: the
   * next one has the rows behind them.
   */
  async #sendProbe(probing: Probing): Promise<void> {
    const afterRow = probing.answered ? 0 : probing.lastRow;
    Object.assign(probing, { lastRow: afterRow, answered: false });
    const messages = this.#read(afterRow, EVER, 1);
    probing.lastRow = messages.length === 0 ? 0 : await this.#send(messages);
    probing.atMs = Date.now() + STORE_PROBE_MS;
    // No row waits any more, so that there is nothing to put off either.
    if (messages.length === 0 && afterRow === 0 && this.#probing === probing) this.#probing = null;
  }

  #read(afterRow: number, admittedUntil: number, maxMessages: number): PackedMessage[] {
    return this.#outbox.messages({ afterRow, admittedUntil, maxMessages });
  }

  /** Returns the last row sent. */
  async #send(messages: PackedMessage[]): Promise<number> {
    const { workspaceId, send } = this.#options;
    this.#sentAtMs = Date.now();
    const low = this.#outbox.oldest()?.row ?? 0;
    const bodies = messages.map(({ rows }) => ({
      body: writeMessage(workspaceId, low, rows),
      contentType: "text" as const,
    }));
    // The call has a limit, for one that never ends would end the drain.
    await within(SEND_TIMEOUT_MS, send(bodies));
    return messages[messages.length - 1]?.lastRow ?? 0;
  }
}

// The rows of the outbox that have not been sent since the object started, or since the Signal Store had room again. Rows just
// committed are kept in memory; the table is read after a restart, a failure, and where more waits than memory is to hold.

/** Rows that wait in memory to be sent; beyond that they are read from the table. */
export const UNSENT_MAX_BYTES = 4_000_000;

class UnsentRows {
  readonly #outbox: Pick<Outbox, "messages">;
  /** Rows up to this number have been handed to the queue. */
  #sentUpTo = 0;
  /** All rows behind `#sentUpTo`; none of them while they are in the table only. */
  readonly #inMemory = new MessagePacker();
  #inTableOnly: boolean;

  /** @param outbox whose rows have not been sent as far as is known, where it has any. */
  constructor(outbox: Pick<Outbox, "messages" | "oldest">) {
    this.#outbox = outbox;
    this.#inTableOnly = outbox.oldest() !== null;
  }

  /** Whether all rows have been sent, as far as is known without a look at the table. */
  get isEmpty(): boolean {
    return !this.#inTableOnly && this.#inMemory.isEmpty;
  }

  get hasFullMessage(): boolean {
    return this.#inMemory.hasFull;
  }

  /** Adds rows that have been committed to the outbox, behind all others. */
  add(rows: readonly PackedRow[]): void {
    if (this.#inTableOnly) return;
    for (const row of rows) this.#inMemory.add(row);
    if (this.#inMemory.bytes > UNSENT_MAX_BYTES) this.forget();
  }

  /** Lets go of the rows in memory: they are read from the table when they are sent. */
  forget(): void {
    this.#inMemory.clear();
    this.#inTableOnly = true;
  }

  /** Has all that is not settled sent, from the oldest row on. */
  startOver(): void {
    this.#sentUpTo = 0;
    this.forget();
  }

  /** The messages of one `sendBatch`. From the table come all of them, be they full or not. */
  take(which: WhichMessages): PackedMessage[] {
    if (!this.#inTableOnly) return this.#inMemory.take(which, SEND_BATCH_MAX_MESSAGES, SEND_BATCH_MAX_BYTES);
    const messages = this.#outbox.messages({
      afterRow: this.#sentUpTo,
      admittedUntil: Number.MAX_SAFE_INTEGER,
      maxMessages: SEND_BATCH_MAX_MESSAGES,
    });
    // All that was in the table has been sent: what is committed from now on is kept in memory.
    if (messages.length === 0) this.#inTableOnly = false;
    return messages;
  }

  sent(lastRow: number): void {
    this.#sentUpTo = lastRow;
  }
}
