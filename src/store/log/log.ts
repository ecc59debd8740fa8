/**
 * The log (design §15): lines in the order of recording, each with a number, `seq`. New lines are open and stand in the head.
 * Hundreds of lines at a time are sealed into a segment. Code outside this folder does not know how lines are stored.
 *
 * All methods are synchronous and part of the caller's transaction. The caller calls `flush` once per transaction to write the head,
 * and `reload` after a rollback, because memory then differs from the tables.
 */
import type { LineStatus } from "../../domain/signal/signal.ts";
import { uuidv7Ms } from "../../platform/ids.ts";
import { Lru } from "../../platform/lru.ts";
import { insertRow } from "../../platform/sql-row.ts";
import {
  afterRetention,
  encodeFacts,
  isDropped,
  isOriginal,
  statusLetter,
  statusOf,
  type Facts,
  type Line,
} from "./line.ts";
import { assertFits, packPayloads, unpackPayloads, type Cell } from "./packing.ts";
import type { SegmentRow } from "../schema.ts";
import { groupMark, HASH_BYTES, Lines, PAYLOADS_LOST, Segment, statusLetters, summarise } from "./segment.ts";

export const SEGMENT_MAX_LINES = 512;
/** Bytes of a segment's payloads, and of its facts, before compression: 0.2 ms to unpack. */
export const SEGMENT_MAX_BYTES = 112 * 1024;
/** Bytes of the head besides lines: changes of 270 event groups, or a day of 1,000 mapping rules. Each batch writes it as JSON in 0.3 ms. */
export const HEAD_META_MAX_BYTES = 80 * 1024;
/** At most some 3 MB of unpacked facts. */
const CACHED_SEGMENTS = 32;
/** Few rows at first, since most walks end soon. */
const WALK_ROWS = { first: 4, most: 64 } as const;
/** A signal id is searched by its time in this number of latest sealed segments. Lines with earlier ids are listed as late. */
const SPAN_SEGMENTS = 16;

const LOG_NUMBERS = { signals: 1, held: 2 } as const;

type LogName = keyof typeof LOG_NUMBERS;

/** The two logs add fields of their own. */
export interface LogMeta {
  /** The longest time range of a segment: how far around its time a signal id is searched. */
  maxSpanMs: number;
}

/** A segment that passes can have other lines besides. */
interface WalkFilter {
  event?: string | undefined;
  source?: string | undefined;
  status?: LineStatus | undefined;
  /** In milliseconds since 1970, `untilMs` exclusive. */
  sinceMs?: number | undefined;
  untilMs?: number | undefined;
}

export interface LinesOfSegment {
  segment: Segment;
  seqs: number[];
}

type Payloads = readonly (string | null)[];

interface SegmentHashes {
  firstSeq: number;
  receivedToMs: number;
  hashes: Uint8Array;
}

export class Log {
  readonly #sql: SqlStorage;
  readonly name: LogName;
  readonly #emptyMeta: LogMeta;
  readonly #makeRoom: () => void;
  readonly #segments = new Lru<number, Segment>(CACHED_SEGMENTS);
  #head: Head;
  /** The first times of the last SPAN_SEGMENTS sealed segments, the latest first. */
  #spanStarts: number[] = [];

  /** @param makeRoom moves meta data to its own rows. */
  constructor(sql: SqlStorage, name: LogName, emptyMeta: LogMeta, makeRoom: () => void = () => {}) {
    this.#sql = sql;
    this.name = name;
    this.#emptyMeta = emptyMeta;
    this.#makeRoom = makeRoom;
    this.#head = this.#load();
  }

  reload(): void {
    this.#segments.clear();
    this.#head = this.#load();
  }

  #load(): Head {
    this.#readSpanStarts();
    return new Head(this.#sql, this.name, structuredClone(this.#emptyMeta));
  }

  /** Callers may change it; `flush` writes it. */
  get meta(): LogMeta {
    return this.#head.meta;
  }

  get nextSeq(): number {
    return this.#head.nextSeq;
  }

  /** `nextSeq` if the log is empty. */
  get firstSeq(): number {
    return this.rows("TRUE ORDER BY first_seq LIMIT 1")[0]?.first_seq ?? this.#head.firstSeq;
  }

  /** Returns the number of the line. @param hash HASH_BYTES to find duplicates of the line; null: it can have none. */
  append({ facts, payload }: Line, hash: Uint8Array | null): number {
    const cells = encodeFacts(facts);
    const text = textOfCells(cells);
    if (this.#head.isFullFor(text, payload)) this.seal();
    const seq = this.#head.push(cells, text, payload, hash);
    const { id } = facts.admission;
    if (this.#isLate(id)) {
      this.#sql.exec(`INSERT OR IGNORE INTO ${this.name}_late (id, seq) VALUES (?, ?)`, id, seq);
    }
    return seq;
  }

  seal(): void {
    const head = this.#head;
    if (head.lines.length === 0) return;
    const { firstSeq, lines, payloads } = head;
    const [firstMs, lastMs] = this.#spanOf(lines.column("id").map(String));
    head.meta.maxSpanMs = Math.max(head.meta.maxSpanMs, lastMs - firstMs);
    insertRow(this.#sql, `${this.name}_segments`, {
      first_seq: firstSeq,
      last_seq: firstSeq + lines.length - 1,
      first_ms: firstMs,
      last_ms: lastMs,
      ...summarise(lines),
    });
    insertRow(this.#sql, `${this.name}_facts`, { first_seq: firstSeq, hashes: head.hashBytes(), facts: lines.pack() });
    if (payloads.some((payload) => payload !== null)) this.#writePayloads(firstSeq, packPayloads(payloads, lines));
    head.clear();
    this.#readSpanStarts();
  }

  /** Writes a changed head, and keeps its meta data within HEAD_META_MAX_BYTES. */
  flush(): void {
    let meta = JSON.stringify(this.meta);
    if (Buffer.byteLength(meta) > HEAD_META_MAX_BYTES) {
      this.#makeRoom();
      meta = JSON.stringify(this.meta);
    }
    this.#head.write(meta);
  }

  /** Null: the line is gone. */
  read(seq: number): Facts | null {
    const facts = this.segmentOf(seq)?.facts(seq) ?? null;
    return facts === null || isDropped(facts) ? null : facts;
  }

  /** The latest line with a signal id. */
  find(id: string): { seq: number; facts: Facts } | null {
    const seq = this.#seqOf(id);
    const facts = seq === null ? null : this.read(seq);
    return seq === null || facts === null ? null : { seq, facts };
  }

  open(): Segment {
    return new Segment(this.#head.firstSeq, this.#head.lines, 0, null);
  }

  segmentOf(seq: number): Segment | null {
    if (seq >= this.#head.firstSeq) return seq < this.#head.nextSeq ? this.open() : null;
    const row = this.#rowOf(seq);
    return row === null ? null : this.sealed(row);
  }

  /** Whether no segment has the line any more. Reads less than `segmentOf`. */
  isGone(seq: number): boolean {
    return seq < this.#head.firstSeq && this.#rowOf(seq) === null;
  }

  /** In ascending order. Lines that are gone are left out. */
  *segmentsOf(seqs: Iterable<number>): Generator<LinesOfSegment> {
    let found: LinesOfSegment | null = null;
    for (const seq of [...new Set(seqs)].sort((a, b) => a - b)) {
      if (found !== null && seq <= found.segment.lastSeq) {
        found.seqs.push(seq);
        continue;
      }
      if (found !== null) yield found;
      const segment = this.segmentOf(seq);
      found = segment && { segment, seqs: [seq] };
    }
    if (found !== null) yield found;
  }

  /** Segments from the latest line before `before` back to the oldest. */
  *walkBack(before: number, filter: WalkFilter = {}): Generator<Segment> {
    const open = this.open();
    if (before > open.firstSeq && open.length > 0) yield open;
    yield* this.#walkRows(Math.min(before, open.firstSeq), "DESC", conditionOf(filter));
  }

  /** Segments from the first line after `after` on. */
  *walk(after: number, filter: WalkFilter = {}): Generator<Segment> {
    const start = this.#rowOf(after + 1)?.first_seq ?? after + 1;
    yield* this.#walkRows(start - 1, "ASC", conditionOf(filter));
    // Read the open lines last: a long walk may span several batches.
    const open = this.open();
    if (open.length > 0 && open.lastSeq > after) yield open;
  }

  /** Sealed segments, oldest first, that were received completely before `wholly`, or partly before `partly`. */
  receivedBefore({ wholly, partly }: { wholly: number; partly: number }): Generator<Segment> {
    const sql = "(received_to < ? OR received_from < ?)";
    return this.#walkRows(0, "ASC", { sql, values: [wholly, partly] });
  }

  /** Reads some rows at a time, since callers may write meanwhile. */
  *#walkRows(from: number, order: "ASC" | "DESC", { sql, values }: Condition): Generator<Segment> {
    const condition = `first_seq ${order === "ASC" ? ">" : "<"} ? AND ${sql} ORDER BY first_seq ${order} LIMIT ?`;
    let last = from;
    for (let limit: number = WALK_ROWS.first; ; limit = Math.min(limit * 4, WALK_ROWS.most)) {
      const rows = this.rows(condition, last, ...values, limit);
      for (const row of rows) yield this.sealed(row);
      if (rows.length < limit) return;
      last = rows.at(-1)?.first_seq ?? last;
    }
  }

  /** @param condition constant SQL that never contains input. */
  rows(condition: string, ...values: SqlStorageValue[]): SegmentRow[] {
    return this.#sql.exec<SegmentRow>(`SELECT * FROM ${this.name}_segments WHERE ${condition}`, ...values).toArray();
  }

  #rowOf(seq: number): SegmentRow | null {
    const [row] = this.rows("first_seq <= ? ORDER BY first_seq DESC LIMIT 1", seq);
    return row === undefined || row.last_seq < seq ? null : row;
  }

  sealed(row: SegmentRow): Segment {
    const cached = this.#segments.get(row.first_seq);
    if (cached !== undefined) return cached;
    const { version, facts } = this.#sql
      .exec<{ version: number; facts: ArrayBuffer }>(
        `SELECT version, facts FROM ${this.name}_facts WHERE first_seq = ?`,
        row.first_seq,
      )
      .one();
    const segment = new Segment(row.first_seq, Lines.unpack(facts), version, row);
    this.#segments.set(row.first_seq, segment);
    return segment;
  }

  /** When the oldest line was received, and when the first segment to expire whole received its last line. */
  oldestReceived(): { firstMs: number; wholeMs: number } | null {
    const { first, whole } = this.#sql
      .exec<{ first: number | null; whole: number | null }>(
        `SELECT min(received_from) AS first, min(received_to) AS whole FROM ${this.name}_segments`,
      )
      .one();
    return first === null || whole === null ? null : { firstMs: first, wholeMs: whole };
  }

  /** HASH_BYTES for each line of a segment. */
  hashesOf(firstSeq: number): Uint8Array {
    if (firstSeq === this.#head.firstSeq) return this.#head.hashBytes();
    const [row] = this.#sql.exec<{ hashes: ArrayBuffer }>(
      `SELECT hashes FROM ${this.name}_facts WHERE first_seq = ?`,
      firstSeq,
    );
    return new Uint8Array(row?.hashes ?? new ArrayBuffer());
  }

  /** Hashes of segments with lines received in a time range, and of all open lines. Lazy, because the segments can be very many. */
  *hashesReceived(fromMs: number, toMs = Number.MAX_SAFE_INTEGER): Generator<SegmentHashes> {
    const rows = this.#sql.exec<{ first_seq: number; received_to: number; hashes: ArrayBuffer }>(
      `SELECT first_seq, received_to, hashes FROM ${this.name}_segments JOIN ${this.name}_facts USING (first_seq)
       WHERE received_to >= ? AND received_from <= ? ORDER BY first_seq`,
      fromMs,
      toMs,
    );
    for (const { first_seq: firstSeq, received_to: receivedToMs, hashes } of rows) {
      yield { firstSeq, receivedToMs, hashes: new Uint8Array(hashes) };
    }
    const { firstSeq } = this.#head;
    yield { firstSeq, receivedToMs: Number.MAX_SAFE_INTEGER, hashes: this.#head.hashBytes() };
  }

  /** A line that is no longer an original loses its hash. @throws when the segment has been rewritten since it was read. */
  rewrite(segment: Segment, changes: ReadonlyMap<number, Facts>): void {
    if (changes.size === 0) return;
    const { firstSeq, row } = segment;
    if (row === null) {
      if (!this.isCurrent(segment)) throw new Error("the open lines have been rewritten or sealed meanwhile");
      return this.#head.rewrite(changes);
    }
    const lines = segment.lines.with(changes, firstSeq);
    const hashes = this.hashesOf(firstSeq);
    for (const [seq, facts] of changes) {
      const at = (seq - firstSeq) * HASH_BYTES;
      if (!isOriginal(facts)) hashes.fill(0, at, at + HASH_BYTES);
    }
    const version = segment.version + 1;
    const { rowsWritten } = this.#sql.exec(
      `UPDATE ${this.name}_facts SET version = ?1, hashes = ?2, facts = ?3 WHERE first_seq = ?4 AND version = ?1 - 1`,
      version,
      toSqlBlob(hashes),
      toSqlBlob(lines.pack()),
      firstSeq,
    );
    if (rowsWritten === 0) throw new Error(`the segment of ${firstSeq} has been rewritten meanwhile`);
    this.#segments.set(firstSeq, new Segment(firstSeq, lines, version, row));
    // The other columns are bounds of the lines, so they still hold.
    const statuses = statusLetters(lines);
    if (statuses !== row.statuses) this.#updateRow(firstSeq, { statuses });
  }

  /** Whether the segment is unchanged since it was read. Callers check this after an `await`. */
  isCurrent({ firstSeq, lines, version, row }: Segment): boolean {
    // New open lines do not count as a change.
    if (row === null) return firstSeq === this.#head.firstSeq && lines === this.#head.lines;
    const [now] = this.#sql.exec<{ version: number; cold: string | null }>(
      `SELECT version, cold FROM ${this.name}_segments JOIN ${this.name}_facts USING (first_seq) WHERE first_seq = ?`,
      firstSeq,
    );
    return now !== undefined && now.version === version && now.cold === row.cold;
  }

  summariseAgain(firstSeq: number): void {
    const segment = this.segmentOf(firstSeq);
    if (segment !== null) this.#updateRow(firstSeq, summarise(segment.lines));
  }

  /** Only the numbers of the lines are left. */
  dropLines(segment: Segment, seqs: readonly number[]): void {
    const row = rowOfSealed(segment);
    for (const seq of seqs) this.#removeLate(row, segment.facts(seq).admission.id, seq);
    if (row.cold === null) this.blank(segment, seqs);
    this.rewrite(segment, new Map(seqs.map((seq) => [seq, afterRetention(segment.facts(seq))] as const)));
    this.summariseAgain(segment.firstSeq);
  }

  drop(segment: Segment): void {
    const { firstSeq } = segment;
    const row = rowOfSealed(segment);
    for (const [index, id] of segment.lines.column("id").entries()) this.#removeLate(row, String(id), firstSeq + index);
    for (const table of ["segments", "facts", "payloads"]) {
      this.#sql.exec(`DELETE FROM ${this.name}_${table} WHERE first_seq = ?`, firstSeq);
    }
    this.#segments.delete(firstSeq);
  }

  #updateRow(firstSeq: number, columns: Partial<SegmentRow>): void {
    const names = Object.keys(columns);
    const [row] = this.#sql
      .exec<SegmentRow>(
        `UPDATE ${this.name}_segments SET ${names.map((name) => `${name} = ?`).join(", ")} WHERE first_seq = ? RETURNING *`,
        ...Object.values<SqlStorageValue | undefined>(columns).map((value) => value ?? null),
        firstSeq,
      )
      .toArray();
    const cached = this.#segments.get(firstSeq);
    if (cached === undefined || row === undefined) return;
    this.#segments.set(firstSeq, new Segment(firstSeq, cached.lines, cached.version, row));
  }

  /** Null: the payloads are in R2. */
  payloadsOf({ firstSeq, lines, row }: Segment): Payloads | null {
    if (row === null) return this.#head.payloads;
    if (row.cold !== null) return null;
    const packed = this.packedPayloads(firstSeq);
    return packed === null ? Array.from({ length: lines.length }, () => null) : unpackPayloads(packed, lines);
  }

  packedPayloads(firstSeq: number): ArrayBuffer | null {
    const [row] = this.#sql.exec<{ payloads: ArrayBuffer }>(
      `SELECT payloads FROM ${this.name}_payloads WHERE first_seq = ?`,
      firstSeq,
    );
    return row?.payloads ?? null;
  }

  blank(segment: Segment, seqs: Iterable<number>): void {
    const stored = this.payloadsOf(segment);
    if (stored === null) throw new Error("payloads that are in R2 are deleted there");
    const payloads = [...stored];
    for (const seq of seqs) payloads[seq - segment.firstSeq] = null;
    if (segment.row === null) this.#head.replacePayloads(payloads);
    else if (payloads.every((payload) => payload === null)) this.#removePayloads(segment.firstSeq);
    else this.#writePayloads(segment.firstSeq, packPayloads(payloads, segment.lines));
  }

  movePayloads(firstSeq: number, { key, offset, bytes }: { key: string; offset: number; bytes: number }): void {
    this.#updateRow(firstSeq, { cold: key, cold_offset: offset, cold_bytes: bytes });
    this.#removePayloads(firstSeq);
  }

  /** For a segment whose object is gone from R2. */
  markPayloadsLost(firstSeq: number): void {
    this.#updateRow(firstSeq, { cold: null, cold_offset: 0, cold_bytes: PAYLOADS_LOST });
  }

  #writePayloads(firstSeq: number, packed: Uint8Array): void {
    this.#sql.exec(
      `INSERT OR REPLACE INTO ${this.name}_payloads (first_seq, payloads) VALUES (?, ?)`,
      firstSeq,
      toSqlBlob(packed),
    );
  }

  #removePayloads(firstSeq: number): void {
    this.#sql.exec(`DELETE FROM ${this.name}_payloads WHERE first_seq = ?`, firstSeq);
  }

  // Finding lines by signal id. An id contains a time, and the row of a segment has the range of the times in its ids. The table `late`
  // lists lines whose id has no time, or a time before the latest segments.

  #seqOf(id: string): number | null {
    const openSeq = this.open().seqOf(id);
    if (openSeq !== null) return openSeq;
    const ms = idMs(id);
    if (ms !== null) {
      const rows = this.rows(
        "first_ms <= ?1 AND first_ms >= ?1 - ?2 AND last_ms >= ?1 ORDER BY first_ms DESC",
        ms,
        this.meta.maxSpanMs,
      );
      for (const row of rows) {
        const seq = this.sealed(row).seqOf(id);
        if (seq !== null) return seq;
      }
    }
    const [late] = this.#sql.exec<{ seq: number }>(
      `SELECT seq FROM ${this.name}_late WHERE id = ? ORDER BY seq DESC LIMIT 1`,
      id,
    );
    return late?.seq ?? null;
  }

  #isLate(id: string): boolean {
    const ms = idMs(id);
    return ms === null || ms < (this.#spanStarts[SPAN_SEGMENTS - 1] ?? 0);
  }

  /** The range of the times in ids, without late ids. If all are late, the range is empty. */
  #spanOf(ids: readonly string[]): [firstMs: number, lastMs: number] {
    const times = ids.flatMap((id) => (this.#isLate(id) ? [] : (idMs(id) ?? [])));
    return times.length === 0 ? [this.#spanStarts[0] ?? 0, -1] : [Math.min(...times), Math.max(...times)];
  }

  #readSpanStarts(): void {
    const rows = this.rows("TRUE ORDER BY first_seq DESC LIMIT ?", SPAN_SEGMENTS);
    this.#spanStarts = rows.map((row) => row.first_ms);
  }

  #removeLate({ first_ms: first, last_ms: last }: SegmentRow, id: string, seq: number): void {
    const ms = idMs(id);
    if (ms !== null && ms >= first && ms <= last) return;
    this.#sql.exec(`DELETE FROM ${this.name}_late WHERE id = ? AND seq = ?`, id, seq);
  }
}

function idMs(id: string): number | null {
  return uuidv7Ms(id.slice(id.indexOf("_") + 1));
}

function rowOfSealed({ row }: Segment): SegmentRow {
  if (row === null) throw new Error("open lines cannot be dropped");
  return row;
}

interface Condition {
  sql: string;
  values: SqlStorageValue[];
}

function conditionOf({ event, source, status, sinceMs, untilMs }: WalkFilter): Condition {
  const parts: [sql: string, SqlStorageValue][] = [];
  if (event !== undefined) parts.push(["instr(groups, ?) > 0", toSqlBlob(groupMark(event, source))]);
  if (status !== undefined) parts.push(["instr(statuses, ?) > 0", statusLetter(status)]);
  if (sinceMs !== undefined) parts.push(["received_to >= ?", sinceMs]);
  if (untilMs !== undefined) parts.push(["received_from < ?", untilMs]);
  return { sql: ["TRUE", ...parts.map(([sql]) => sql)].join(" AND "), values: parts.map(([, value]) => value) };
}

const HELD_ROWS = 16;

export class HeldLog extends Log {
  constructor(sql: SqlStorage) {
    super(sql, "held", { maxSpanMs: 0 });
  }

  /** The next end of a billing period with held lines, in milliseconds since 1970. The segment can have other lines too. */
  nextPeriodEnd(): { endMs: number; read: () => Segment } | null {
    const open = this.open();
    const ends = open.lines.column("periodEnd").map(Number);
    const statuses = open.lines.column("status");
    const openEndMs = Math.min(...ends.filter((_, index) => statusOf(statuses[index] ?? 0) === "held"));
    const [row] = this.rows("instr(statuses, 'h') > 0 ORDER BY period_end LIMIT 1");
    if (row !== undefined && row.period_end < openEndMs) return { endMs: row.period_end, read: () => this.sealed(row) };
    return openEndMs === Number.POSITIVE_INFINITY ? null : { endMs: openEndMs, read: () => open };
  }

  /** Sealed segments that may have held lines with ordinals after `after`. */
  *byOrdinal(after: number): Generator<{ firstOrdinal: number; read: () => Segment }> {
    for (let [ordinal, seq, isMore] = [0, 0, true]; isMore;) {
      const rows = this.rows(
        `instr(statuses, 'h') > 0 AND (ordinal_from, first_seq) > (?2, ?3) AND ordinal_to > ?1
         ORDER BY ordinal_from, first_seq LIMIT ${HELD_ROWS}`,
        after,
        ordinal,
        seq,
      );
      for (const row of rows) yield { firstOrdinal: row.ordinal_from, read: () => this.sealed(row) };
      isMore = rows.length === HELD_ROWS;
      [ordinal, seq] = [rows.at(-1)?.ordinal_from ?? 0, rows.at(-1)?.first_seq ?? 0];
    }
  }
}

/** The platform accepts a view of a buffer as a parameter, although its types name buffers only. */
function toSqlBlob(bytes: Uint8Array): SqlStorageValue {
  return bytes as SqlStorageValue & Uint8Array;
}

// The head is one row with the open lines and other data that changes with every batch. So a batch of any size writes one row here.
// Growing values are padded: SQLite writes only the pages that differ if the length stays the same.

const HEAD_STEP_BYTES = 16_384;
const META_STEP_CHARACTERS = 1_024;

/** Ends a payload. Valid JSON text never contains this control character. */
const PAYLOAD_END = "\u001e";

const HASH_CHARACTERS = Math.ceil((HASH_BYTES * 4) / 3);
const BASE64URL = { alphabet: "base64url", omitPadding: true } as const;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

class Head {
  readonly #sql: SqlStorage;
  readonly #log: number;
  meta: LogMeta;
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

  constructor(sql: SqlStorage, log: LogName, empty: LogMeta) {
    this.#sql = sql;
    this.#log = LOG_NUMBERS[log];
    const [row] = sql.exec<{ next_seq: number; meta: string; facts: ArrayBuffer; payloads: ArrayBuffer }>(
      "SELECT next_seq, meta, facts, payloads FROM heads WHERE log = ?",
      this.#log,
    );
    this.meta = row === undefined ? empty : (JSON.parse(row.meta) as LogMeta);
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

  isFullFor(text: string, payload: string | null): boolean {
    const { length } = this.lines;
    if (length === 0 || length >= SEGMENT_MAX_LINES) return length > 0;
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
  rewrite(changes: ReadonlyMap<number, Facts>): void {
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
function textOfCells(cells: readonly Cell[]): string {
  let { length } = cells;
  while (cells[length - 1] === 0) length--;
  return JSON.stringify(cells.slice(0, length));
}
