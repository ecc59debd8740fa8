/**
 * A segment is a group of hundreds of consecutive lines that are stored together: a row that summarizes the lines, the lines
 * themselves, and their payloads until they move to R2.
 */
import { HASH_BYTES } from "../../domain/signal/canonical-form.ts";
import { LINE_STATUSES, type LineStatus } from "../../domain/signal/signal.ts";
import { quickHash } from "../../platform/hashes.ts";
import { Lru } from "../../platform/lru.ts";
import { insertRow, toSqlBlob } from "../../platform/sql-row.ts";
import { type ColumnName, Lines, outcomesOf, packPayloads, statusOf, textOf, unpackPayloads } from "./columns.ts";
import { type SignalFacts, isOriginal } from "./line.ts";
import type { SegmentRow } from "./schema.ts";
import type { SignalLogName, Portion, WantedLines } from "./signal-log.ts";

/** Stored as `cold_bytes` if the object is missing in R2. */
export const PAYLOADS_LOST = -1;

/** The lines of a sealed segment as they were read, or the open lines. */
export class Segment {
  readonly firstSeq: number;
  /** A rewrite replaces this object. New open lines are added to the same object. */
  readonly lines: Lines;
  /** Counts rewrites. */
  readonly version: number;
  /** Null: the lines are open. */
  readonly row: SegmentRow | null;

  constructor(firstSeq: number, lines: Lines, version: number, row: SegmentRow | null) {
    this.firstSeq = firstSeq;
    this.lines = lines;
    this.version = version;
    this.row = row;
  }

  get lastSeq(): number {
    return this.firstSeq + this.lines.length - 1;
  }

  facts(seq: number): SignalFacts {
    const index = seq - this.firstSeq;
    if (index < 0 || index >= this.lines.length) {
      throw new Error(`line ${seq} is not in the segment of ${this.firstSeq}`);
    }
    return this.lines.facts(index);
  }

  isGone(seq: number): boolean {
    return this.lines.cell(seq - this.firstSeq, "id") === "";
  }

  /** The latest line with a signal id. */
  seqOf(id: string): number | null {
    const index = this.lines.column("id").lastIndexOf(id);
    return index === -1 ? null : this.firstSeq + index;
  }

  seqsOf({ event, outcomes, email }: WantedLines): number[] {
    if (email !== undefined) return this.#seqsWhere("email", (cell) => cell === email);
    if (event === undefined) return this.#seqsWhere("id", (cell) => cell !== "");
    const matches = typeof event === "string" ? (cell: string) => cell === event : event;
    // Asks once for each event: a segment has few.
    const events = new Map(
      [...new Set(this.lines.column("event"))].map((cell) => [cell, isText(cell) && matches(cell)]),
    );
    const ofEvent = [...events.values()].includes(true)
      ? this.#seqsWhere("event", (cell) => events.get(cell) === true)
      : [];
    if (outcomes === undefined || outcomes.size === 0) return ofEvent;
    const scored = this.#seqsWhere("outcomes", (cell) => outcomesOf(cell).some((id) => outcomes.has(id)));
    return scored.length === 0 ? ofEvent : [...new Set([...ofEvent, ...scored])].sort((a, b) => a - b);
  }

  #seqsWhere(column: ColumnName, isWanted: (cell: string | number) => boolean): number[] {
    return this.lines.column(column).flatMap((cell, index) => (isWanted(cell) ? [this.firstSeq + index] : []));
  }
}

function isText(cell: string | number): cell is string {
  return typeof cell === "string";
}

/** A segment with the lines that a caller wants. */
export class StoredPortion implements Portion {
  readonly segment: Segment;
  readonly seqs: readonly number[];

  constructor(segment: Segment, seqs: readonly number[]) {
    this.segment = segment;
    this.seqs = seqs;
  }

  get firstSeq(): number {
    return this.segment.firstSeq;
  }

  get lastSeq(): number {
    return this.segment.lastSeq;
  }

  get payloads(): Portion["payloads"] {
    const { row } = this.segment;
    if (row?.cold_bytes === PAYLOADS_LOST) return "lost";
    return row === null || row.cold === null ? "here" : "in_r2";
  }

  facts(seq: number): SignalFacts {
    return this.segment.facts(seq);
  }
}

/** @throws for a portion of another log. */
export function segmentOf(portion: Portion): Segment {
  if (!(portion instanceof StoredPortion)) throw new TypeError("a portion of another log");
  return portion.segment;
}

/** Leaves out lines that retention dropped. */
export function summarise(lines: Lines): Partial<SegmentRow> {
  const kept = lines.column("id").flatMap((id, index) => (id === "" ? [] : [index]));
  const numbers = (name: ColumnName): number[] => kept.map((index) => Number(lines.cell(index, name)));
  const [received, ordinals, ends] = [numbers("receivedAt"), numbers("ordinal"), numbers("periodEnd")];
  const statuses = kept.map((index) => statusOf(lines.cell(index, "status")));
  const heldEnds = ends.filter((_, place) => statuses[place] === "held");
  const marks = kept.flatMap((index) => {
    const event = textOf(lines.cell(index, "event"));
    return event === null ? [] : [markOf(event, textOf(lines.cell(index, "source")) ?? "")];
  });
  const groups = [...new Set(marks)].sort((a, b) => a - b).flatMap((mark) => [...bytesOf(mark)]);
  return {
    received_from: Math.min(...received),
    received_to: Math.max(...received),
    ordinal_from: Math.min(...ordinals),
    ordinal_to: Math.max(...ordinals),
    period_end: heldEnds.length > 0 ? Math.min(...heldEnds) : Math.max(...ends),
    statuses: joinLetters(statuses.map(statusLetter)),
    groups: Uint8Array.from(groups).buffer,
  };
}

export function statusLetters(lines: Lines): string {
  return joinLetters(lines.column("status").map((cell) => statusLetter(statusOf(cell))));
}

function joinLetters(letters: readonly string[]): string {
  return [...new Set(letters)].sort().join("");
}

const LETTERS = "padghr";

export function statusLetter(status: LineStatus): string {
  return LETTERS[LINE_STATUSES.indexOf(status)] ?? "p";
}

/** Two bytes for the event and one for the source. Groups can share a mark. A walk skips segments whose `groups` lacks the mark. */
export function groupMark(event: string, source?: string): Uint8Array {
  const mark = bytesOf(markOf(event, source ?? ""));
  return source === undefined ? mark.subarray(0, 2) : mark;
}

function markOf(event: string, source: string): number {
  return ((hashOf(event) & 0xffff) << 8) | (hashOf(source) & 0xff);
}

function bytesOf(mark: number): Uint8Array {
  return Uint8Array.of(mark >>> 16, (mark >>> 8) & 0xff, mark & 0xff);
}

/** The halves of the hash are folded together. */
function hashOf(text: string): number {
  const hash = quickHash(text);
  return hash ^ (hash >>> 16);
}

/** At most some 3 MB of unpacked facts. */
const CACHED_SEGMENTS = 32;
/** Few rows at first, since most walks end soon. */
const WALK_ROWS = { first: 4, most: 64 } as const;
const ORDINAL_ROWS = 16;

/** `sql` is constant and never contains input. */
export interface Condition {
  sql: string;
  values: SqlStorageValue[];
}

export interface SegmentHashes {
  firstSeq: number;
  receivedToMs: number;
  /** HASH_BYTES for each line; all zero if the line is no original. */
  hashes: Uint8Array;
}

/** The bytes of a segment in an object of R2. */
export interface PlaceInR2 {
  key: string;
  offset: number;
  bytes: number;
}

export class Segments {
  readonly #sql: SqlStorage;
  readonly #log: SignalLogName;
  readonly #cache = new Lru<number, Segment>(CACHED_SEGMENTS);

  constructor(sql: SqlStorage, log: SignalLogName) {
    this.#sql = sql;
    this.#log = log;
  }

  forget(): void {
    this.#cache.clear();
  }

  rows(condition: string, ...values: SqlStorageValue[]): SegmentRow[] {
    return this.#sql.exec<SegmentRow>(`SELECT * FROM ${this.#log}_segments WHERE ${condition}`, ...values).toArray();
  }

  rowOf(seq: number): SegmentRow | null {
    const [row] = this.rows("first_seq <= ? ORDER BY first_seq DESC LIMIT 1", seq);
    return row === undefined || row.last_seq < seq ? null : row;
  }

  of(row: SegmentRow): Segment {
    const cached = this.#cache.get(row.first_seq);
    if (cached !== undefined) return cached;
    const { version, facts } = this.#sql
      .exec<{ version: number; facts: ArrayBuffer }>(
        `SELECT version, facts FROM ${this.#log}_facts WHERE first_seq = ?`,
        row.first_seq,
      )
      .one();
    const segment = new Segment(row.first_seq, Lines.unpack(facts), version, row);
    this.#cache.set(row.first_seq, segment);
    return segment;
  }

  /** Reads some rows at a time, since callers may write meanwhile. */
  *walk(from: number, order: "ASC" | "DESC", { sql, values }: Condition): Generator<Segment> {
    const condition = `first_seq ${order === "ASC" ? ">" : "<"} ? AND ${sql} ORDER BY first_seq ${order} LIMIT ?`;
    let last = from;
    for (let limit: number = WALK_ROWS.first; ; limit = Math.min(limit * 4, WALK_ROWS.most)) {
      const rows = this.rows(condition, last, ...values, limit);
      for (const row of rows) yield this.of(row);
      if (rows.length < limit) return;
      last = rows.at(-1)?.first_seq ?? last;
    }
  }

  /** Segments that may have held lines with ordinals after `after`, by their first ordinal. */
  *byOrdinal(after: number): Generator<Segment> {
    for (let [ordinal, seq, isMore] = [0, 0, true]; isMore;) {
      const rows = this.rows(
        `instr(statuses, 'h') > 0 AND (ordinal_from, first_seq) > (?2, ?3) AND ordinal_to > ?1
         ORDER BY ordinal_from, first_seq LIMIT ${ORDINAL_ROWS}`,
        after,
        ordinal,
        seq,
      );
      for (const row of rows) yield this.of(row);
      isMore = rows.length === ORDINAL_ROWS;
      [ordinal, seq] = [rows.at(-1)?.ordinal_from ?? 0, rows.at(-1)?.first_seq ?? 0];
    }
  }

  /** @param span the range of the times in the ids of the lines. */
  insert(firstSeq: number, lines: Lines, span: readonly [firstMs: number, lastMs: number], hashes: Uint8Array): void {
    insertRow(this.#sql, `${this.#log}_segments`, {
      first_seq: firstSeq,
      last_seq: firstSeq + lines.length - 1,
      first_ms: span[0],
      last_ms: span[1],
      ...summarise(lines),
    });
    insertRow(this.#sql, `${this.#log}_facts`, { first_seq: firstSeq, hashes, facts: lines.pack() });
  }

  /** Lines that are no longer originals lose their hashes. @throws when the segment has been rewritten since it was read. */
  rewrite(segment: Segment, changes: ReadonlyMap<number, SignalFacts>): Segment {
    const { firstSeq, row } = segment;
    const lines = segment.lines.with(changes, firstSeq);
    const hashes = this.hashesOf(firstSeq);
    for (const [seq, facts] of changes) {
      const at = (seq - firstSeq) * HASH_BYTES;
      if (!isOriginal(facts)) hashes.fill(0, at, at + HASH_BYTES);
    }
    const version = segment.version + 1;
    const { rowsWritten } = this.#sql.exec(
      `UPDATE ${this.#log}_facts SET version = ?1, hashes = ?2, facts = ?3 WHERE first_seq = ?4 AND version = ?1 - 1`,
      version,
      toSqlBlob(hashes),
      toSqlBlob(lines.pack()),
      firstSeq,
    );
    if (rowsWritten === 0) throw new Error(`the segment of ${firstSeq} has been rewritten meanwhile`);
    const rewritten = new Segment(firstSeq, lines, version, row);
    this.#cache.set(firstSeq, rewritten);
    // The other columns are bounds of the lines, so they still hold.
    const statuses = statusLetters(lines);
    if (statuses !== row?.statuses) this.#updateRow(firstSeq, { statuses });
    return rewritten;
  }

  isCurrent({ firstSeq, version, row }: Segment): boolean {
    const [now] = this.#sql.exec<{ version: number; cold: string | null }>(
      `SELECT version, cold FROM ${this.#log}_segments JOIN ${this.#log}_facts USING (first_seq) WHERE first_seq = ?`,
      firstSeq,
    );
    return now !== undefined && now.version === version && now.cold === row?.cold;
  }

  summariseAgain({ firstSeq, lines }: Segment): void {
    this.#updateRow(firstSeq, summarise(lines));
  }

  drop({ firstSeq }: Segment): void {
    for (const table of ["segments", "facts", "payloads"]) {
      this.#sql.exec(`DELETE FROM ${this.#log}_${table} WHERE first_seq = ?`, firstSeq);
    }
    this.#cache.delete(firstSeq);
  }

  hashesOf(firstSeq: number): Uint8Array {
    const [row] = this.#sql.exec<{ hashes: ArrayBuffer }>(
      `SELECT hashes FROM ${this.#log}_facts WHERE first_seq = ?`,
      firstSeq,
    );
    return new Uint8Array(row?.hashes ?? new ArrayBuffer());
  }

  /** Hashes of segments with lines received in a time range. Lazy, because the segments can be very many. */
  *hashesReceived(fromMs: number, toMs: number): Generator<SegmentHashes> {
    const rows = this.#sql.exec<{ first_seq: number; received_to: number; hashes: ArrayBuffer }>(
      `SELECT first_seq, received_to, hashes FROM ${this.#log}_segments JOIN ${this.#log}_facts USING (first_seq)
       WHERE received_to >= ? AND received_from <= ? ORDER BY first_seq`,
      fromMs,
      toMs,
    );
    for (const { first_seq: firstSeq, received_to: receivedToMs, hashes } of rows) {
      yield { firstSeq, receivedToMs, hashes: new Uint8Array(hashes) };
    }
  }

  /** When the oldest line was received, and when the first segment to expire whole received its last line. */
  oldest(): { receivedMs: number | null; wholeMs: number | null } {
    return this.#sql
      .exec<{ receivedMs: number | null; wholeMs: number | null }>(
        `SELECT min(received_from) AS receivedMs, min(received_to) AS wholeMs FROM ${this.#log}_segments`,
      )
      .one();
  }

  /** The payloads of a segment that are in the store. @param indexes as in `unpackPayloads`. */
  payloadsOf({ firstSeq, lines }: Segment, indexes?: readonly number[]): readonly (string | null)[] {
    const packed = this.packedPayloads(firstSeq);
    if (packed !== null) return unpackPayloads(packed, lines, indexes);
    return Array.from({ length: indexes?.length ?? lines.length }, () => null);
  }

  packedPayloads(firstSeq: number): ArrayBuffer | null {
    const [row] = this.#sql.exec<{ payloads: ArrayBuffer }>(
      `SELECT payloads FROM ${this.#log}_payloads WHERE first_seq = ?`,
      firstSeq,
    );
    return row?.payloads ?? null;
  }

  writePayloads(firstSeq: number, lines: Lines, payloads: readonly (string | null)[]): void {
    if (payloads.every((payload) => payload === null)) return this.#removePayloads(firstSeq);
    this.#sql.exec(
      `INSERT OR REPLACE INTO ${this.#log}_payloads (first_seq, payloads) VALUES (?, ?)`,
      firstSeq,
      toSqlBlob(packPayloads(payloads, lines)),
    );
  }

  movePayloads(firstSeq: number, { key, offset, bytes }: PlaceInR2): void {
    this.#updateRow(firstSeq, { cold: key, cold_offset: offset, cold_bytes: bytes });
    this.#removePayloads(firstSeq);
  }

  /** For a segment whose object is gone from R2. */
  markPayloadsLost(firstSeq: number): void {
    this.#updateRow(firstSeq, { cold: null, cold_offset: 0, cold_bytes: PAYLOADS_LOST });
  }

  #removePayloads(firstSeq: number): void {
    this.#sql.exec(`DELETE FROM ${this.#log}_payloads WHERE first_seq = ?`, firstSeq);
  }

  #updateRow(firstSeq: number, columns: Partial<SegmentRow>): void {
    const names = Object.keys(columns);
    const [row] = this.#sql
      .exec<SegmentRow>(
        `UPDATE ${this.#log}_segments SET ${names.map((name) => `${name} = ?`).join(", ")} WHERE first_seq = ? RETURNING *`,
        ...Object.values<SqlStorageValue | undefined>(columns).map((value) => value ?? null),
        firstSeq,
      )
      .toArray();
    const cached = this.#cache.get(firstSeq);
    if (cached === undefined || row === undefined) return;
    this.#cache.set(firstSeq, new Segment(firstSeq, cached.lines, cached.version, row));
  }
}
