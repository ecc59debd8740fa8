/**
 * The head of a log: the lines that are in no segment yet, and what else changes with every batch, in one row, so that a
 * batch of any size writes one row here. What grows is padded: where the new value is as long as the old one, SQLite
 * writes only the pages that differ.
 */
import type { Cell } from "./line-cells.ts";
import { isOriginal } from "./line.ts";
import type { Facts } from "./line.ts";
import { Lines } from "./lines.ts";
import type { LogMeta } from "./log-meta.ts";
import { assertFits } from "./packing.ts";
import { HASH_BYTES } from "./segment.ts";

/** Lines of a segment: what is read and rewritten at a time. */
export const SEGMENT_MAX_LINES = 512;
/**
 * Bytes of a segment's payloads, and of its facts, before they are compressed: 0.2 ms to read back. Of ordinary traffic 300
 * lines, whose facts then fill whole pages of SQLite.
 */
export const SEGMENT_MAX_BYTES = 112 * 1024;
/** The head's parts are padded to a multiple of this. */
const HEAD_STEP_BYTES = 16_384;

/** Ends a payload. No JSON text holds one, so that payloads stay as they were sent. */
const PAYLOAD_END = "\u001e";

/** Characters that the head keeps with each line besides its cells: its hash, and its end. */
const LINE_CHARACTERS = Math.ceil((HASH_BYTES * 4) / 3) + 1;
/** Most bytes of a UTF-16 code unit in UTF-8. */
const MOST_BYTES = 3;
const BASE64URL = { alphabet: "base64url", omitPadding: true } as const;
const META_STEP_CHARACTERS = 1_024;
const LOG_NUMBERS = { signals: 1, held: 2 } as const;

export type LogName = keyof typeof LOG_NUMBERS;

/** A text, as bytes in a buffer that is longer than it. */
class PaddedText {
  bytes = new Uint8Array(HEAD_STEP_BYTES);
  #used = 0;

  get used(): number {
    return this.#used;
  }

  append(text: string): void {
    // Most texts surely fit, so that their bytes need not be counted.
    if (this.bytes.length - this.#used < text.length * MOST_BYTES) this.#reserve(this.#used + Buffer.byteLength(text));
    const { written } = encoder.encodeInto(text, this.bytes.subarray(this.#used));
    this.#used += written;
  }

  /** Empties the text. Its bytes are overwritten: nothing of it stays behind. */
  clear(): void {
    this.bytes.fill(0, 0, this.#used);
    this.#used = 0;
  }

  load(stored: ArrayBuffer): string {
    this.bytes = new Uint8Array(stored);
    const end = this.bytes.indexOf(0);
    this.#used = end === -1 ? this.bytes.length : end;
    return decoder.decode(this.bytes.subarray(0, this.#used));
  }

  #reserve(needed: number): void {
    if (needed <= this.bytes.length) return;
    const grown = new Uint8Array(Math.ceil(needed / HEAD_STEP_BYTES) * HEAD_STEP_BYTES);
    grown.set(this.bytes.subarray(0, this.#used));
    this.bytes = grown;
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export class Head<Meta extends LogMeta> {
  readonly #sql: SqlStorage;
  readonly #log: number;
  readonly #facts = new PaddedText();
  readonly #payloads = new PaddedText();
  /** How many lines are in the buffers, and the texts of those that are not. */
  #encoded = 0;
  #texts: string[] = [];
  /** Most bytes that all lines can take, those that are not in the buffers included. */
  #most = { facts: 0, payloads: 0 };
  #stored: boolean;
  #isChanged = false;
  #writtenMeta = "";
  meta: Meta;
  nextSeq = 1;
  lines = new Lines();
  payloads: (string | null)[] = [];
  hashes: (Uint8Array | null)[] = [];

  constructor(sql: SqlStorage, log: LogName, empty: Meta) {
    this.#sql = sql;
    this.#log = LOG_NUMBERS[log];
    const [row] = sql.exec<{ next_seq: number; meta: string; facts: ArrayBuffer; payloads: ArrayBuffer }>(
      "SELECT next_seq, meta, facts, payloads FROM heads WHERE log = ?",
      this.#log,
    );
    this.#stored = row !== undefined;
    this.meta = row === undefined ? empty : pickKnown(empty, JSON.parse(row.meta) as Partial<Meta>);
    this.#writtenMeta = JSON.stringify(this.meta);
    if (row === undefined) return;
    this.nextSeq = row.next_seq;
    const texts = this.#facts.load(row.facts).split("\n").slice(0, -1);
    const payloads = this.#payloads.load(row.payloads).split(PAYLOAD_END).slice(0, texts.length);
    this.payloads = payloads.map((payload) => (payload === "" ? null : payload));
    for (const text of texts) {
      const begins = text.indexOf("[");
      this.hashes.push(begins === 0 ? null : Uint8Array.fromBase64(text.slice(0, begins), BASE64URL));
      this.lines.push(JSON.parse(text.slice(begins)) as Cell[]);
    }
    this.#encoded = texts.length;
    this.#most = { facts: this.#facts.used, payloads: this.#payloads.used };
  }

  get firstSeq(): number {
    return this.nextSeq - this.lines.length;
  }

  /** Whether the open lines are to be sealed before such a line comes. */
  isFullFor(text: string, payload: string | null): boolean {
    const { length } = this.lines;
    if (length === 0) return false;
    if (length >= SEGMENT_MAX_LINES) return true;
    const facts = this.#most.facts + text.length * MOST_BYTES;
    const payloads = this.#most.payloads + (payload?.length ?? 0) * MOST_BYTES;
    // Mostly there is surely room, so that nothing has to be encoded and counted.
    if (facts <= SEGMENT_MAX_BYTES && payloads <= SEGMENT_MAX_BYTES) return false;
    this.#encode();
    return (
      this.#facts.used + Buffer.byteLength(text) > SEGMENT_MAX_BYTES ||
      this.#payloads.used + Buffer.byteLength(payload ?? "") > SEGMENT_MAX_BYTES
    );
  }

  /** Adds a line and returns its number. @param text of the cells, see `textOfCells`. */
  push(cells: readonly Cell[], text: string, payload: string | null, hash: Uint8Array | null): number {
    this.#most.facts += (text.length + LINE_CHARACTERS) * MOST_BYTES;
    this.#most.payloads += ((payload?.length ?? 0) + 1) * MOST_BYTES;
    this.lines.push(cells);
    this.#texts.push(text);
    this.payloads.push(payload);
    this.hashes.push(hash);
    this.#isChanged = true;
    return this.nextSeq++;
  }

  /**
   * Changes facts of lines by their numbers; one that is no original any more loses its hash. `lines` is replaced: whoever
   * has read the lines before keeps what they have read.
   */
  rewrite(changes: ReadonlyMap<number, Facts>): void {
    const { firstSeq } = this;
    for (const [seq, facts] of changes) if (!isOriginal(facts)) this.hashes[seq - firstSeq] = null;
    this.lines = this.lines.with(new Map([...changes].map(([seq, facts]) => [seq - firstSeq, facts] as const)));
    this.#encodeAgain();
  }

  /** Whether the open lines are still as they were read: they are replaced where one changes, and added to otherwise. */
  isCurrent({ firstSeq, lines }: { firstSeq: number; lines: Lines }): boolean {
    return firstSeq === this.firstSeq && lines === this.lines;
  }

  replacePayloads(payloads: (string | null)[]): void {
    this.payloads = payloads;
    this.#encodeAgain();
  }

  /** To be called where payloads or facts have been changed that were there before. */
  #encodeAgain(): void {
    this.#facts.clear();
    this.#payloads.clear();
    this.#texts = Array.from({ length: this.lines.length }, (_, index) => textOfCells(this.lines.cells(index)));
    this.#encoded = 0;
    this.#most = { facts: Number.POSITIVE_INFINITY, payloads: Number.POSITIVE_INFINITY };
    this.#isChanged = true;
  }

  /** Empties the head, whose lines are in a segment now. */
  clear(): void {
    this.lines = new Lines();
    this.#encodeAgain();
    this.payloads = [];
    this.hashes = [];
    this.#most = { facts: 0, payloads: 0 };
  }

  /** The lines' hashes one after the other, HASH_BYTES each. */
  hashBytes(): Uint8Array {
    const bytes = new Uint8Array(this.hashes.length * HASH_BYTES);
    this.hashes.forEach((hash, index) => hash && bytes.set(hash, index * HASH_BYTES));
    return bytes;
  }

  /** Writes the head's row, if there is something to write. @param meta JSON of `this.meta`. */
  write(meta: string): void {
    if (!this.#isChanged && meta === this.#writtenMeta) return;
    this.#encode();
    const padded = meta.padEnd(Math.ceil(meta.length / META_STEP_CHARACTERS) * META_STEP_CHARACTERS);
    assertFits(Buffer.byteLength(padded) + this.#facts.bytes.length + this.#payloads.bytes.length, "a head");
    const values = [this.nextSeq, padded, this.#facts.bytes, this.#payloads.bytes, this.#log] as SqlStorageValue[];
    const statement = this.#stored
      ? "UPDATE heads SET next_seq = ?, meta = ?, facts = ?, payloads = ? WHERE log = ?"
      : "INSERT INTO heads (next_seq, meta, facts, payloads, log) VALUES (?, ?, ?, ?, ?)";
    this.#sql.exec(statement, ...values);
    this.#stored = true;
    this.#isChanged = false;
    this.#writtenMeta = meta;
  }

  #encode(): void {
    if (this.#texts.length === 0) return;
    let facts = "";
    for (const [index, text] of this.#texts.entries()) {
      const hash = this.hashes[this.#encoded + index] ?? null;
      facts += `${hash === null ? "" : hash.toBase64(BASE64URL)}${text}\n`;
    }
    this.#facts.append(facts);
    const payloads = this.payloads.slice(this.#encoded).map((payload) => `${payload ?? ""}${PAYLOAD_END}`);
    this.#payloads.append(payloads.join(""));
    this.#encoded += this.#texts.length;
    this.#texts = [];
    this.#most = { facts: this.#facts.used, payloads: this.#payloads.used };
  }
}

/** `stored` without what only an earlier release has kept; what it lacks is as in `empty`. */
function pickKnown<Meta extends object>(empty: Meta, stored: Partial<Meta>): Meta {
  const names = Object.keys(empty) as (keyof Meta)[];
  return Object.fromEntries(names.map((name) => [name, stored[name] ?? empty[name]])) as Meta;
}

/** Cells as the text that the head keeps of a line, without what is absent at the end. */
export function textOfCells(cells: readonly Cell[]): string {
  let { length } = cells;
  while (cells[length - 1] === 0) length--;
  return JSON.stringify(cells.slice(0, length));
}
