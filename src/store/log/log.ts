/**
 * The log (docs/signal-store.md): lines in the order of recording, each known by its number, `seq`. New ones
 * are open, in the head; hundreds at a time are sealed into a segment. What is asked of it: append, read, find by id, walk,
 * rewrite, drop. How lines are kept is nobody else's business.
 *
 * Everything here is synchronous and part of the caller's transaction; `flush` writes the head, once a transaction. Where
 * a transaction is taken back, what is in memory is wrong: then `reload`.
 */
import { Head, textOfCells } from "./head.ts";
import type { LogName } from "./head.ts";
import { IdSearch } from "./id-search.ts";
import { encodeFacts } from "./line-cells.ts";
import { afterRetention, isDropped } from "./line-remains.ts";
import type { Facts, Line } from "./line.ts";
import { factsByNumber, linesBySegment } from "./lines-by-number.ts";
import type { LinesOfSegment } from "./lines-by-number.ts";
import type { LogMeta } from "./log-meta.ts";
import { Segment } from "./segment.ts";
import type { SegmentRow } from "./segment.ts";
import { StoredPayloads } from "./stored-payloads.ts";
import type { SegmentPayloads } from "./stored-payloads.ts";
import { StoredSegments } from "./stored-segments.ts";
import type { ColdPlace, SegmentHashes } from "./stored-segments.ts";
import { segmentsReceivedBefore, walkSegments, walkSegmentsBack } from "./walk.ts";
import type { Wanted } from "./walk.ts";

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

  /** Writes the head, if anything in it has changed. */
  flush(): void {
    this.#head.write();
  }

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
