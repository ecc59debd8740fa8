/**
 * The head is one row with the open lines and other data that changes with every batch. So a batch of any size writes one row here.
 * Growing values are padded: SQLite writes only the pages that differ if the length stays the same.
 */
import { toSqlBlob } from "../../platform/sql-row.ts";
import { assertFits, type Cell, Lines, PAYLOAD_END } from "./columns.ts";
import { type SignalFacts, isOriginal } from "./line.ts";
import { HASH_BYTES } from "../../domain/signal/canonical-form.ts";
import { type SignalLogName, PORTION_MAX_LINES } from "./signal-log.ts";

/** Bytes of a segment's payloads, and of its facts, before compression: 0.3 ms to unpack. Smaller segments waste more of their last pages. */
export const SEGMENT_MAX_BYTES = 144 * 1024;

const LOG_NUMBERS = { signals: 1, held: 2 } as const;

const HEAD_STEP_BYTES = 16_384;
const META_STEP_CHARACTERS = 1_024;

const HASH_CHARACTERS = Math.ceil((HASH_BYTES * 4) / 3);
const BASE64URL = { alphabet: "base64url", omitPadding: true } as const;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

export class Head<Meta extends object> {
  readonly #sql: SqlStorage;
  readonly #log: number;
  meta: Meta;
  nextSeq = 1;
  lines = new Lines();
  payloads: (string | null)[] = [];
  #hashes: (Uint8Array | null)[] = [];
  /** The text of each line without its hash. */
  #texts: string[] = [];
  /** Upper bounds of the bytes of all lines. */
  #bytes = { facts: 0, payloads: 0 };
  #isStored: boolean;
  #isChanged = false;
  #writtenMeta: string;

  constructor(sql: SqlStorage, log: SignalLogName, empty: Meta) {
    this.#sql = sql;
    this.#log = LOG_NUMBERS[log];
    const [row] = sql.exec<{ next_seq: number; meta: string; facts: ArrayBuffer; payloads: ArrayBuffer }>(
      "SELECT next_seq, meta, facts, payloads FROM heads WHERE log = ?",
      this.#log,
    );
    this.meta = row === undefined ? empty : (JSON.parse(row.meta) as Meta);
    this.#isStored = row !== undefined;
    this.#writtenMeta = JSON.stringify(this.meta);
    if (row === undefined) return;
    this.nextSeq = row.next_seq;
    const payloads = decodePadded(row.payloads).split(PAYLOAD_END);
    for (const [index, line] of decodePadded(row.facts).split("\n").slice(0, -1).entries()) {
      const start = line.indexOf("[");
      const hash = start === 0 ? null : Uint8Array.fromBase64(line.slice(0, start), BASE64URL);
      const text = line.slice(start);
      this.#add(JSON.parse(text) as Cell[], text, payloads[index] || null, hash);
    }
  }

  get firstSeq(): number {
    return this.nextSeq - this.lines.length;
  }

  /** When the first open line was recorded, in milliseconds since 1970. */
  get firstRecordedMs(): number {
    return Number(this.lines.cell(0, "receivedAt")) + Number(this.lines.cell(0, "recordedAfter"));
  }

  /** @param text result of `textOfCells`. */
  isFullFor(text: string, payload: string | null): boolean {
    const { length } = this.lines;
    if (length === 0 || length >= PORTION_MAX_LINES) return length > 0;
    const facts = this.#bytes.facts + Buffer.byteLength(text);
    const payloads = this.#bytes.payloads + Buffer.byteLength(payload ?? "");
    return facts > SEGMENT_MAX_BYTES || payloads > SEGMENT_MAX_BYTES;
  }

  /** @param text result of `textOfCells`. */
  push(cells: readonly Cell[], text: string, payload: string | null, hash: Uint8Array | null): number {
    this.#add(cells, text, payload, hash);
    this.#isChanged = true;
    return this.nextSeq++;
  }

  #add(cells: readonly Cell[], text: string, payload: string | null, hash: Uint8Array | null): void {
    this.lines.push(cells);
    this.payloads.push(payload);
    this.#texts.push(text);
    this.#hashes.push(hash);
    this.#bytes.facts += Buffer.byteLength(text) + (hash === null ? 0 : HASH_CHARACTERS) + 1;
    this.#bytes.payloads += Buffer.byteLength(payload ?? "") + 1;
  }

  /** Changes a copy of `lines`: earlier readers keep the old lines. */
  rewrite(changes: ReadonlyMap<number, SignalFacts>): void {
    const { firstSeq } = this;
    this.lines = this.lines.with(changes, firstSeq);
    for (const [seq, facts] of changes) {
      const index = seq - firstSeq;
      if (!isOriginal(facts)) this.#hashes[index] = null;
      const text = textOfCells(this.lines.cells(index));
      this.#bytes.facts += Buffer.byteLength(text) - Buffer.byteLength(this.#texts[index] ?? "");
      this.#texts[index] = text;
    }
    this.#isChanged = true;
  }

  replacePayloads(payloads: (string | null)[]): void {
    this.payloads = payloads;
    this.#bytes.payloads = payloads.reduce((sum, payload) => sum + Buffer.byteLength(payload ?? "") + 1, 0);
    this.#isChanged = true;
  }

  clear(): void {
    this.lines = new Lines();
    this.payloads = [];
    this.#texts = [];
    this.#hashes = [];
    this.#bytes = { facts: 0, payloads: 0 };
    this.#isChanged = true;
  }

  hashBytes(): Uint8Array {
    const bytes = new Uint8Array(this.#hashes.length * HASH_BYTES);
    this.#hashes.forEach((hash, index) => hash && bytes.set(hash, index * HASH_BYTES));
    return bytes;
  }

  write(meta: string): void {
    if (!this.#isChanged && meta === this.#writtenMeta) return;
    const padded = meta.padEnd(Math.ceil(meta.length / META_STEP_CHARACTERS) * META_STEP_CHARACTERS);
    const facts = encodePadded(
      this.#texts.map((text, index) => `${this.#hashes[index]?.toBase64(BASE64URL) ?? ""}${text}\n`),
      this.#bytes.facts,
    );
    const payloads = encodePadded(
      this.payloads.map((payload) => `${payload ?? ""}${PAYLOAD_END}`),
      this.#bytes.payloads,
    );
    assertFits(Buffer.byteLength(padded) + facts.length + payloads.length, "a head");
    this.#sql.exec(
      this.#isStored
        ? "UPDATE heads SET next_seq = ?, meta = ?, facts = ?, payloads = ? WHERE log = ?"
        : "INSERT INTO heads (next_seq, meta, facts, payloads, log) VALUES (?, ?, ?, ?, ?)",
      this.nextSeq,
      padded,
      toSqlBlob(facts),
      toSqlBlob(payloads),
      this.#log,
    );
    this.#isStored = true;
    this.#isChanged = false;
    this.#writtenMeta = meta;
  }
}

/** Pads with zeros. The buffer is new each time, so that deleted data does not stay in the row. @param maxBytes upper bound. */
function encodePadded(texts: readonly string[], maxBytes: number): Uint8Array {
  const bytes = new Uint8Array(Math.max(1, Math.ceil(maxBytes / HEAD_STEP_BYTES)) * HEAD_STEP_BYTES);
  // Concatenation is faster than `join` here.
  let all = "";
  for (const text of texts) all += text;
  encoder.encodeInto(all, bytes);
  return bytes;
}

function decodePadded(stored: ArrayBuffer): string {
  const bytes = new Uint8Array(stored);
  const end = bytes.indexOf(0);
  return decoder.decode(end === -1 ? bytes : bytes.subarray(0, end));
}

/** Leaves out absent cells at the end. */
export function textOfCells(cells: readonly Cell[]): string {
  let { length } = cells;
  while (cells[length - 1] === 0) length--;
  return JSON.stringify(cells.slice(0, length));
}
