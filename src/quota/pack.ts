/** Signals into outbox rows, and outbox rows into queue messages. A row is at most a message long, and never spans two. */
import { MESSAGE_MAX_BYTES } from "../limits.ts";
import type { OutboxRow } from "../wire/admission.ts";
import { ROW_HEADER_BYTES, firstSignals, writeRow } from "../wire/message.ts";
import type { AdmitChunk } from "./protocol.ts";

/** `sendBatch` takes 100 messages and 256 KB. */
export const SEND_BATCH_MAX_MESSAGES = 100;
export const SEND_BATCH_MAX_BYTES = 250_000;

/** An outbox row as it is stored and sent. */
export interface PackedRow {
  row: number;
  at: number;
  periodStart: number;
  /** How many signals the row has. */
  count: number;
  /** UTF-8 length of `text`, or a little more. */
  bytes: number;
  /** Whether its signals are sent once more, so that the Signal Store has them already. */
  isAgain: boolean;
  text: string;
}

/** Collects the signals of one commit into as few rows as MESSAGE_MAX_BYTES allows. */
export class RowPacker {
  readonly #rows: { row: OutboxRow; signals: string; bytes: number }[] = [];
  readonly #header: Omit<OutboxRow, "row" | "first" | "count" | "accepted">;
  #nextRow: number;
  /** Ordinals given out so far, and up to which of them verdicts are `accepted`. */
  #used: number;
  readonly #isAgain: boolean;

  constructor(
    header: { at: number; period_start: number; period_end: number; limit: number },
    nextRow: number,
    used: number,
    isAgain = false,
  ) {
    this.#header = header;
    this.#nextRow = nextRow;
    this.#used = used;
    this.#isAgain = isAgain;
  }

  /** Adds the first `accepted + held` signals of a call. */
  add(chunks: AdmitChunk[], accepted: number, held: number): void {
    let keep = accepted + held;
    let acceptedLeft = accepted;
    for (const chunk of chunks) {
      if (keep === 0) return;
      const count = Math.min(keep, chunk.count);
      const signals = count === chunk.count ? chunk.text : firstSignals(chunk.text, count);
      const acceptedHere = Math.min(acceptedLeft, count);
      this.#append(signals, chunk.bytes, count, acceptedHere);
      keep -= count;
      acceptedLeft -= acceptedHere;
    }
  }

  #append(signals: string, bytes: number, count: number, accepted: number): void {
    const last = this.#rows.at(-1);
    if (last !== undefined && last.bytes + bytes <= MESSAGE_MAX_BYTES) {
      last.signals += signals;
      last.bytes += bytes;
      last.row.count += count;
      last.row.accepted += accepted;
    } else {
      const row = { ...this.#header, row: this.#nextRow++, first: this.#used + 1, count, accepted };
      this.#rows.push({ row, signals, bytes: bytes + ROW_HEADER_BYTES });
    }
    this.#used += count;
  }

  rows(): PackedRow[] {
    return this.#rows.map(({ row, signals, bytes }) => {
      const { row: number, at, period_start: periodStart, count } = row;
      return { row: number, at, periodStart, count, bytes, isAgain: this.#isAgain, text: writeRow(row, signals) };
    });
  }
}

/** Which messages are taken: also the one that has room for more, or only those that have none. */
export type WhichMessages = "all" | "full";

/** What goes into one queue message. */
export interface PackedMessage {
  rows: string;
  bytes: number;
  lastRow: number;
}

/** Collects rows, in order, into messages: full ones, and one that has room for more. */
export class MessagePacker {
  #full: PackedMessage[] = [];
  #open: PackedMessage | null = null;
  #bytes = 0;

  /** Bytes of all rows in the packer. */
  get bytes(): number {
    return this.#bytes;
  }

  get isEmpty(): boolean {
    return this.#open === null;
  }

  get hasFull(): boolean {
    return this.#full.length > 0;
  }

  add({ row, bytes, text }: Pick<PackedRow, "row" | "bytes" | "text">): void {
    const open = this.#open;
    this.#bytes += bytes;
    if (open !== null && open.bytes + bytes <= MESSAGE_MAX_BYTES) {
      open.rows += text;
      open.bytes += bytes;
      open.lastRow = row;
      return;
    }
    if (open !== null) this.#full.push(open);
    this.#open = { rows: text, bytes, lastRow: row };
  }

  /** Takes the first messages out, within both bounds. */
  take(which: WhichMessages, maxMessages: number, maxBytes: number): PackedMessage[] {
    const taken: PackedMessage[] = [];
    let bytes = 0;
    for (let next = this.#next(which); next !== null; next = this.#next(which)) {
      if (taken.length === maxMessages || (taken.length > 0 && bytes + next.bytes > maxBytes)) break;
      if (next === this.#open) this.#open = null;
      else this.#full.shift();
      bytes += next.bytes;
      this.#bytes -= next.bytes;
      taken.push(next);
    }
    return taken;
  }

  clear(): void {
    this.#full = [];
    this.#open = null;
    this.#bytes = 0;
  }

  #next(which: WhichMessages): PackedMessage | null {
    return this.#full[0] ?? (which === "all" ? this.#open : null);
  }
}
