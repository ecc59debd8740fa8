/**
 * Sends outbox rows to the queue. The position is kept in memory only: a restart sends every unsettled row again, which is
 * harmless because the store ignores known rows.
 *
 * A full message leaves at once. A partly filled message leaves at once after an idle time, otherwise at the configured
 * pace. The reason: a message costs as much as the rows of three signals.
 *
 * While the Signal Store is full, the drain sends one probe message a minute. When the probe is settled, there is room
 * again. A restart forgets that the store is full; its first messages detect it again.
 */
import { errorText, logEvent } from "../platform/log.ts";
import { retryDelaySeconds, within } from "../platform/time-limit.ts";
import { writeMessage } from "../wire/message.ts";
import type { CounterAlarm } from "./counter-alarm.ts";
import type { Outbox } from "./outbox.ts";
import {
  MessagePacker,
  type PackedMessage,
  type PackedRow,
  SEND_BATCH_MAX_BYTES,
  SEND_BATCH_MAX_MESSAGES,
  type WhichMessages,
} from "./outbox.ts";

/** Timeout of one `sendBatch`; it is retried. */
export const SEND_TIMEOUT_MS = 10_000;
/** Age at which an unsettled row is sent again. It is longer than a healthy backlog. */
export const RESEND_AFTER_MS = 15 * 60_000;

/** Interval of probes while the Signal Store is full. */
export const STORE_PROBE_MS = 60_000;

interface DrainOptions {
  workspaceId: string;
  /** Sends messages to the queue. */
  send: (messages: { body: string; contentType: "text" }[]) => Promise<unknown>;
  /** Minimum time between two partly filled messages, in milliseconds. */
  paceMs: number;
}

interface Probing {
  /** Time of the next probe. */
  atMs: number;
  /** Last row of the last probe; 0: no probe yet. */
  lastRow: number;
  /** Whether the store answered the last probe with "full". */
  answered: boolean;
}

export class Drain {
  readonly #outbox: Pick<Outbox, "messages" | "oldest">;
  readonly #alarm: Pick<CounterAlarm, "workBy">;
  readonly #options: DrainOptions;
  readonly #unsent: UnsentRows;
  #sentAtMs = Number.NEGATIVE_INFINITY;
  readonly #timers = new Set<WhichMessages>();
  #running: Promise<void> | null = null;
  #failedSends = 0;
  /** Time of the last resend of unsettled rows. A restart resends all of them. */
  #resentAtMs = Date.now();
  /** Null while the store has room, as far as the drain knows. */
  #probing: Probing | null = null;
  /** Increased when sending stops or starts over, so that a send in progress no longer moves the position. */
  #round = 0;

  /** @param alarm calls `run`. */
  constructor(outbox: Pick<Outbox, "messages" | "oldest">, alarm: Pick<CounterAlarm, "workBy">, options: DrainOptions) {
    this.#outbox = outbox;
    this.#alarm = alarm;
    this.#options = options;
    this.#unsent = new UnsentRows(outbox);
    // Rows from before the start wait for the pace, so that they share messages with the call that started the object.
    if (!this.#unsent.isEmpty) this.#sentAtMs = Date.now();
    this.#schedule();
  }

  get storeFull(): boolean {
    return this.#probing !== null;
  }

  /** Queues rows that were just committed to the outbox. */
  committed(rows: readonly PackedRow[]): void {
    this.#unsent.add(rows);
    this.#schedule();
  }

  /** Called when the store refused rows because it is full. From then on only probes are sent. */
  stopForFullStore(): void {
    if (this.#probing !== null) {
      this.#probing.answered = true;
      return;
    }
    this.#probing = { atMs: Date.now() + STORE_PROBE_MS, lastRow: 0, answered: true };
    this.#round++;
    this.#unsent.forget();
    this.#alarm.workBy(this.#probing.atMs);
  }

  /** Sends every unsettled row, from the oldest. */
  startOver(): void {
    this.#probing = null;
    this.#unsent.startOver();
    this.#resentAtMs = Date.now();
    this.#round++;
    this.#schedule();
  }

  /**
   * Sends unsent rows, then resends overdue rows (or sends a probe while the store is full), and sets the alarm for the
   * remaining work. Resolves only when every send in progress has ended: the alarm that awaits it must not end before, or a
   * killed object would leave work without an alarm. Never throws.
   */
  async run(): Promise<void> {
    await this.#running;
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
      this.#alarm.workBy(this.#probing?.atMs ?? this.#nextResendMs());
    } catch (error) {
      this.#failedSends++;
      this.#unsent.forget();
      const workspace = this.#options.workspaceId;
      logEvent("drain_failed", { workspace, failed: this.#failedSends, error: errorText(error) });
      this.#alarm.workBy(Date.now() + retryDelaySeconds(this.#failedSends) * 1_000);
    }
  }

  /** Schedules the next send. While the queue fails or the store is full, only the alarm sends. */
  #schedule(): void {
    if (this.#running !== null || this.#failedSends > 0 || this.#probing !== null || this.#unsent.isEmpty) return;
    const { paceMs } = this.#options;
    const waitMs = this.#sentAtMs + paceMs - Date.now();
    this.#startAfter("all", Math.min(paceMs, Math.max(0, waitMs)));
    if (this.#unsent.hasFullMessage) this.#startAfter("full", 0);
  }

  #startAfter(which: WhichMessages, ms: number): void {
    if (this.#timers.has(which)) return;
    this.#timers.add(which);
    setTimeout(() => {
      this.#timers.delete(which);
      // The other timer's send may have failed in the meantime.
      if (this.#failedSends === 0) void this.#start(which);
    }, ms);
  }

  /** Time of the next resend; infinity: no unsettled row. */
  #nextResendMs(): number {
    const oldest = this.#outbox.oldest();
    return oldest === null ? Number.POSITIVE_INFINITY : Math.max(oldest.atMs, this.#resentAtMs) + RESEND_AFTER_MS;
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
    await this.#resend(nowMs - RESEND_AFTER_MS);
    this.#resentAtMs = nowMs;
  }

  async #resend(admittedUntil: number): Promise<void> {
    const round = this.#round;
    let afterRow = 0;
    for (;;) {
      const messages = this.#outbox.messages({ afterRow, admittedUntil, maxMessages: SEND_BATCH_MAX_MESSAGES });
      if (messages.length === 0) return;
      // oxlint-disable-next-line no-await-in-loop -- in order, and no more than one sendBatch in memory
      afterRow = await this.#send(messages);
      if (round !== this.#round) return;
    }
  }

  /**
   * Sends one message of the oldest rows. If the last probe got no answer, its rows may never be settled, so the next probe
   * takes the rows behind them.
   */
  async #sendProbe(probing: Probing): Promise<void> {
    const afterRow = probing.answered ? 0 : probing.lastRow;
    Object.assign(probing, { lastRow: afterRow, answered: false });
    const messages = this.#outbox.messages({ afterRow, admittedUntil: Infinity, maxMessages: 1 });
    probing.lastRow = messages.length === 0 ? 0 : await this.#send(messages);
    probing.atMs = Date.now() + STORE_PROBE_MS;
    // The outbox is empty, so there is nothing left to probe with.
    if (messages.length === 0 && afterRow === 0 && this.#probing === probing) this.#probing = null;
  }

  /** @returns the number of the last row sent. */
  async #send(messages: PackedMessage[]): Promise<number> {
    const { workspaceId, send } = this.#options;
    this.#sentAtMs = Date.now();
    const low = this.#outbox.oldest()?.row ?? 0;
    const bodies = messages.map(({ rows }) => ({
      body: writeMessage(workspaceId, low, rows),
      contentType: "text" as const,
    }));
    // Without a timeout, one call that never settles would stop the drain.
    await within(SEND_TIMEOUT_MS, send(bodies));
    return messages[messages.length - 1]?.lastRow ?? 0;
  }
}

// Rows that have not been sent since the start, or since the store had room again. New rows are kept in memory. After a
// restart, after a failure and above UNSENT_MAX_BYTES they are read from the table.

/** Maximum size of unsent rows in memory. */
export const UNSENT_MAX_BYTES = 4_000_000;

class UnsentRows {
  readonly #outbox: Pick<Outbox, "messages">;
  /** The queue has taken the rows up to this number. */
  #sentUpTo = 0;
  /** All rows behind `#sentUpTo`, or none of them if they must be read from the table. */
  readonly #inMemory = new MessagePacker();
  #inTableOnly: boolean;

  /** @param outbox its rows count as unsent. */
  constructor(outbox: Pick<Outbox, "messages" | "oldest">) {
    this.#outbox = outbox;
    this.#inTableOnly = outbox.oldest() !== null;
  }

  /** Whether all rows have been sent. False if that is unknown without reading the table. */
  get isEmpty(): boolean {
    return !this.#inTableOnly && this.#inMemory.isEmpty;
  }

  get hasFullMessage(): boolean {
    return this.#inMemory.hasFull;
  }

  add(rows: readonly PackedRow[]): void {
    if (this.#inTableOnly) return;
    for (const row of rows) this.#inMemory.add(row);
    if (this.#inMemory.bytes > UNSENT_MAX_BYTES) this.forget();
  }

  /** Drops the rows from memory; they are read from the table when they are sent. */
  forget(): void {
    this.#inMemory.clear();
    this.#inTableOnly = true;
  }

  /** Marks every unsettled row as unsent. */
  startOver(): void {
    this.#sentUpTo = 0;
    this.forget();
  }

  /** Returns the messages of one `sendBatch`. From the table it also returns partly filled messages. */
  take(which: WhichMessages): PackedMessage[] {
    if (!this.#inTableOnly) return this.#inMemory.take(which, SEND_BATCH_MAX_MESSAGES, SEND_BATCH_MAX_BYTES);
    const messages = this.#outbox.messages({
      afterRow: this.#sentUpTo,
      admittedUntil: Infinity,
      maxMessages: SEND_BATCH_MAX_MESSAGES,
    });
    // The table has no unsent rows left: keep new rows in memory again.
    if (messages.length === 0) this.#inTableOnly = false;
    return messages;
  }

  sent(lastRow: number): void {
    this.#sentUpTo = lastRow;
  }
}
