/**
 * The log (design §15): lines in the order of recording, each with a number, `seq`. New lines are open and stand in
 * the head. Hundreds of lines at a time are sealed into a segment. Code outside this folder does not know how lines are stored.
 *
 * All methods are synchronous and part of the caller's transaction. The caller calls `flush` once per transaction to write the head,
 * and `reload` after a rollback, because memory then differs from the tables.
 */
import type { LineStatus } from "../../domain/signal/signal.ts";
import { uuidv7Ms } from "../../platform/ids.ts";
import { Head, textOfCells, type LogMeta, type LogName } from "./head.ts";
import { afterRetention, isDropped, type Facts, type Line } from "./line.ts";
import { encodeFacts, statusLetter, statusOf } from "./lines.ts";
import { groupMark, Segment, type SegmentRow } from "./segment.ts";
import { StoredSegments, toSqlBlob, type SegmentHashes, type SegmentPayloads } from "./stored-segments.ts";

/**
 * Budget of the head besides lines, in bytes. Each batch writes all of it as JSON, 0.3 ms at most. It has room for changes of
 * 270 event groups, or for a day of 1,000 mapping rules.
 */
export const HEAD_META_MAX_BYTES = 80 * 1024;

export type { LogMeta } from "./head.ts";

/** Rows of segments that a walk reads at a time: few at first, since most walks end soon. */
const WALK_ROWS = { first: 4, most: 64 } as const;
/** Upper bound of the lines of a segment, with room to spare. */
const WALK_SEGMENT_LINES = 1_024;

/** Filter of a walk. A segment that passes can have other lines besides. */
interface WalkFilter {
  event?: string | undefined;
  source?: string | undefined;
  status?: LineStatus | undefined;
  /** Received at or after `sinceMs` and before `untilMs`, in milliseconds since 1970. */
  sinceMs?: number | undefined;
  untilMs?: number | undefined;
}

interface LinesOfSegment {
  segment: Segment;
  seqs: number[];
}

export class Log<Meta extends LogMeta = LogMeta> extends StoredSegments {
  readonly #emptyMeta: Meta;
  readonly #ids: IdSearch;
  #head: Head<Meta>;

  constructor(sql: SqlStorage, name: LogName, emptyMeta: Meta) {
    super(sql, name);
    this.#emptyMeta = emptyMeta;
    this.#ids = new IdSearch(sql, this);
    this.#head = this.#load();
  }

  /** The data of the head besides lines. Callers may change it; `flush` writes it. */
  get meta(): Meta {
    return this.#head.meta;
  }

  get nextSeq(): number {
    return this.#head.nextSeq;
  }

  /** The number of the oldest line; `nextSeq` if the log is empty. */
  get firstSeq(): number {
    const [row] = this.sql.exec<{ first: number | null }>(`SELECT min(first_seq) AS first FROM ${this.name}_segments`);
    return row?.first ?? this.#head.firstSeq;
  }

  /** Adds a line and returns its number. @param hash HASH_BYTES to find duplicates of the line; null: it can have none. */
  append({ facts, payload }: Line, hash: Uint8Array | null): number {
    const cells = encodeFacts(facts);
    const text = textOfCells(cells);
    if (this.#head.isFullFor(text, payload)) this.seal();
    const seq = this.#head.push(cells, text, payload, hash);
    this.#ids.add(facts.admission.id, seq);
    return seq;
  }

  seal(): void {
    const head = this.#head;
    if (head.lines.length === 0) return;
    const { firstSeq, lines } = head;
    const span = this.#ids.close();
    head.meta.maxSpanMs = Math.max(head.meta.maxSpanMs, span.last - span.first);
    this.insert({ firstSeq, lines, hashes: head.hashBytes(), span });
    if (head.payloads.some((payload) => payload !== null)) this.writePayloads(firstSeq, head.payloads, lines);
    head.clear();
  }

  /** Writes the head if it has changed. Moves meta data to rows of their own if they exceed HEAD_META_MAX_BYTES. */
  flush(): void {
    let meta = JSON.stringify(this.meta);
    if (Buffer.byteLength(meta) > HEAD_META_MAX_BYTES) {
      this.emptyMeta();
      meta = JSON.stringify(this.meta);
    }
    this.#head.write(meta);
  }

  /** Moves to rows of their own the meta data that the head keeps only to save rows. */
  protected emptyMeta(): void {}

  override reload(): void {
    super.reload();
    this.#head = this.#load();
  }

  /** The facts of a line; null: the line is gone. */
  read(seq: number): Facts | null {
    const facts = this.segmentOf(seq)?.facts(seq) ?? null;
    return facts === null || isDropped(facts) ? null : facts;
  }

  override segmentOf(seq: number): Segment | null {
    if (seq >= this.#head.firstSeq) return seq < this.#head.nextSeq ? this.open() : null;
    return super.segmentOf(seq);
  }

  /** Groups lines by segment, in ascending order. Lines that are gone are left out. */
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

  goneOf(seqs: readonly number[]): Set<number> {
    const gone = new Set<number>();
    let lastFound = -1;
    for (const seq of seqs.toSorted((a, b) => a - b)) {
      if (seq <= lastFound || seq >= this.#head.firstSeq) continue;
      const row = this.rowOf(seq);
      if (row === null) gone.add(seq);
      else lastFound = row.last_seq;
    }
    return gone;
  }

  /** Facts by line number. Lines that are gone are missing. */
  readAll(seqs: Iterable<number>): Map<number, Facts> {
    const found = new Map<number, Facts>();
    for (const { segment, seqs: here } of this.segmentsOf(seqs)) {
      for (const seq of here) {
        const facts = segment.facts(seq);
        if (!isDropped(facts)) found.set(seq, facts);
      }
    }
    return found;
  }

  /** The latest line with a signal id. */
  find(id: string): { seq: number; facts: Facts } | null {
    const seq = this.#ids.find(id);
    const facts = seq === null ? null : this.read(seq);
    return seq === null || facts === null ? null : { seq, facts };
  }

  /** Segments from the latest line before `before` back to the oldest. */
  *walkBack(before: number, filter: WalkFilter = {}): Generator<Segment> {
    const open = this.open();
    if (before > open.firstSeq && open.length > 0) yield open;
    const { sql, values } = conditionOf(filter);
    const condition = `first_seq < ? AND ${sql} ORDER BY first_seq DESC LIMIT ?`;
    let end = Math.min(before, open.firstSeq);
    for (let limit: number = WALK_ROWS.first; ; limit = Math.min(limit * 4, WALK_ROWS.most)) {
      const rows = this.rows(condition, end, ...values, limit);
      for (const row of rows) yield this.sealed(row);
      if (rows.length < limit) return;
      end = rows.at(-1)?.first_seq ?? 0;
    }
  }

  /** Segments from the first line after `after` on. */
  *walk(after: number, filter: WalkFilter = {}): Generator<Segment> {
    const { sql, values } = conditionOf(filter);
    // Bounding first_seq too makes this a range of the primary key.
    const condition = `last_seq > ? AND first_seq > ? AND ${sql} ORDER BY first_seq LIMIT ?`;
    let last = after;
    for (let limit: number = WALK_ROWS.first; ; limit = Math.min(limit * 4, WALK_ROWS.most)) {
      const rows = this.rows(condition, last, last - WALK_SEGMENT_LINES, ...values, limit);
      for (const row of rows) yield this.sealed(row);
      if (rows.length < limit) break;
      last = rows.at(-1)?.last_seq ?? last;
    }
    // Read the open lines last: a long walk may span several batches.
    const open = this.open();
    if (open.length > 0 && open.lastSeq > after) yield open;
  }

  /** Sealed segments, oldest first, that were received completely before `wholly`, or partly before `partly`. */
  *receivedBefore({ wholly, partly }: { wholly: number; partly: number }): Generator<Segment> {
    for (let after = 0; ;) {
      const rows = this.rows(
        "first_seq > ? AND (received_to < ? OR received_from < ?) ORDER BY first_seq LIMIT ?",
        after,
        wholly,
        partly,
        WALK_ROWS.most,
      );
      for (const row of rows) yield this.sealed(row);
      if (rows.length < WALK_ROWS.most) return;
      after = rows.at(-1)?.first_seq ?? after;
    }
  }

  open(): Segment {
    return new Segment(this.#head.firstSeq, this.#head.lines, 0, null);
  }

  override hashesOf(firstSeq: number): Uint8Array {
    return firstSeq === this.#head.firstSeq ? this.#head.hashBytes() : super.hashesOf(firstSeq);
  }

  /** Always includes the open lines, whenever they were received. */
  override *hashesReceived(fromMs: number, toMs = Number.MAX_SAFE_INTEGER): Generator<SegmentHashes> {
    yield* super.hashesReceived(fromMs, toMs);
    const { firstSeq } = this.#head;
    yield { firstSeq, receivedToMs: Number.MAX_SAFE_INTEGER, hashes: this.#head.hashBytes() };
  }

  /**
   * Changes facts by line number. A line that is no longer an original loses its hash.
   *
   * @throws when the segment has been rewritten since it was read.
   */
  rewrite(segment: Segment, changes: ReadonlyMap<number, Facts>): void {
    if (changes.size === 0) return;
    if (segment.row !== null) this.rewriteSealed(segment, segment.row, changes);
    else this.#head.rewrite(changes);
  }

  /** Whether a segment is unchanged since it was read. Callers check this after an `await`. */
  isCurrent(segment: Segment): boolean {
    return segment.row === null ? this.#head.isCurrent(segment) : this.isSealedCurrent(segment, segment.row);
  }

  /** The payloads of a segment, line by line; null: they are in R2. */
  payloadsOf(segment: Segment): SegmentPayloads | null {
    if (segment.row === null) return this.#head.payloads;
    return segment.row.cold === null ? this.readPayloads(segment) : null;
  }

  /** Deletes payloads that are in the store. */
  blank(segment: Segment, seqs: Iterable<number>): void {
    const stored = this.payloadsOf(segment);
    if (stored === null) throw new Error("payloads that are in R2 are deleted there");
    const payloads = [...stored];
    for (const seq of seqs) payloads[seq - segment.firstSeq] = null;
    if (segment.row !== null) this.writePayloads(segment.firstSeq, payloads, segment.lines);
    else this.#head.replacePayloads(payloads);
  }

  /** Drops some lines of a sealed segment. Only their numbers are left. */
  dropLines(segment: Segment, seqs: readonly number[]): void {
    const row = rowOfSealed(segment);
    for (const seq of seqs) this.#ids.remove(row, segment.facts(seq).admission.id, seq);
    if (row.cold === null) this.blank(segment, seqs);
    this.rewrite(segment, new Map(seqs.map((seq) => [seq, afterRetention(segment.facts(seq))] as const)));
    this.summariseAgain(segment.firstSeq);
  }

  drop(segment: Segment): void {
    const row = rowOfSealed(segment);
    for (const [index, id] of segment.lines.column("id").entries()) {
      this.#ids.remove(row, String(id), segment.firstSeq + index);
    }
    this.removeSegment(segment.firstSeq);
  }

  #load(): Head<Meta> {
    const head = new Head(this.sql, this.name, structuredClone(this.#emptyMeta));
    this.#ids.reload(head.lines.column("id").map(String));
    return head;
  }
}

function rowOfSealed({ row }: Segment): SegmentRow {
  if (row === null) throw new Error("open lines cannot be dropped");
  return row;
}

function conditionOf({ event, source, status, sinceMs, untilMs }: WalkFilter) {
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

/** The latest sealed segments among which the time in an id can place a line. Older lines are noted as late. */
const SPAN_SEGMENTS = 16;

/**
 * Finds lines by signal id. An id contains a time, and the row of a segment has the range of the times in its ids. The table
 * `late` lists lines whose id has no time, or a time before the latest segments.
 */
class IdSearch {
  readonly #sql: SqlStorage;
  readonly #log: Log;
  /** Range of the times in the ids of open lines, without late ids. */
  #openSpan: { first: number; last: number } | null = null;
  /** The first times of the last SPAN_SEGMENTS sealed segments, the latest at the end. */
  #beginnings: number[] = [];

  constructor(sql: SqlStorage, log: Log) {
    this.#sql = sql;
    this.#log = log;
  }

  add(id: string, seq: number): void {
    const ms = idMs(id);
    if (ms === null || ms < this.#lateBefore) {
      this.#sql.exec(`INSERT OR IGNORE INTO ${this.#log.name}_late (id, seq) VALUES (?, ?)`, id, seq);
    } else this.#extendSpan(ms);
  }

  /** Returns the range of the open lines when they are sealed. If all ids are late, the range is empty. */
  close(): { first: number; last: number } {
    const span = this.#openSpan ?? { first: this.#beginnings.at(-1) ?? 0, last: -1 };
    this.#openSpan = null;
    this.#beginnings.push(span.first);
    if (this.#beginnings.length > SPAN_SEGMENTS) this.#beginnings.shift();
    return span;
  }

  find(id: string): number | null {
    const openSeq = seqOfId(this.#log.open(), id);
    if (openSeq !== null) return openSeq;
    const ms = idMs(id);
    if (ms !== null) {
      const rows = this.#log.rows(
        "first_ms <= ?1 AND first_ms >= ?1 - ?2 AND last_ms >= ?1 ORDER BY first_ms DESC",
        ms,
        this.#log.meta.maxSpanMs,
      );
      for (const row of rows) {
        const seq = seqOfId(this.#log.sealed(row), id);
        if (seq !== null) return seq;
      }
    }
    const [late] = this.#sql.exec<{ seq: number }>(
      `SELECT seq FROM ${this.#log.name}_late WHERE id = ? ORDER BY seq DESC LIMIT 1`,
      id,
    );
    return late?.seq ?? null;
  }

  remove({ first_ms: first, last_ms: last }: SegmentRow, id: string, seq: number): void {
    const ms = idMs(id);
    if (ms !== null && ms >= first && ms <= last) return;
    this.#sql.exec(`DELETE FROM ${this.#log.name}_late WHERE id = ? AND seq = ?`, id, seq);
  }

  reload(openIds: readonly string[]): void {
    this.#beginnings = this.#log
      .rows("TRUE ORDER BY first_seq DESC LIMIT ?", SPAN_SEGMENTS)
      .map((row) => row.first_ms)
      .toReversed();
    this.#openSpan = null;
    for (const id of openIds) {
      const ms = idMs(id);
      if (ms !== null && ms >= this.#lateBefore) this.#extendSpan(ms);
    }
  }

  get #lateBefore(): number {
    return this.#beginnings.length < SPAN_SEGMENTS ? 0 : (this.#beginnings[0] ?? 0);
  }

  #extendSpan(ms: number): void {
    const span = (this.#openSpan ??= { first: ms, last: ms });
    span.first = Math.min(span.first, ms);
    span.last = Math.max(span.last, ms);
  }
}

function seqOfId({ lines, firstSeq }: Segment, id: string): number | null {
  const index = lines.column("id").lastIndexOf(id);
  return index === -1 ? null : firstSeq + index;
}

function idMs(id: string): number | null {
  return uuidv7Ms(id.slice(id.indexOf("_") + 1));
}

const HELD_ROWS = 16;

/** The log of held signals. It also knows when held signals expire, and in which order they are released. */
export class HeldLog extends Log {
  constructor(sql: SqlStorage) {
    super(sql, "held", { maxSpanMs: 0 });
  }

  /** When the period of the next held lines ends, in milliseconds since 1970; null: nothing is held. */
  nextEndMs(): number | null {
    const { at } = this.sql
      .exec<{ at: number | null }>("SELECT min(period_end) AS at FROM held_segments WHERE instr(statuses, 'h') > 0")
      .one();
    const nextMs = Math.min(at ?? Number.POSITIVE_INFINITY, this.#openEndMs());
    return nextMs === Number.POSITIVE_INFINITY ? null : nextMs;
  }

  /** A segment with held lines whose period has ended. It can have other lines too. */
  ended(nowMs: number): Segment | null {
    if (this.#openEndMs() <= nowMs) return this.open();
    const [row] = this.rows("instr(statuses, 'h') > 0 AND period_end <= ? ORDER BY period_end LIMIT 1", nowMs);
    return row === undefined ? null : this.sealed(row);
  }

  /** Sealed segments that may have held lines of ordinals after `after`, by their first ordinals. */
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

  #openEndMs(): number {
    const { lines } = this.open();
    const ends = lines.column("periodEnd");
    return lines
      .column("status")
      .reduce<number>(
        (endMs, status, index) => (statusOf(status) === "held" ? Math.min(endMs, Number(ends[index])) : endMs),
        Number.POSITIVE_INFINITY,
      );
  }
}
