/**
 * The log (docs/signal-store.md): lines in the order of recording, each known by its number, `seq`. New ones
 * are open, in the head; hundreds at a time are sealed into a segment. What is asked of it: append, read, find by id, walk,
 * rewrite, drop. How lines are kept is nobody else's business.
 *
 * Everything here is synchronous and part of the caller's transaction; `flush` writes the head, once a transaction. Where
 * a transaction is taken back, what is in memory is wrong: then `reload`.
 */
import { uuidv7Ms } from "../../platform/uuidv7.ts";
import { CACHED_FACTS, CACHED_PAYLOADS, SPAN_SEGMENTS } from "../../limits.ts";
import { Lru } from "../../platform/lru.ts";
import { Head, textOfCells } from "./head.ts";
import type { LogMeta, LogName } from "./head.ts";
import { emptied, encodeFacts, isEmptied, statusLetter } from "./line.ts";
import type { Facts, Line, LineStatus } from "./line.ts";
import { packLines, packPayloads, unpackLines, unpackPayloads } from "./packing.ts";
import { HASH_BYTES, Segment, groupMark, statusLetters, summarise } from "./segment.ts";
import type { Lines } from "./lines.ts";
import type { SegmentRow } from "./segment.ts";

/** Which segments a walk is to stop at; there may be other lines in them. */
export interface Wanted {
  event?: string | undefined;
  source?: string | undefined;
  status?: LineStatus | undefined;
  /** Received not before, and before: milliseconds since 1970. */
  sinceMs?: number | undefined;
  untilMs?: number | undefined;
}

/** Rows of segments that a walk reads at a time: few at first, since most walks end soon. */
const WALK_SEGMENTS = { first: 4, most: 64 } as const;
const COLUMNS = `first_seq, last_seq, first_ms, last_ms, received_from, received_to, ordinal_from, ordinal_to, period_end,
  statuses, cold, cold_offset, cold_bytes, groups`;

export class Log<Meta extends LogMeta = LogMeta> {
  readonly #sql: SqlStorage;
  readonly name: LogName;
  readonly #empty: Meta;
  readonly #facts = new Lru<number, Segment>(CACHED_FACTS);
  readonly #payloads = new Lru<number, (string | null)[]>(CACHED_PAYLOADS);
  #head: Head<Meta>;
  /** Of the open lines whose ids tell a time that is not late. */
  #openSpan: { first: number; last: number } | null = null;
  /** Where the last SPAN_SEGMENTS sealed segments begin in time, the latest last. */
  #beginnings: number[] = [];

  constructor(sql: SqlStorage, name: LogName, empty: Meta) {
    this.#sql = sql;
    this.name = name;
    this.#empty = empty;
    this.#head = new Head(sql, name, structuredClone(empty));
    this.#loadSpans();
  }

  /** What is kept in the head besides lines. It may be changed; `flush` writes it. */
  get meta(): Meta {
    return this.#head.meta;
  }

  /** Of the line that comes next. */
  get nextSeq(): number {
    return this.#head.nextSeq;
  }

  /** Of the oldest line; `nextSeq` where there is none. */
  get firstSeq(): number {
    const [row] = this.#sql.exec<{ first: number | null }>(`SELECT min(first_seq) AS first FROM ${this.name}_segments`);
    return row?.first ?? this.#head.firstSeq;
  }

  /** @param hash HASH_BYTES by which others are found to be duplicates of it; null where there are none. */
  append({ facts, payload }: Line, hash: Uint8Array | null): number {
    const cells = encodeFacts(facts);
    const text = textOfCells(cells);
    if (this.#head.isFullFor(text, payload)) this.seal();
    const seq = this.#head.push(cells, text, payload, hash);
    const { id } = facts.admission;
    const ms = idMs(id);
    if (ms === null || ms < this.#lateBefore) {
      this.#sql.exec(`INSERT OR IGNORE INTO ${this.name}_late (id, seq) VALUES (?, ?)`, id, seq);
    } else this.#extendSpan(ms);
    return seq;
  }

  /** Makes a segment of what is open. */
  seal(): void {
    const head = this.#head;
    if (head.lines.length === 0) return;
    const { firstSeq, lines } = head;
    const known = summarise(lines);
    // Where all are late there is no span: none of them is looked for in it.
    const { first, last } = this.#openSpan ?? { first: this.#beginnings.at(-1) ?? 0, last: -1 };
    head.meta.maxSpanMs = Math.max(head.meta.maxSpanMs, last - first);
    this.#sql.exec(
      `INSERT INTO ${this.name}_segments (first_seq, last_seq, first_ms, last_ms, received_from, received_to, ordinal_from,
         ordinal_to, period_end, statuses, groups) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      firstSeq,
      head.nextSeq - 1,
      first,
      last,
      known.received_from,
      known.received_to,
      known.ordinal_from,
      known.ordinal_to,
      known.period_end,
      known.statuses,
      ...blobs(known.groups),
    );
    this.#sql.exec(
      `INSERT INTO ${this.name}_facts (first_seq, version, hashes, facts) VALUES (?, 0, ?, ?)`,
      firstSeq,
      ...blobs(head.hashBytes(), packLines(lines)),
    );
    if (head.payloads.some((payload) => payload !== null)) this.#writePayloads(firstSeq, head.payloads, lines);
    head.clear();
    this.#openSpan = null;
    this.#beginnings.push(first);
    if (this.#beginnings.length > SPAN_SEGMENTS) this.#beginnings.shift();
  }

  /** Writes the head, if anything in it has changed. */
  flush(): void {
    this.#head.write();
  }

  /** Forgets what is in memory. */
  reload(): void {
    this.#facts.clear();
    this.#payloads.clear();
    this.#head = new Head(this.#sql, this.name, structuredClone(this.#empty));
    this.#loadSpans();
  }

  /** Null where there is no such line, or none any more. */
  read(seq: number): Facts | null {
    const facts = this.segmentOf(seq)?.facts(seq) ?? null;
    return facts === null || isEmptied(facts) ? null : facts;
  }

  /** The segment that has this line. */
  segmentOf(seq: number): Segment | null {
    if (seq >= this.#head.firstSeq) return seq < this.#head.nextSeq ? this.#open() : null;
    const [row] = this.#sql.exec<SegmentRow>(
      `SELECT ${COLUMNS} FROM ${this.name}_segments WHERE first_seq <= ? ORDER BY first_seq DESC LIMIT 1`,
      seq,
    );
    return row === undefined || row.last_seq < seq ? null : this.#sealed(row);
  }

  /** The segments of these lines, each with those that it has, in ascending order. Lines that are gone are left out. */
  *segmentsOf(seqs: Iterable<number>): Generator<{ segment: Segment; seqs: number[] }> {
    const sorted = [...new Set(seqs)].sort((one, other) => one - other);
    let found: { segment: Segment; seqs: number[] } | null = null;
    for (const seq of sorted) {
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

  /** Facts of these lines by their numbers; those that are gone are missing. */
  readAll(seqs: Iterable<number>): Map<number, Facts> {
    const facts = new Map<number, Facts>();
    for (const { segment, seqs: here } of this.segmentsOf(seqs)) {
      for (const seq of here) {
        const found = segment.facts(seq);
        if (!isEmptied(found)) facts.set(seq, found);
      }
    }
    return facts;
  }

  /** By the signal's id. */
  find(id: string): { seq: number; facts: Facts } | null {
    const seq = this.#findSeq(id);
    const facts = seq === null ? null : this.read(seq);
    return seq === null || facts === null ? null : { seq, facts };
  }

  /** Segments from the latest line before `before` back to the oldest. */
  *walkBack(before: number, wanted: Wanted = {}): Generator<Segment> {
    const open = this.#open();
    if (before > open.firstSeq && open.length > 0) yield open;
    let end = Math.min(before, open.firstSeq);
    for (let limit: number = WALK_SEGMENTS.first; ; limit = Math.min(limit * 4, WALK_SEGMENTS.most)) {
      const rows = this.#rows(`first_seq < ?1 AND ${conditionOf(wanted)}`, "DESC", limit, end, ...valuesOf(wanted));
      for (const row of rows) yield this.#sealed(row);
      if (rows.length < limit) return;
      end = rows.at(-1)?.first_seq ?? 0;
    }
  }

  /** Segments from the first line after `after` on. */
  *walk(after: number, wanted: Wanted = {}): Generator<Segment> {
    let last = after;
    for (let limit: number = WALK_SEGMENTS.first; ; limit = Math.min(limit * 4, WALK_SEGMENTS.most)) {
      // By the primary key: the segment that has `after` begins no more than so many lines before.
      const condition = `last_seq > ?1 AND first_seq > ?1 - ${MOST_LINES} AND ${conditionOf(wanted)}`;
      const rows = this.#rows(condition, "ASC", limit, last, ...valuesOf(wanted));
      for (const row of rows) yield this.#sealed(row);
      if (rows.length < limit) break;
      last = rows.at(-1)?.last_seq ?? last;
    }
    const open = this.#open();
    if (open.length > 0 && open.lastSeq > after) yield open;
  }

  /** Rows of sealed segments for which a condition holds, in their order. Part of statements: never what was sent. */
  rows(condition: string, ...values: SqlStorageValue[]): SegmentRow[] {
    return this.#sql
      .exec<SegmentRow>(`SELECT ${COLUMNS} FROM ${this.name}_segments WHERE ${condition}`, ...values)
      .toArray();
  }

  /** The segment of such a row, and of what is open. */
  sealed(row: SegmentRow): Segment {
    return this.#sealed(row);
  }

  open(): Segment {
    return this.#open();
  }

  /** HASH_BYTES of each line of a segment. */
  hashesOf(firstSeq: number): Uint8Array {
    if (firstSeq === this.#head.firstSeq) return this.#head.hashBytes();
    const [row] = this.#sql.exec<{ hashes: ArrayBuffer }>(
      `SELECT hashes FROM ${this.name}_facts WHERE first_seq = ?`,
      firstSeq,
    );
    return new Uint8Array(row?.hashes ?? new ArrayBuffer());
  }

  /**
   * The same of segments with lines received in that time, one after the other, since there may be very many; and of what is
   * open, which may have been received at any time.
   */
  *hashesReceived(
    fromMs: number,
    toMs = Number.MAX_SAFE_INTEGER,
  ): Generator<{ firstSeq: number; receivedToMs: number; hashes: Uint8Array }> {
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

  /**
   * What became of some lines of a segment has changed. A line that is no original any more loses its hash.
   *
   * @throws when the segment is not as it was read.
   */
  rewrite(segment: Segment, changes: ReadonlyMap<number, Facts>): void {
    if (changes.size === 0) return;
    const { firstSeq, row } = segment;
    if (row === null) return this.#rewriteOpen(changes);
    const lines = segment.lines.with(byIndex(changes, firstSeq));
    const hashes = this.hashesOf(firstSeq);
    for (const [seq, facts] of changes) {
      const at = (seq - firstSeq) * HASH_BYTES;
      if (!isOriginal(facts)) hashes.fill(0, at, at + HASH_BYTES);
    }
    const version = segment.version + 1;
    const { rowsWritten } = this.#sql.exec(
      `UPDATE ${this.name}_facts SET version = ?1, hashes = ?2, facts = ?3 WHERE first_seq = ?4 AND version = ?1 - 1`,
      version,
      ...blobs(hashes, packLines(lines)),
      firstSeq,
    );
    if (rowsWritten === 0) throw new Error(`the segment of ${firstSeq} has been rewritten meanwhile`);
    const statuses = statusLetters(lines);
    if (statuses !== row.statuses) {
      this.#sql.exec(`UPDATE ${this.name}_segments SET statuses = ? WHERE first_seq = ?`, statuses, firstSeq);
    }
    this.#facts.set(firstSeq, new Segment(firstSeq, lines, version, { ...row, statuses }));
  }

  /** Whether a segment is still as it was read, before an `await` for instance. */
  isCurrent(segment: Segment): boolean {
    const { firstSeq, row, version, lines } = segment;
    // Lines that are open change in place, and others are added to them.
    if (row === null) return firstSeq === this.#head.firstSeq && lines === this.#head.lines;
    const [now] = this.#sql.exec<{ version: number; cold: string | null }>(
      `SELECT version, cold FROM ${this.name}_segments JOIN ${this.name}_facts USING (first_seq) WHERE first_seq = ?`,
      firstSeq,
    );
    return now !== undefined && now.version === version && now.cold === row.cold;
  }

  /** Payloads of a segment that are here, line by line; null: they are in R2. */
  payloadsOf(segment: Segment): readonly (string | null)[] | null {
    if (segment.row === null) return this.#head.payloads;
    if (segment.row.cold !== null) return null;
    const { firstSeq } = segment;
    let payloads = this.#payloads.get(firstSeq);
    if (payloads === undefined) {
      const [row] = this.#sql.exec<{ payloads: ArrayBuffer }>(
        `SELECT payloads FROM ${this.name}_payloads WHERE first_seq = ?`,
        firstSeq,
      );
      payloads = row === undefined ? segment.seqs().map(() => null) : unpackPayloads(row.payloads, segment.lines);
      this.#payloads.set(firstSeq, payloads);
    }
    return payloads;
  }

  /** Deletes payloads that are here, for good. */
  blank(segment: Segment, seqs: Iterable<number>): void {
    const payloads = [...(this.payloadsOf(segment) ?? unreachable())];
    for (const seq of seqs) payloads[seq - segment.firstSeq] = null;
    if (segment.row === null) {
      this.#head.payloads = payloads;
      this.#head.changed();
      return;
    }
    const { firstSeq } = segment;
    this.#payloads.delete(firstSeq);
    if (payloads.every((payload) => payload === null)) this.#deletePayloads(firstSeq);
    else this.#writePayloads(firstSeq, payloads, segment.lines);
  }

  /** The compressed payloads of a sealed segment, as they are moved to R2; null: there are none here. */
  packedPayloads(firstSeq: number): ArrayBuffer | null {
    const [row] = this.#sql.exec<{ payloads: ArrayBuffer }>(
      `SELECT payloads FROM ${this.name}_payloads WHERE first_seq = ?`,
      firstSeq,
    );
    return row?.payloads ?? null;
  }

  /** The payloads of a segment are in R2 now, there; or in another place than before. */
  movePayloads(firstSeq: number, cold: { key: string; offset: number; bytes: number }): void {
    this.#sql.exec(
      `UPDATE ${this.name}_segments SET cold = ?, cold_offset = ?, cold_bytes = ? WHERE first_seq = ?`,
      cold.key,
      cold.offset,
      cold.bytes,
      firstSeq,
    );
    this.#facts.delete(firstSeq);
    this.#deletePayloads(firstSeq);
  }

  /** Deletes lines of a sealed segment that has others: no id finds them, and nothing is left but their places. */
  forget(segment: Segment, seqs: readonly number[]): void {
    const { row } = segment;
    if (row === null) throw new Error("open lines cannot be forgotten");
    for (const seq of seqs) this.#deleteLate(row, segment.facts(seq).admission.id, seq);
    if (row.cold === null) this.blank(segment, seqs);
    this.rewrite(segment, new Map(seqs.map((seq) => [seq, emptied(segment.facts(seq))] as const)));
    this.summariseAgain(segment.firstSeq);
  }

  /** Says in the row of a sealed segment what its lines are now; until then it also says what they were. */
  summariseAgain(firstSeq: number): void {
    const [row] = this.rows("first_seq = ?", firstSeq);
    if (row === undefined) throw new Error(`there is no segment of ${firstSeq}`);
    const segment = this.#sealed(row);
    const columns = Object.entries(summarise(segment.lines));
    this.#sql.exec(
      `UPDATE ${this.name}_segments SET ${columns.map(([column]) => `${column} = ?`).join(", ")} WHERE first_seq = ?`,
      ...(columns.map(([, value]) => value) as SqlStorageValue[]),
      firstSeq,
    );
    const [now = row] = this.rows("first_seq = ?", firstSeq);
    this.#facts.set(firstSeq, new Segment(firstSeq, segment.lines, segment.version, now));
  }

  /** Deletes a sealed segment with all its lines. */
  drop(segment: Segment): void {
    const { firstSeq, row } = segment;
    if (row === null) throw new Error("open lines cannot be dropped");
    for (const [index, id] of segment.lines.column("id").entries()) {
      this.#deleteLate(row, String(id), firstSeq + index);
    }
    this.#sql.exec(`DELETE FROM ${this.name}_segments WHERE first_seq = ?`, firstSeq);
    this.#sql.exec(`DELETE FROM ${this.name}_facts WHERE first_seq = ?`, firstSeq);
    this.#deletePayloads(firstSeq);
    this.#facts.delete(firstSeq);
  }

  #deleteLate({ first_ms: first, last_ms: last }: SegmentRow, id: string, seq: number): void {
    const ms = idMs(id);
    if (ms !== null && ms >= first && ms <= last) return;
    this.#sql.exec(`DELETE FROM ${this.name}_late WHERE id = ? AND seq = ?`, id, seq);
  }

  #rewriteOpen(changes: ReadonlyMap<number, Facts>): void {
    const head = this.#head;
    const { firstSeq } = head;
    for (const [seq, facts] of changes) if (!isOriginal(facts)) head.hashes[seq - firstSeq] = null;
    head.change(byIndex(changes, firstSeq));
  }

  #open(): Segment {
    return new Segment(this.#head.firstSeq, this.#head.lines, 0, null);
  }

  #sealed(row: SegmentRow): Segment {
    const known = this.#facts.get(row.first_seq);
    if (known !== undefined) return known;
    const [stored] = this.#sql.exec<{ version: number; facts: ArrayBuffer }>(
      `SELECT version, facts FROM ${this.name}_facts WHERE first_seq = ?`,
      row.first_seq,
    );
    if (stored === undefined) throw new Error(`the segment of ${row.first_seq} has no lines`);
    const segment = new Segment(row.first_seq, unpackLines(stored.facts), stored.version, row);
    this.#facts.set(row.first_seq, segment);
    return segment;
  }

  #findSeq(id: string): number | null {
    const lineIn = ({ lines, firstSeq }: Segment): number | null => {
      const index = lines.column("id").lastIndexOf(id);
      return index === -1 ? null : firstSeq + index;
    };
    const open = lineIn(this.#open());
    if (open !== null) return open;
    const ms = idMs(id);
    if (ms !== null) {
      const rows = this.rows(
        "first_ms <= ?1 AND first_ms >= ?1 - ?2 AND last_ms >= ?1 ORDER BY first_ms DESC",
        ms,
        this.meta.maxSpanMs,
      );
      for (const row of rows) {
        const seq = lineIn(this.#sealed(row));
        if (seq !== null) return seq;
      }
    }
    const late = this.#sql.exec<{ seq: number }>(
      `SELECT seq FROM ${this.name}_late WHERE id = ? ORDER BY seq DESC LIMIT 1`,
      id,
    );
    return late.toArray()[0]?.seq ?? null;
  }

  #rows(condition: string, order: "ASC" | "DESC", limit: number, ...values: SqlStorageValue[]): SegmentRow[] {
    return this.rows(`${condition} ORDER BY first_seq ${order} LIMIT ${limit}`, ...values);
  }

  get #lateBefore(): number {
    return this.#beginnings.length < SPAN_SEGMENTS ? 0 : (this.#beginnings[0] ?? 0);
  }

  #extendSpan(ms: number): void {
    const span = (this.#openSpan ??= { first: ms, last: ms });
    span.first = Math.min(span.first, ms);
    span.last = Math.max(span.last, ms);
  }

  #loadSpans(): void {
    this.#beginnings = this.#sql
      .exec<{ first_ms: number }>(
        `SELECT first_ms FROM ${this.name}_segments ORDER BY first_seq DESC LIMIT ${SPAN_SEGMENTS}`,
      )
      .toArray()
      .map((row) => row.first_ms)
      .toReversed();
    this.#openSpan = null;
    for (const id of this.#head.lines.column("id")) {
      const ms = idMs(String(id));
      if (ms !== null && ms >= this.#lateBefore) this.#extendSpan(ms);
    }
  }

  #writePayloads(firstSeq: number, payloads: readonly (string | null)[], lines: Lines): void {
    this.#sql.exec(
      `INSERT OR REPLACE INTO ${this.name}_payloads (first_seq, payloads) VALUES (?, ?)`,
      firstSeq,
      ...blobs(packPayloads(payloads, lines)),
    );
  }

  #deletePayloads(firstSeq: number): void {
    this.#payloads.delete(firstSeq);
    this.#sql.exec(`DELETE FROM ${this.name}_payloads WHERE first_seq = ?`, firstSeq);
  }
}

/** More than a segment ever has. */
const MOST_LINES = 1_024;

/** Whether others can be duplicates of it. */
export function isOriginal({ status, erasedAtMs }: Facts): boolean {
  return erasedAtMs === null && (status === "processed" || status === "anonymous");
}

/** Of a segment's row, with its values from the second parameter on. */
function conditionOf(wanted: Wanted): string {
  const conditions = conditionsOf(wanted).map(([condition], index) => condition.replace("?", `?${index + 2}`));
  return conditions.length === 0 ? "TRUE" : conditions.join(" AND ");
}

function valuesOf(wanted: Wanted): SqlStorageValue[] {
  return conditionsOf(wanted).map(([, value]) => value);
}

function conditionsOf({ event, source, status, sinceMs, untilMs }: Wanted): [condition: string, SqlStorageValue][] {
  const mark = event === undefined ? [] : blobs(groupMark(event, source));
  return [
    ...mark.map((value): [string, SqlStorageValue] => ["instr(groups, ?) > 0", value]),
    ...pair("instr(statuses, ?) > 0", status === undefined ? null : statusLetter(status)),
    ...pair("received_to >= ?", sinceMs ?? null),
    ...pair("received_from < ?", untilMs ?? null),
  ];
}

function pair(condition: string, value: SqlStorageValue): [string, SqlStorageValue][] {
  return value === null ? [] : [[condition, value]];
}

/** When the edge gave the id; null where it tells no time. */
function idMs(id: string): number | null {
  return uuidv7Ms(id.slice(id.indexOf("_") + 1));
}

function byIndex(changes: ReadonlyMap<number, Facts>, firstSeq: number): Map<number, Facts> {
  return new Map([...changes].map(([seq, facts]) => [seq - firstSeq, facts] as const));
}

/** The platform's types know no views of buffers, the platform does. */
function blobs(...bytes: Uint8Array[]): SqlStorageValue[] {
  return bytes as unknown as SqlStorageValue[];
}

function unreachable(): never {
  throw new Error("a line that was just found is gone");
}
