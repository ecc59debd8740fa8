/**
 * Sends outbox rows to the queue. The position is only in memory: a restart sends every unsettled row again, and the
 * store ignores known rows.
 *
 * A full message leaves at once. A partly filled one leaves at once after an idle time. Otherwise it waits for the
 * pace, because a message costs as much as the rows of three signals.
 *
 * While the Signal Store is full, the drain sends one probe message a minute. A settled probe means room again. After a
 * restart, the first messages detect again that the store is full.
 */
import { isBefore } from "../domain/duration.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { retryDelaySeconds, within } from "../platform/time-limit.ts";
import { writeMessage } from "../wire/message.ts";
import type { PacedAlarm } from "../platform/alarm.ts";
import {
  type Outbox,
  MessagePacker,
  type PackedMessage,
  type PackedRow,
  SEND_BATCH_MAX_BYTES,
  SEND_BATCH_MAX_MESSAGES,
  type WhichMessages,
} from "./outbox.ts";

export const SEND_TIMEOUT_MS = 10_000;
/** Age at which an unsettled row is sent again: longer than a healthy backlog. */
export const RESEND_AFTER_MS = 15 * 60_000;

export const STORE_PROBE_MS = 60_000;

interface DrainOptions {
  workspaceId: string;
  send: (messages: { body: Uint8Array; contentType: "bytes" }[]) => Promise<unknown>;
  paceMs: number;
}

interface Probing {
  atMs: number;
  /** 0: no probe yet. */
  lastRow: number;
  /** Whether the store has answered it with "full". */
  answered: boolean;
}

export class Drain {
  readonly #outbox: Pick<Outbox, "messages" | "oldest">;
  readonly #alarm: Pick<PacedAlarm, "wakeBy">;
  readonly #options: DrainOptions;
  readonly #unsent: UnsentRows;
  #sentAtMs = Number.NEGATIVE_INFINITY;
  readonly #timers = new Set<WhichMessages>();
  #running: Promise<void> | null = null;
  #failedSends = 0;
  /** A restart resends all unsettled rows. */
  #resentAtMs = Date.now();
  /** Null: the store has room, as far as the drain knows. */
  #probing: Probing | null = null;
  /** Changes when sending stops or starts over, so that a send in progress does not move the position. */
  #round = 0;

  constructor(outbox: Pick<Outbox, "messages" | "oldest">, alarm: Pick<PacedAlarm, "wakeBy">, options: DrainOptions) {
    this.#outbox = outbox;
    this.#alarm = alarm;
    this.#options = options;
    this.#unsent = new UnsentRows(outbox);
    // Old rows wait for the pace, to share messages with the call that started the object.
    if (!this.#unsent.isEmpty) this.#sentAtMs = Date.now();
    this.#schedule();
  }

  get storeFull(): boolean {
    return this.#probing !== null;
  }

  committed(rows: readonly PackedRow[]): void {
    this.#unsent.add(rows);
    this.#schedule();
  }

  /** From then on only probes are sent. */
  stopForFullStore(): void {
    if (this.#probing !== null) {
      this.#probing.answered = true;
      return;
    }
    this.#probing = { atMs: Date.now() + STORE_PROBE_MS, lastRow: 0, answered: true };
    this.#round++;
    this.#unsent.forget();
    this.#alarm.wakeBy(this.#probing.atMs);
  }

  startOver(): void {
    this.#probing = null;
    this.#unsent.startOver();
    this.#resentAtMs = Date.now();
    this.#round++;
    this.#schedule();
  }

  /**
   * Sends unsent and overdue rows, or a probe. Waits for every send in progress, or an object that is killed after its
   * alarm would leave work without an alarm. Never throws.
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
      else if (!isBefore(this.#probing.atMs, Date.now(), STORE_PROBE_MS)) await this.#sendProbe(this.#probing);
      this.#failedSends = 0;
      this.#alarm.wakeBy(this.#probing?.atMs ?? this.#nextResendMs());
    } catch (error) {
      this.#failedSends++;
      this.#unsent.forget();
      const workspace = this.#options.workspaceId;
      logEvent("drain_failed", { workspace, failed: this.#failedSends, error: errorText(error) });
      this.#alarm.wakeBy(Date.now() + retryDelaySeconds(this.#failedSends) * 1_000);
    }
  }

  /** While the queue fails or the store is full, only the alarm sends. */
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
      // The other timer's send may have failed.
      if (this.#failedSends === 0) void this.#start(which);
    }, ms);
  }

  /** Infinity: no unsettled row. A time that has not come yet was noted before the clock was set back. */
  #nextResendMs(): number {
    const oldest = this.#outbox.oldest();
    const passed = [oldest?.atMs ?? 0, this.#resentAtMs].filter((ms) => ms <= Date.now());
    return oldest === null ? Number.POSITIVE_INFINITY : Math.max(0, ...passed) + RESEND_AFTER_MS;
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
    // The clock was set back: the times of rows do not rise.
    const isBack = (this.#outbox.oldest()?.atMs ?? 0) > nowMs;
    await this.#resend(isBack ? Number.POSITIVE_INFINITY : nowMs - RESEND_AFTER_MS);
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

  /** The rows of an unanswered probe may never be settled, so the next probe takes those behind. */
  async #sendProbe(probing: Probing): Promise<void> {
    const afterRow = probing.answered ? 0 : probing.lastRow;
    Object.assign(probing, { lastRow: afterRow, answered: false });
    const messages = this.#outbox.messages({ afterRow, admittedUntil: Infinity, maxMessages: 1 });
    probing.lastRow = messages.length === 0 ? 0 : await this.#send(messages);
    probing.atMs = Date.now() + STORE_PROBE_MS;
    // The outbox is empty: nothing is left to probe with.
    if (messages.length === 0 && afterRow === 0 && this.#probing === probing) this.#probing = null;
  }

  async #send(messages: PackedMessage[]): Promise<number> {
    const { workspaceId, send } = this.#options;
    this.#sentAtMs = Date.now();
    const lowestUnsettledRow = this.#outbox.oldest()?.row ?? 0;
    const bodies = messages.map(({ rows }) => ({
      body: writeMessage(workspaceId, lowestUnsettledRow, rows),
      contentType: "bytes" as const,
    }));
    // A call that never settles would stop the drain.
    await within(SEND_TIMEOUT_MS, send(bodies));
    return messages[messages.length - 1]?.lastRow ?? 0;
  }
}

// Rows not sent since the start, or since the store had room again. New rows are kept in memory; after a restart, a
// failure and above UNSENT_MAX_BYTES they are read from the table.

export const UNSENT_MAX_BYTES = 4_000_000;

class UnsentRows {
  readonly #outbox: Pick<Outbox, "messages">;
  #sentUpTo = 0;
  /** All rows after `#sentUpTo`; none while they must be read from the table. */
  readonly #inMemory = new MessagePacker();
  #inTableOnly: boolean;

  constructor(outbox: Pick<Outbox, "messages" | "oldest">) {
    this.#outbox = outbox;
    this.#inTableOnly = outbox.oldest() !== null;
  }

  /** False also if the table must be read to know. */
  get isEmpty(): boolean {
    return !this.#inTableOnly && this.#inMemory.isEmpty;
  }

  get hasFullMessage(): boolean {
    return this.#inMemory.hasFull;
  }

  add(rows: readonly PackedRow[]): void {
    if (this.#inTableOnly) return;
    const more = rows.reduce((sum, { body }) => sum + body.byteLength, 0);
    if (this.#inMemory.bytes + more > UNSENT_MAX_BYTES) this.forget();
    else for (const row of rows) this.#inMemory.add(row);
  }

  /** The rows are read from the table when they are sent. */
  forget(): void {
    this.#inMemory.clear();
    this.#inTableOnly = true;
  }

  startOver(): void {
    this.#sentUpTo = 0;
    this.forget();
  }

  /** Messages of one `sendBatch`; from the table also partly filled ones. */
  take(which: WhichMessages): PackedMessage[] {
    if (!this.#inTableOnly) return this.#inMemory.take(which, SEND_BATCH_MAX_MESSAGES, SEND_BATCH_MAX_BYTES);
    const messages = this.#outbox.messages({
      afterRow: this.#sentUpTo,
      admittedUntil: Infinity,
      maxMessages: SEND_BATCH_MAX_MESSAGES,
    });
    // No unsent rows are left: keep new rows in memory again.
    if (messages.length === 0) this.#inTableOnly = false;
    return messages;
  }

  sent(lastRow: number): void {
    this.#sentUpTo = lastRow;
  }
}
