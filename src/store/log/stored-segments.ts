/**
 * Sealed segments: their rows, facts, hashes and payloads. No other code reads or writes these tables, but for joins in
 * cold.ts.
 */
import { Lru } from "../../platform/lru.ts";
import type { LogName } from "./head.ts";
import { isOriginal, type Facts } from "./line.ts";
import type { Lines } from "./lines.ts";
import { packLines, packPayloads, unpackLines, unpackPayloads } from "./packing.ts";
import { HASH_BYTES, PAYLOADS_LOST, Segment, statusLetters, summarise, type SegmentRow } from "./segment.ts";

/** Cached segments with unpacked facts: at most some 3 MB. */
const CACHED_FACTS = 32;
/** Cached segments with unpacked payloads: at most some 2 MB. */
const CACHED_PAYLOADS = 16;

const COLUMNS = `first_seq, last_seq, first_ms, last_ms, received_from, received_to, ordinal_from, ordinal_to, period_end,
  statuses, cold, cold_offset, cold_bytes, groups`;

export type SegmentPayloads = readonly (string | null)[];

export interface OpenLines {
  firstSeq: number;
  lines: Lines;
  /** HASH_BYTES for each line. */
  hashes: Uint8Array;
  /** Range of the times in the signal ids. */
  span: { first: number; last: number };
}

export interface ColdPlace {
  key: string;
  offset: number;
  bytes: number;
}

export interface SegmentHashes {
  firstSeq: number;
  receivedToMs: number;
  /** HASH_BYTES for each line. */
  hashes: Uint8Array;
}

export class StoredSegments {
  protected readonly sql: SqlStorage;
  readonly name: LogName;
  readonly #cached = new Lru<number, Segment>(CACHED_FACTS);
  readonly #cachedPayloads = new Lru<number, SegmentPayloads>(CACHED_PAYLOADS);

  constructor(sql: SqlStorage, name: LogName) {
    this.sql = sql;
    this.name = name;
  }

  insert({ firstSeq, lines, hashes, span }: OpenLines): void {
    const summary = summarise(lines);
    this.sql.exec(
      `INSERT INTO ${this.name}_segments (first_seq, last_seq, first_ms, last_ms, received_from, received_to,
         ordinal_from, ordinal_to, period_end, statuses, groups) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      firstSeq,
      firstSeq + lines.length - 1,
      span.first,
      span.last,
      summary.received_from,
      summary.received_to,
      summary.ordinal_from,
      summary.ordinal_to,
      summary.period_end,
      summary.statuses,
      toSqlBlob(summary.groups),
    );
    this.sql.exec(
      `INSERT INTO ${this.name}_facts (first_seq, version, hashes, facts) VALUES (?, 0, ?, ?)`,
      firstSeq,
      toSqlBlob(hashes),
      toSqlBlob(packLines(lines)),
    );
  }

  /** Rows that match an SQL condition. The condition is constant text: it never contains input. */
  rows(condition: string, ...values: SqlStorageValue[]): SegmentRow[] {
    return this.sql
      .exec<SegmentRow>(`SELECT ${COLUMNS} FROM ${this.name}_segments WHERE ${condition}`, ...values)
      .toArray();
  }

  sealed(row: SegmentRow): Segment {
    const cached = this.#cached.get(row.first_seq);
    if (cached !== undefined) return cached;
    const [stored] = this.sql.exec<{ version: number; facts: ArrayBuffer }>(
      `SELECT version, facts FROM ${this.name}_facts WHERE first_seq = ?`,
      row.first_seq,
    );
    if (stored === undefined) throw new Error(`the segment of ${row.first_seq} has no lines`);
    const segment = new Segment(row.first_seq, unpackLines(stored.facts), stored.version, row);
    this.#cached.set(row.first_seq, segment);
    return segment;
  }

  /** The row of the segment that has a line; null: the line is gone. */
  protected rowOf(seq: number): SegmentRow | null {
    const [row] = this.rows("first_seq <= ? ORDER BY first_seq DESC LIMIT 1", seq);
    return row === undefined || row.last_seq < seq ? null : row;
  }

  /** The segment that has a line; null: the line is gone. */
  segmentOf(seq: number): Segment | null {
    const row = this.rowOf(seq);
    return row === null ? null : this.sealed(row);
  }

  /** When the oldest line was received, and the last line of the segment that expires first as a whole. */
  oldestReceived(): { firstMs: number; wholeMs: number } | null {
    const { first, whole } = this.sql
      .exec<{ first: number | null; whole: number | null }>(
        `SELECT min(received_from) AS first, min(received_to) AS whole FROM ${this.name}_segments`,
      )
      .one();
    return first === null || whole === null ? null : { firstMs: first, wholeMs: whole };
  }

  hashesOf(firstSeq: number): Uint8Array {
    const [row] = this.sql.exec<{ hashes: ArrayBuffer }>(
      `SELECT hashes FROM ${this.name}_facts WHERE first_seq = ?`,
      firstSeq,
    );
    return new Uint8Array(row?.hashes ?? new ArrayBuffer());
  }

  /** Hashes of segments with lines that were received in a time range. Lazy, because the segments can be very many. */
  *hashesReceived(fromMs: number, toMs = Number.MAX_SAFE_INTEGER): Generator<SegmentHashes> {
    const rows = this.sql.exec<{ first_seq: number; received_to: number; hashes: ArrayBuffer }>(
      `SELECT first_seq, received_to, hashes FROM ${this.name}_segments JOIN ${this.name}_facts USING (first_seq)
       WHERE received_to >= ? AND received_from <= ? ORDER BY first_seq`,
      fromMs,
      toMs,
    );
    for (const { first_seq: firstSeq, received_to: receivedToMs, hashes } of rows) {
      yield { firstSeq, receivedToMs, hashes: new Uint8Array(hashes) };
    }
  }

  protected rewriteSealed(segment: Segment, row: SegmentRow, changes: ReadonlyMap<number, Facts>): void {
    const { firstSeq } = segment;
    const lines = segment.lines.with(new Map([...changes].map(([seq, facts]) => [seq - firstSeq, facts] as const)));
    const hashes = this.hashesOf(firstSeq);
    for (const [seq, facts] of changes) {
      const at = (seq - firstSeq) * HASH_BYTES;
      if (!isOriginal(facts)) hashes.fill(0, at, at + HASH_BYTES);
    }
    const version = segment.version + 1;
    const { rowsWritten } = this.sql.exec(
      `UPDATE ${this.name}_facts SET version = ?1, hashes = ?2, facts = ?3 WHERE first_seq = ?4 AND version = ?1 - 1`,
      version,
      toSqlBlob(hashes),
      toSqlBlob(packLines(lines)),
      firstSeq,
    );
    if (rowsWritten === 0) throw new Error(`the segment of ${firstSeq} has been rewritten meanwhile`);
    const statuses = statusLetters(lines);
    if (statuses !== row.statuses) {
      this.sql.exec(`UPDATE ${this.name}_segments SET statuses = ? WHERE first_seq = ?`, statuses, firstSeq);
    }
    this.#cached.set(firstSeq, new Segment(firstSeq, lines, version, { ...row, statuses }));
  }

  protected isSealedCurrent({ firstSeq, version }: Segment, row: SegmentRow): boolean {
    const [now] = this.sql.exec<{ version: number; cold: string | null }>(
      `SELECT version, cold FROM ${this.name}_segments JOIN ${this.name}_facts USING (first_seq) WHERE first_seq = ?`,
      firstSeq,
    );
    return now !== undefined && now.version === version && now.cold === row.cold;
  }

  /** Updates a segment's row from its lines. A rewrite updates only the statuses of the row. */
  summariseAgain(firstSeq: number): void {
    const segment = this.segmentOf(firstSeq);
    if (segment === null) throw new Error(`there is no segment of ${firstSeq}`);
    const { groups, ...summary } = summarise(segment.lines);
    const columns = Object.entries<SqlStorageValue>({ ...summary, groups: toSqlBlob(groups) });
    this.sql.exec(
      `UPDATE ${this.name}_segments SET ${columns.map(([column]) => `${column} = ?`).join(", ")} WHERE first_seq = ?`,
      ...columns.map(([, value]) => value),
      firstSeq,
    );
    const [row] = this.rows("first_seq = ?", firstSeq);
    this.#cached.set(firstSeq, new Segment(firstSeq, segment.lines, segment.version, row ?? segment.row));
  }

  protected removeSegment(firstSeq: number): void {
    this.sql.exec(`DELETE FROM ${this.name}_segments WHERE first_seq = ?`, firstSeq);
    this.sql.exec(`DELETE FROM ${this.name}_facts WHERE first_seq = ?`, firstSeq);
    this.#cached.delete(firstSeq);
    this.#removePayloads(firstSeq);
  }

  protected readPayloads({ firstSeq, lines }: Segment): SegmentPayloads {
    const cached = this.#cachedPayloads.get(firstSeq);
    if (cached !== undefined) return cached;
    const packed = this.packedPayloads(firstSeq);
    const payloads = packed === null ? Array.from({ length: lines.length }, () => null) : unpackPayloads(packed, lines);
    this.#cachedPayloads.set(firstSeq, payloads);
    return payloads;
  }

  /** The packed payloads of a sealed segment; null: the store has none. */
  packedPayloads(firstSeq: number): ArrayBuffer | null {
    const [row] = this.sql.exec<{ payloads: ArrayBuffer }>(
      `SELECT payloads FROM ${this.name}_payloads WHERE first_seq = ?`,
      firstSeq,
    );
    return row?.payloads ?? null;
  }

  protected writePayloads(firstSeq: number, payloads: SegmentPayloads, lines: Lines): void {
    if (payloads.every((payload) => payload === null)) return this.#removePayloads(firstSeq);
    this.#cachedPayloads.delete(firstSeq);
    this.sql.exec(
      `INSERT OR REPLACE INTO ${this.name}_payloads (first_seq, payloads) VALUES (?, ?)`,
      firstSeq,
      toSqlBlob(packPayloads(payloads, lines)),
    );
  }

  /** Notes that the payloads of a segment are in R2 now, and removes them from the store. */
  movePayloads(firstSeq: number, { key, offset, bytes }: ColdPlace): void {
    this.#setColdPlace(firstSeq, key, offset, bytes);
    this.#removePayloads(firstSeq);
  }

  /** Notes that the payloads of a segment are lost: R2 does not have their object. */
  losePayloads(firstSeq: number): void {
    this.#setColdPlace(firstSeq, null, 0, PAYLOADS_LOST);
  }

  /** Clears the caches, after a transaction was rolled back. */
  reload(): void {
    this.#cached.clear();
    this.#cachedPayloads.clear();
  }

  #setColdPlace(firstSeq: number, key: string | null, offset: number, bytes: number): void {
    this.sql.exec(
      `UPDATE ${this.name}_segments SET cold = ?, cold_offset = ?, cold_bytes = ? WHERE first_seq = ?`,
      key,
      offset,
      bytes,
      firstSeq,
    );
    this.#cached.delete(firstSeq);
  }

  #removePayloads(firstSeq: number): void {
    this.#cachedPayloads.delete(firstSeq);
    this.sql.exec(`DELETE FROM ${this.name}_payloads WHERE first_seq = ?`, firstSeq);
  }
}

/** The platform accepts a view of a buffer as a parameter, although its types name buffers only. */
export function toSqlBlob(bytes: Uint8Array): SqlStorageValue {
  return bytes as SqlStorageValue & Uint8Array;
}
