/** Payloads of sealed segments that are in the store; those of older segments are in R2, see cold.ts. */
import { Lru } from "../../platform/lru.ts";
import type { LogName } from "./head.ts";
import type { Lines } from "./lines.ts";
import { packPayloads, unpackPayloads } from "./packing.ts";
import type { Segment } from "./segment.ts";
import { toSqlBlob } from "./sql-blob.ts";

/** Segments whose expanded payloads an object keeps in memory: at most some 2 MB. */
const CACHED_PAYLOADS = 16;

/** The payload of each line of a segment, in their order; null where it has none. */
export type SegmentPayloads = readonly (string | null)[];

export class StoredPayloads {
  readonly #sql: SqlStorage;
  readonly #name: LogName;
  readonly #cached = new Lru<number, SegmentPayloads>(CACHED_PAYLOADS);

  constructor(sql: SqlStorage, name: LogName) {
    this.#sql = sql;
    this.#name = name;
  }

  /** Payloads of a segment that are not in R2. */
  read({ firstSeq, lines }: Segment): SegmentPayloads {
    const known = this.#cached.get(firstSeq);
    if (known !== undefined) return known;
    const packed = this.packed(firstSeq);
    const payloads = packed === null ? Array.from({ length: lines.length }, () => null) : unpackPayloads(packed, lines);
    this.#cached.set(firstSeq, payloads);
    return payloads;
  }

  /** A segment's payloads compressed, as they are moved to R2; null: there are none here. */
  packed(firstSeq: number): ArrayBuffer | null {
    const [row] = this.#sql.exec<{ payloads: ArrayBuffer }>(
      `SELECT payloads FROM ${this.#name}_payloads WHERE first_seq = ?`,
      firstSeq,
    );
    return row?.payloads ?? null;
  }

  /** Stores a segment's payloads in place of those that are there. Where no line has one, no row is left. */
  write(firstSeq: number, payloads: SegmentPayloads, lines: Lines): void {
    this.#cached.delete(firstSeq);
    if (payloads.every((payload) => payload === null)) return this.remove(firstSeq);
    this.#sql.exec(
      `INSERT OR REPLACE INTO ${this.#name}_payloads (first_seq, payloads) VALUES (?, ?)`,
      firstSeq,
      toSqlBlob(packPayloads(payloads, lines)),
    );
  }

  remove(firstSeq: number): void {
    this.#cached.delete(firstSeq);
    this.#sql.exec(`DELETE FROM ${this.#name}_payloads WHERE first_seq = ?`, firstSeq);
  }

  /** Forgets what is in memory, after a transaction was taken back. */
  reload(): void {
    this.#cached.clear();
  }
}
