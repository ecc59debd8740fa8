/**
 * The log (docs/signal-store.md): lines in the order of recording, each known by its number, `seq`. New ones
 * are open, in the head; hundreds at a time are sealed into a segment. What is asked of it: append, read, find by id, walk,
 * rewrite, drop. How lines are kept is nobody else's business.
 *
 * Everything here is synchronous and part of the caller's transaction; `flush` writes the head, once a transaction. Where
 * a transaction is taken back, what is in memory is wrong: then `reload`.
 */
import { Lru } from "../../platform/lru.ts";
import { Head, type LogName, textOfCells } from "./head.ts";
import { IdSearch } from "./id-search.ts";
import { encodeFacts, statusLetter } from "./line-cells.ts";
import { afterRetention, isDropped } from "./line-remains.ts";
import type { Facts, Line, LineStatus } from "./line.ts";
import type { Lines } from "./lines.ts";
import type { LogMeta } from "./log-meta.ts";
import { packPayloads, unpackPayloads } from "./packing.ts";
import { groupMark, Segment, type SegmentRow } from "./segment.ts";
import { toSqlBlob } from "./sql-blob.ts";
import { type ColdPlace, type SegmentHashes, StoredSegments } from "./stored-segments.ts";

/**
 * What the head keeps besides lines, in bytes: each batch writes all of it as JSON, 0.3 ms at most. Changes of some 270 event
 * groups fit, or of a day of 1,000 mapping rules.
 */
export const HEAD_META_MAX_BYTES = 80 * 1024;

export class Log<Meta extends LogMeta = LogMeta> {
  readonly #sql: SqlStorage;
  readonly name: LogName;
  readonly #empty: Meta;
  protected readonly segments: StoredSegments;
  readonly #payloads: StoredPayloads;
  readonly #ids: IdSearch;
  #head: Head<Meta>;

  constructor(sql: SqlStorage, name: LogName, empty: Meta) {
    this.#sql = sql;
    this.name = name;
    this.#empty = empty;
    this.segments = new StoredSegments(sql, name);
    this.#payloads = new StoredPayloads(sql, name);
    this.#ids = new IdSearch(sql, name, this.segments);
    this.#head = this.#load();
  }

  /** What is kept in the head besides lines. Callers may change it; `flush` writes it. */
  get meta(): Meta {
    return this.#head.meta;
  }

  /** The number of the line that comes next. */
  get nextSeq(): number {
    return this.#head.nextSeq;
  }

  /** The number of the oldest line; `nextSeq` where there is none. */
  get firstSeq(): number {
    return this.segments.firstSeq ?? this.#head.firstSeq;
  }

  /**
   * Adds a line and returns its number. @param hash HASH_BYTES by which others are found to be its duplicates; null where
   * none are.
   */
  append({ facts, payload }: Line, hash: Uint8Array | null): number {
    const cells = encodeFacts(facts);
    const text = textOfCells(cells);
    if (this.#head.isFullFor(text, payload)) this.seal();
    const seq = this.#head.push(cells, text, payload, hash);
    this.#ids.add(facts.admission.id, seq);
    return seq;
  }

  /** Makes a segment of the open lines. */
  seal(): void {
    const head = this.#head;
    if (head.lines.length === 0) return;
    const { firstSeq, lines } = head;
    const span = this.#ids.close();
    head.meta.maxSpanMs = Math.max(head.meta.maxSpanMs, span.last - span.first);
    this.segments.insert({ firstSeq, lines, hashes: head.hashBytes(), span });
    if (head.payloads.some((payload) => payload !== null)) this.#payloads.write(firstSeq, head.payloads, lines);
    head.clear();
  }

  /** Writes the head, if anything in it has changed. What would take more than HEAD_META_MAX_BYTES goes to rows of its own. */
  flush(): void {
    let meta = JSON.stringify(this.meta);
    if (Buffer.byteLength(meta) > HEAD_META_MAX_BYTES) {
      this.emptyMeta();
      meta = JSON.stringify(this.meta);
    }
    this.#head.write(meta);
  }

  /** Moves to rows of its own what `meta` keeps only to save rows. */
  protected emptyMeta(): void {}

  /** Forgets what is in memory, after a transaction was taken back. */
  reload(): void {
    this.segments.reload();
    this.#payloads.reload();
    this.#head = this.#load();
  }

  /** A line's facts. Null where there is no such line, or none any more. */
  read(seq: number): Facts | null {
    const facts = this.segmentOf(seq)?.facts(seq) ?? null;
    return facts === null || isDropped(facts) ? null : facts;
  }

  /** The segment that has this line; null where there is none, or none any more. */
  segmentOf(seq: number): Segment | null {
    if (seq >= this.#head.firstSeq) return seq < this.#head.nextSeq ? this.open() : null;
    return this.segments.of(seq);
  }

  /** The segments of these lines, each with those that it has, in ascending order. Lines that are gone are left out. */
  segmentsOf(seqs: Iterable<number>): Generator<LinesOfSegment> {
    return linesBySegment(seqs, (seq) => this.segmentOf(seq));
  }

  /** Facts of lines by their numbers; lines that are gone are missing. */
  readAll(seqs: Iterable<number>): Map<number, Facts> {
    return factsByNumber(this.segmentsOf(seqs));
  }

  /** The latest line with a signal's id; null where there is none. */
  find(id: string): { seq: number; facts: Facts } | null {
    const seq = this.#ids.find(id, this.open(), this.meta.maxSpanMs);
    const facts = seq === null ? null : this.read(seq);
    return seq === null || facts === null ? null : { seq, facts };
  }

  /** Segments from the latest line before `before` back to the oldest. */
  walkBack(before: number, wanted: Wanted = {}): Generator<Segment> {
    return walkSegmentsBack(this.segments, this.open(), before, wanted);
  }

  /** Segments from the first line after `after` on. */
  walk(after: number, wanted: Wanted = {}): Generator<Segment> {
    return walkSegments(this.segments, () => this.open(), after, wanted);
  }

  /** Sealed segments, from the oldest on, whose lines were all received before a time, or some of them before another. */
  receivedBefore(before: { wholly: number; partly: number }): Generator<Segment> {
    return segmentsReceivedBefore(this.segments, before);
  }

  /** When the oldest sealed line was received, and when the last one of the segment that is the first to be all too old. */
  oldestReceived(): { firstMs: number; wholeMs: number } | null {
    return this.segments.oldestReceived();
  }

  /**
   * Rows of sealed segments for which a condition holds, for who knows how these are kept. The condition is part of a
   * statement: it never holds what was sent.
   */
  rows(condition: string, ...values: SqlStorageValue[]): SegmentRow[] {
    return this.segments.rows(condition, ...values);
  }

  /** The segment of such a row. */
  sealed(row: SegmentRow): Segment {
    return this.segments.read(row);
  }

  /** The segment that lines are added to. */
  open(): Segment {
    return new Segment(this.#head.firstSeq, this.#head.lines, 0, null);
  }

  /** HASH_BYTES of each line of a segment. */
  hashesOf(firstSeq: number): Uint8Array {
    return firstSeq === this.#head.firstSeq ? this.#head.hashBytes() : this.segments.hashesOf(firstSeq);
  }

  /** Hashes of segments with lines received in that time, and of the open lines, which may have been received at any time. */
  *hashesReceived(fromMs: number, toMs = Number.MAX_SAFE_INTEGER): Generator<SegmentHashes> {
    yield* this.segments.hashesReceived(fromMs, toMs);
    const { firstSeq } = this.#head;
    yield { firstSeq, receivedToMs: Number.MAX_SAFE_INTEGER, hashes: this.#head.hashBytes() };
  }

  /**
   * Changes facts of a segment's lines, by their numbers. A line that is no original any more loses its hash.
   *
   * @throws when the segment is not as it was read.
   */
  rewrite(segment: Segment, changes: ReadonlyMap<number, Facts>): void {
    if (changes.size === 0) return;
    if (segment.row !== null) this.segments.rewrite(segment, segment.row, changes);
    else this.#head.rewrite(changes);
  }

  /** Whether a segment is still as it was read, before an `await` for instance. */
  isCurrent(segment: Segment): boolean {
    return segment.row === null ? this.#head.isCurrent(segment) : this.segments.isCurrent(segment, segment.row);
  }

  /** A segment's payloads, line by line; null: they are in R2. */
  payloadsOf(segment: Segment): SegmentPayloads | null {
    if (segment.row === null) return this.#head.payloads;
    return segment.row.cold === null ? this.#payloads.read(segment) : null;
  }

  /** Deletes payloads of lines, for good, where they are not in R2. */
  blank(segment: Segment, seqs: Iterable<number>): void {
    const here = this.payloadsOf(segment);
    if (here === null) throw new Error("payloads that are in R2 are deleted there");
    const payloads = [...here];
    for (const seq of seqs) payloads[seq - segment.firstSeq] = null;
    if (segment.row !== null) this.#payloads.write(segment.firstSeq, payloads, segment.lines);
    else this.#head.replacePayloads(payloads);
  }

  /** The compressed payloads of a sealed segment, as they are moved to R2; null: there are none here. */
  packedPayloads(firstSeq: number): ArrayBuffer | null {
    return this.#payloads.packed(firstSeq);
  }

  /** Says where in R2 the payloads of a segment are now. */
  movePayloads(firstSeq: number, cold: ColdPlace): void {
    this.segments.moveToCold(firstSeq, cold);
    this.#payloads.remove(firstSeq);
  }

  /** Says that the payloads of a segment are lost: their object is not in R2 any more. */
  losePayloads(firstSeq: number): void {
    this.segments.losePayloads(firstSeq);
  }

  /** Deletes some lines of a sealed segment: no id finds them, and nothing is left but their places. */
  dropLines(segment: Segment, seqs: readonly number[]): void {
    const { row } = segment;
    if (row === null) throw new Error("open lines cannot be dropped");
    for (const seq of seqs) this.#ids.remove(row, segment.facts(seq).admission.id, seq);
    if (row.cold === null) this.blank(segment, seqs);
    this.rewrite(segment, new Map(seqs.map((seq) => [seq, afterRetention(segment.facts(seq))] as const)));
    this.summariseAgain(segment.firstSeq);
  }

  /** Makes the row of a sealed segment say what its lines are now; until then it also says what they were. */
  summariseAgain(firstSeq: number): void {
    this.segments.summariseAgain(firstSeq);
  }

  /** Deletes a sealed segment with all its lines. */
  drop({ firstSeq, row, lines }: Segment): void {
    if (row === null) throw new Error("open lines cannot be dropped");
    for (const [index, id] of lines.column("id").entries()) this.#ids.remove(row, String(id), firstSeq + index);
    this.segments.remove(firstSeq);
    this.#payloads.remove(firstSeq);
  }

  #load(): Head<Meta> {
    const head = new Head(this.#sql, this.name, structuredClone(this.#empty));
    this.#ids.reload(head.lines.column("id").map(String));
    return head;
  }
}

// Lines by their numbers, segment by segment, so that each is read once.

interface LinesOfSegment {
  segment: Segment;
  seqs: number[];
}

/** The segments of lines, each with those that it has, in ascending order. @param segmentOf null where a line is gone. */
function* linesBySegment(
  seqs: Iterable<number>,
  segmentOf: (seq: number) => Segment | null,
): Generator<LinesOfSegment> {
  const sorted = [...new Set(seqs)].sort((one, other) => one - other);
  let found: LinesOfSegment | null = null;
  for (const seq of sorted) {
    if (found !== null && seq <= found.segment.lastSeq) {
      found.seqs.push(seq);
      continue;
    }
    if (found !== null) yield found;
    const segment = segmentOf(seq);
    found = segment && { segment, seqs: [seq] };
  }
  if (found !== null) yield found;
}

/** Facts of lines by their numbers; those that retention has deleted are missing. */
function factsByNumber(lines: Iterable<LinesOfSegment>): Map<number, Facts> {
  const facts = new Map<number, Facts>();
  for (const { segment, seqs } of lines) {
    for (const seq of seqs) {
      const found = segment.facts(seq);
      if (!isDropped(found)) facts.set(seq, found);
    }
  }
  return facts;
}

// Payloads of sealed segments that are in the store; those of older segments are in R2, see cold.ts.

/** Segments whose expanded payloads an object keeps in memory: at most some 2 MB. */
const CACHED_PAYLOADS = 16;

/** The payload of each line of a segment, in their order; null where it has none. */
type SegmentPayloads = readonly (string | null)[];

class StoredPayloads {
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

// Walks over a log's segments, from line to line in either direction, past those that cannot hold what is wanted.

/** Rows of segments that a walk reads at a time: few at first, since most walks end soon. */
const ROWS = { first: 4, most: 64 } as const;
/** Most lines that a segment can have, with room to spare. */
const MOST_LINES = 1_024;

/** What a walk looks for. A segment that it stops at may have other lines besides. */
interface Wanted {
  event?: string | undefined;
  source?: string | undefined;
  status?: LineStatus | undefined;
  /** When the signals were received: not before `sinceMs`, and before `untilMs`, in milliseconds since 1970. */
  sinceMs?: number | undefined;
  untilMs?: number | undefined;
}

/** Segments from the latest line before `before` back to the oldest. */
function* walkSegmentsBack(
  segments: StoredSegments,
  open: Segment,
  before: number,
  wanted: Wanted,
): Generator<Segment> {
  if (before > open.firstSeq && open.length > 0) yield open;
  const { sql, values } = conditionOf(wanted);
  const condition = `first_seq < ? AND ${sql} ORDER BY first_seq DESC LIMIT ?`;
  let end = Math.min(before, open.firstSeq);
  for (let limit: number = ROWS.first; ; limit = Math.min(limit * 4, ROWS.most)) {
    const rows = segments.rows(condition, end, ...values, limit);
    for (const row of rows) yield segments.read(row);
    if (rows.length < limit) return;
    end = rows.at(-1)?.first_seq ?? 0;
  }
}

/** Segments from the first line after `after` on. The open one is asked for when its turn comes: the walk may be a long one. */
function* walkSegments(
  segments: StoredSegments,
  open: () => Segment,
  after: number,
  wanted: Wanted,
): Generator<Segment> {
  const { sql, values } = conditionOf(wanted);
  // This is a range of the primary key: the segment that has the line begins no more than so many lines before.
  const condition = `last_seq > ? AND first_seq > ? AND ${sql} ORDER BY first_seq LIMIT ?`;
  let last = after;
  for (let limit: number = ROWS.first; ; limit = Math.min(limit * 4, ROWS.most)) {
    const rows = segments.rows(condition, last, last - MOST_LINES, ...values, limit);
    for (const row of rows) yield segments.read(row);
    if (rows.length < limit) break;
    last = rows.at(-1)?.last_seq ?? last;
  }
  const now = open();
  if (now.length > 0 && now.lastSeq > after) yield now;
}

/** Segments with lines that were received before a time: all of a segment's, or some of them. */
function* segmentsReceivedBefore(
  segments: StoredSegments,
  { wholly, partly }: { wholly: number; partly: number },
): Generator<Segment> {
  let after = 0;
  for (;;) {
    const rows = segments.rows(
      "first_seq > ? AND (received_to < ? OR received_from < ?) ORDER BY first_seq LIMIT ?",
      after,
      wholly,
      partly,
      ROWS.most,
    );
    for (const row of rows) yield segments.read(row);
    if (rows.length < ROWS.most) return;
    after = rows.at(-1)?.first_seq ?? after;
  }
}

/** What is wanted as part of a statement, and the values of its parameters in their order. */
function conditionOf({ event, source, status, sinceMs, untilMs }: Wanted): { sql: string; values: SqlStorageValue[] } {
  const parts: [sql: string, SqlStorageValue][] = [];
  if (event !== undefined) parts.push(["instr(groups, ?) > 0", toSqlBlob(groupMark(event, source))]);
  if (status !== undefined) parts.push(["instr(statuses, ?) > 0", statusLetter(status)]);
  if (sinceMs !== undefined) parts.push(["received_to >= ?", sinceMs]);
  if (untilMs !== undefined) parts.push(["received_from < ?", untilMs]);
  return {
    sql: parts.length === 0 ? "TRUE" : parts.map(([sql]) => sql).join(" AND "),
    values: parts.map(([, value]) => value),
  };
}
