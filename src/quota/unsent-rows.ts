/**
 * The rows of the outbox that have not been sent since the object started, or since the Signal Store had room again. Rows just
 * committed are kept in memory; the table is read after a restart, a failure, and where more waits than memory is to hold.
 */
import type { Outbox } from "./outbox.ts";
import { MessagePacker, SEND_BATCH_MAX_BYTES, SEND_BATCH_MAX_MESSAGES } from "./pack.ts";
import type { PackedMessage, PackedRow, WhichMessages } from "./pack.ts";

/** Rows that wait in memory to be sent; beyond that they are read from the table. */
export const UNSENT_MAX_BYTES = 4_000_000;

export class UnsentRows {
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
