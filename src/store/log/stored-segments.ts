/** Sealed segments: their rows, their lines and the hashes of these. Nothing else reads or writes their tables. */
import { Lru } from "../../platform/lru.ts";
import type { LogName } from "./head.ts";
import { isOriginal } from "./line.ts";
import type { Facts } from "./line.ts";
import type { Lines } from "./lines.ts";
import { packLines, unpackLines } from "./packing.ts";
import { HASH_BYTES, PAYLOADS_LOST, Segment, statusLetters, summarise } from "./segment.ts";
import type { SegmentRow } from "./segment.ts";
import { toSqlBlob } from "./sql-blob.ts";

/** Segments whose expanded facts an object keeps in memory: at most some 3 MB. */
const CACHED_FACTS = 32;

const COLUMNS = `first_seq, last_seq, first_ms, last_ms, received_from, received_to, ordinal_from, ordinal_to, period_end,
  statuses, cold, cold_offset, cold_bytes, groups`;

/** The open lines of a log, which become a segment. */
export interface OpenLines {
  firstSeq: number;
  lines: Lines;
  /** HASH_BYTES of each line. */
  hashes: Uint8Array;
  /** The span of the times that the lines' ids tell. */
  span: { first: number; last: number };
}

/** Where in R2 the payloads of a segment are. */
export interface ColdPlace {
  key: string;
  offset: number;
  bytes: number;
}

/** HASH_BYTES of each line of a segment, and when the last of these was received. */
export interface SegmentHashes {
  firstSeq: number;
  receivedToMs: number;
  hashes: Uint8Array;
}

export class StoredSegments {
  readonly #sql: SqlStorage;
  readonly #name: LogName;
  readonly #cached = new Lru<number, Segment>(CACHED_FACTS);

  constructor(sql: SqlStorage, name: LogName) {
    this.#sql = sql;
    this.#name = name;
  }

  /** The number of the first line of all segments; null where there is no segment. */
  get firstSeq(): number | null {
    const [row] = this.#sql.exec<{ first: number | null }>(
      `SELECT min(first_seq) AS first FROM ${this.#name}_segments`,
    );
    return row?.first ?? null;
  }

  insert({ firstSeq, lines, hashes, span }: OpenLines): void {
    const known = summarise(lines);
    this.#sql.exec(
      `INSERT INTO ${this.#name}_segments (first_seq, last_seq, first_ms, last_ms, received_from, received_to,
         ordinal_from, ordinal_to, period_end, statuses, groups) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      firstSeq,
      firstSeq + lines.length - 1,
      span.first,
      span.last,
      known.received_from,
      known.received_to,
      known.ordinal_from,
      known.ordinal_to,
      known.period_end,
      known.statuses,
      toSqlBlob(known.groups),
    );
    this.#sql.exec(
      `INSERT INTO ${this.#name}_facts (first_seq, version, hashes, facts) VALUES (?, 0, ?, ?)`,
      firstSeq,
      toSqlBlob(hashes),
      toSqlBlob(packLines(lines)),
    );
  }

  /** Rows for which a condition holds. The condition is part of the statement: it never holds what was sent. */
  rows(condition: string, ...values: SqlStorageValue[]): SegmentRow[] {
    return this.#sql
      .exec<SegmentRow>(`SELECT ${COLUMNS} FROM ${this.#name}_segments WHERE ${condition}`, ...values)
      .toArray();
  }

  /** The segment of such a row. */
  read(row: SegmentRow): Segment {
    const known = this.#cached.get(row.first_seq);
    if (known !== undefined) return known;
    const [stored] = this.#sql.exec<{ version: number; facts: ArrayBuffer }>(
      `SELECT version, facts FROM ${this.#name}_facts WHERE first_seq = ?`,
      row.first_seq,
    );
    if (stored === undefined) throw new Error(`the segment of ${row.first_seq} has no lines`);
    const segment = new Segment(row.first_seq, unpackLines(stored.facts), stored.version, row);
    this.#cached.set(row.first_seq, segment);
    return segment;
  }

  /** The segment that has this line; null: there is none. */
  of(seq: number): Segment | null {
    const row = this.rowOf(seq);
    return row === null ? null : this.read(row);
  }

  /** The row of the segment that has this line; null: there is none. */
  rowOf(seq: number): SegmentRow | null {
    const [row] = this.rows("first_seq <= ? ORDER BY first_seq DESC LIMIT 1", seq);
    return row === undefined || row.last_seq < seq ? null : row;
  }

  /** When the period of the next lines ends that are held, in milliseconds since 1970; null: none is. */
  nextHeldEndMs(): number | null {
    const { at } = this.#sql
      .exec<{ at: number | null }>(
        `SELECT min(period_end) AS at FROM ${this.#name}_segments WHERE instr(statuses, 'h') > 0`,
      )
      .one();
    return at;
  }

  /** When the oldest line was received, and the last one of the segment that is the first to be all too old. */
  oldestReceived(): { firstMs: number; wholeMs: number } | null {
    const { first, whole } = this.#sql
      .exec<{ first: number | null; whole: number | null }>(
        `SELECT min(received_from) AS first, min(received_to) AS whole FROM ${this.#name}_segments`,
      )
      .one();
    return first === null || whole === null ? null : { firstMs: first, wholeMs: whole };
  }

  /** HASH_BYTES of each line of a segment. */
  hashesOf(firstSeq: number): Uint8Array {
    const [row] = this.#sql.exec<{ hashes: ArrayBuffer }>(
      `SELECT hashes FROM ${this.#name}_facts WHERE first_seq = ?`,
      firstSeq,
    );
    return new Uint8Array(row?.hashes ?? new ArrayBuffer());
  }

  /** Hashes of segments with lines received in that time, one after the other, since there may be very many. */
  *hashesReceived(fromMs: number, toMs: number): Generator<SegmentHashes> {
    const rows = this.#sql.exec<{ first_seq: number; received_to: number; hashes: ArrayBuffer }>(
      `SELECT first_seq, received_to, hashes FROM ${this.#name}_segments JOIN ${this.#name}_facts USING (first_seq)
       WHERE received_to >= ? AND received_from <= ? ORDER BY first_seq`,
      fromMs,
      toMs,
    );
    for (const { first_seq: firstSeq, received_to: receivedToMs, hashes } of rows) {
      yield { firstSeq, receivedToMs, hashes: new Uint8Array(hashes) };
    }
  }

  /**
   * What became of some lines has changed. A line that is no original any more loses its hash.
   *
   * @throws when the segment is not as it was read.
   */
  rewrite(
    { firstSeq, lines: before, version: last }: Segment,
    row: SegmentRow,
    changes: ReadonlyMap<number, Facts>,
  ): void {
    const lines = before.with(new Map([...changes].map(([seq, facts]) => [seq - firstSeq, facts] as const)));
    const hashes = this.hashesOf(firstSeq);
    for (const [seq, facts] of changes) {
      const at = (seq - firstSeq) * HASH_BYTES;
      if (!isOriginal(facts)) hashes.fill(0, at, at + HASH_BYTES);
    }
    const version = last + 1;
    const { rowsWritten } = this.#sql.exec(
      `UPDATE ${this.#name}_facts SET version = ?1, hashes = ?2, facts = ?3 WHERE first_seq = ?4 AND version = ?1 - 1`,
      version,
      toSqlBlob(hashes),
      toSqlBlob(packLines(lines)),
      firstSeq,
    );
    if (rowsWritten === 0) throw new Error(`the segment of ${firstSeq} has been rewritten meanwhile`);
    const statuses = statusLetters(lines);
    if (statuses !== row.statuses) {
      this.#sql.exec(`UPDATE ${this.#name}_segments SET statuses = ? WHERE first_seq = ?`, statuses, firstSeq);
    }
    this.#cached.set(firstSeq, new Segment(firstSeq, lines, version, { ...row, statuses }));
  }

  /** Whether the segment is still as it was read, before an `await` for instance. */
  isCurrent({ firstSeq, version }: Segment, row: SegmentRow): boolean {
    const [now] = this.#sql.exec<{ version: number; cold: string | null }>(
      `SELECT version, cold FROM ${this.#name}_segments JOIN ${this.#name}_facts USING (first_seq) WHERE first_seq = ?`,
      firstSeq,
    );
    return now !== undefined && now.version === version && now.cold === row.cold;
  }

  /** Says that the payloads of a segment are lost. */
  losePayloads(firstSeq: number): void {
    this.#sql.exec(
      `UPDATE ${this.#name}_segments SET cold = NULL, cold_bytes = ? WHERE first_seq = ?`,
      PAYLOADS_LOST,
      firstSeq,
    );
    this.#cached.delete(firstSeq);
  }

  /** Says where in R2 the payloads of a segment are now. */
  moveToCold(firstSeq: number, { key, offset, bytes }: ColdPlace): void {
    this.#sql.exec(
      `UPDATE ${this.#name}_segments SET cold = ?, cold_offset = ?, cold_bytes = ? WHERE first_seq = ?`,
      key,
      offset,
      bytes,
      firstSeq,
    );
    this.#cached.delete(firstSeq);
  }

  /** Makes a segment's row say what its lines are now; until then it also says what they were. */
  summariseAgain(firstSeq: number): void {
    const segment = this.of(firstSeq);
    if (segment === null) throw new Error(`there is no segment of ${firstSeq}`);
    const { groups, ...known } = summarise(segment.lines);
    const columns = Object.entries<SqlStorageValue>({ ...known, groups: toSqlBlob(groups) });
    this.#sql.exec(
      `UPDATE ${this.#name}_segments SET ${columns.map(([column]) => `${column} = ?`).join(", ")} WHERE first_seq = ?`,
      ...columns.map(([, value]) => value),
      firstSeq,
    );
    const [row] = this.rows("first_seq = ?", firstSeq);
    this.#cached.set(firstSeq, new Segment(firstSeq, segment.lines, segment.version, row ?? segment.row));
  }

  remove(firstSeq: number): void {
    this.#sql.exec(`DELETE FROM ${this.#name}_segments WHERE first_seq = ?`, firstSeq);
    this.#sql.exec(`DELETE FROM ${this.#name}_facts WHERE first_seq = ?`, firstSeq);
    this.#cached.delete(firstSeq);
  }

  /** Forgets what is in memory, after a transaction was taken back. */
  reload(): void {
    this.#cached.clear();
  }
}
