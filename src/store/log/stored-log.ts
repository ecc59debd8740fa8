/**
 * The log in the tables of the Signal Store. New lines are open and stand in the head. Hundreds of lines at a time are sealed into a
 * segment: when the head is full, before the first line of another UTC day, and when their payloads are old enough for R2. So no segment
 * spans weeks.
 */
import { dayOf } from "../../domain/duration.ts";
import { uuidv7Ms } from "../../platform/ids.ts";
import { COLD_AFTER_MS, ColdStorage, type ColdStorageOptions } from "./cold.ts";
import { encodeFacts, statusOf } from "./columns.ts";
import { Head, textOfCells } from "./head.ts";
import { toSqlBlob } from "../../platform/sql-row.ts";
import { isDropped, keepsPayload, type SignalFacts, type Line } from "./line.ts";
import { Originals } from "./originals.ts";
import {
  groupMark,
  Segment,
  segmentOf,
  statusLetter,
  StoredPortion,
  type Condition,
  type SegmentHashes,
  Segments,
} from "./segments.ts";
import type {
  DuplicateCandidate,
  Earliest,
  LinesOfPortion,
  SignalLogName,
  NumberedLine,
  Original,
  Payloads,
  Portion,
  SignalLog,
  WalkFrom,
  WantedLines,
} from "./signal-log.ts";

/** Bytes of the head besides lines: changes of 270 event groups, or a day of 1,000 mapping rules. Each batch writes it as JSON in 0.3 ms. */
export const HEAD_META_MAX_BYTES = 80 * 1024;
/** A signal id is searched by its time in this number of latest sealed segments. Lines with earlier ids are listed as late. */
const SPAN_SEGMENTS = 16;

interface SignalLogMeta {
  /** The longest time range of a segment: how far around its time a signal id is searched. */
  maxSpanMs: number;
}

export interface StoredSignalLogOptions extends ColdStorageOptions {
  name: SignalLogName;
  /** Meta data of an empty log. */
  emptyMeta: object;
  /** Moves meta data to its own rows. */
  makeRoom: () => void;
}

export class StoredSignalLog implements SignalLog {
  readonly name: SignalLogName;
  readonly #storage: DurableObjectStorage;
  readonly #sql: SqlStorage;
  readonly #emptyMeta: SignalLogMeta;
  readonly #makeRoom: () => void;
  readonly #announce: (atMs: number) => void;
  readonly #segments: Segments;
  readonly #originals: Originals;
  readonly #cold: ColdStorage | null;
  #head: Head<SignalLogMeta>;
  /** The first times of the last SPAN_SEGMENTS sealed segments, the latest first. */
  #spanStarts: number[] = [];

  constructor(
    storage: DurableObjectStorage,
    { name, emptyMeta, makeRoom, announce, objects, isHalfFull }: StoredSignalLogOptions,
  ) {
    this.name = name;
    this.#storage = storage;
    this.#sql = storage.sql;
    this.#emptyMeta = { ...emptyMeta, maxSpanMs: 0 };
    this.#makeRoom = makeRoom;
    this.#announce = announce;
    this.#segments = new Segments(storage.sql, name);
    // Held signals leave within a billing period, so their payloads stay.
    this.#cold = name === "held" ? null : new ColdStorage(storage, this.#segments, { announce, objects, isHalfFull });
    this.#originals = new Originals({
      segmentOf: (seq) => this.#segmentOf(seq),
      hashesOf: (firstSeq) => this.#hashesOf(firstSeq),
      hashesReceived: (fromMs, toMs) => this.#hashesReceived(fromMs, toMs),
    });
    this.#head = this.#load();
  }

  reload(): void {
    this.#segments.forget();
    this.#head = this.#load();
  }

  #load(): Head<SignalLogMeta> {
    this.#readSpanStarts();
    return new Head(this.#sql, this.name, structuredClone(this.#emptyMeta));
  }

  get meta(): SignalLogMeta {
    return this.#head.meta;
  }

  get nextSeq(): number {
    return this.#head.nextSeq;
  }

  get firstSeq(): number {
    return this.#segments.rows("TRUE ORDER BY first_seq LIMIT 1")[0]?.first_seq ?? this.#head.firstSeq;
  }

  get isClearing(): boolean {
    return this.#cold?.isClearing ?? false;
  }

  get remembersSinceMs(): number {
    return this.#originals.coveredSinceMs;
  }

  append({ facts, payload }: Line, hash: Uint8Array | null): number {
    const cells = encodeFacts(facts);
    const text = textOfCells(cells);
    const head = this.#head;
    const isOtherDay = head.lines.length > 0 && dayOf(head.firstRecordedMs) !== dayOf(facts.recordedAtMs);
    if (isOtherDay || head.isFullFor(text, payload)) this.seal();
    const seq = head.push(cells, text, payload, hash);
    const { id } = facts.admission;
    if (this.#isLate(id)) {
      this.#sql.exec(`INSERT OR IGNORE INTO ${this.name}_late (id, seq) VALUES (?, ?)`, id, seq);
    }
    if (hash !== null) this.#originals.add(hash, seq, facts.recordedAtMs);
    if (payload !== null) this.#announce(facts.admission.receivedAtMs + COLD_AFTER_MS);
    return seq;
  }

  seal(): void {
    const head = this.#head;
    if (head.lines.length === 0) return;
    const { firstSeq, lines, payloads } = head;
    const span = this.#spanOf(lines.column("id").map(String));
    head.meta.maxSpanMs = Math.max(head.meta.maxSpanMs, span[1] - span[0]);
    this.#segments.insert(firstSeq, lines, span, head.hashBytes());
    if (payloads.some((payload) => payload !== null)) {
      this.#segments.writePayloads(firstSeq, lines, payloads);
      this.#announce(Math.max(...lines.column("receivedAt").map(Number)) + COLD_AFTER_MS);
    }
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

  find(id: string): NumberedLine | null {
    const seq = this.#seqOf(id);
    const segment = seq === null ? null : this.#segmentOf(seq);
    return seq === null || segment === null || segment.isGone(seq) ? null : { seq, facts: segment.facts(seq) };
  }

  *read(seqs: Iterable<number>): Generator<Portion> {
    let [segment, wanted]: [Segment | null, number[]] = [null, []];
    for (const seq of [...new Set(seqs)].sort((a, b) => a - b)) {
      if (segment === null || seq > segment.lastSeq) {
        if (segment !== null && wanted.length > 0) yield new StoredPortion(segment, wanted);
        [segment, wanted] = [this.#segmentOf(seq), []];
      }
      if (segment !== null && !segment.isGone(seq)) wanted.push(seq);
    }
    if (segment !== null && wanted.length > 0) yield new StoredPortion(segment, wanted);
  }

  *walk(from: WalkFrom, wanted: WantedLines = {}): Generator<Portion> {
    for (const segment of this.#walkSegments(from, wanted)) {
      const seqs = segment.seqsOf(wanted);
      if ("after" in from) yield new StoredPortion(segment, after(seqs, from.after));
      else yield new StoredPortion(segment, "before" in from ? before(seqs, from.before) : seqs);
    }
  }

  *#walkSegments(from: WalkFrom, wanted: WantedLines): Generator<Segment> {
    const condition = conditionOf(wanted);
    if ("after" in from) {
      const start = this.#segments.rowOf(from.after + 1)?.first_seq ?? from.after + 1;
      yield* this.#segments.walk(start - 1, "ASC", condition);
      // Read the open lines last: a long walk may span several batches.
      const open = this.#open();
      if (open !== null && open.lastSeq > from.after && this.#mayHave(open, wanted)) yield open;
      return;
    }
    const open = this.#open();
    if ("before" in from) {
      if (open !== null && from.before > open.firstSeq && this.#mayHave(open, wanted)) yield open;
      yield* this.#segments.walk(Math.min(from.before, this.#head.firstSeq), "DESC", condition);
      return;
    }
    if (open !== null) yield open;
    yield* this.#segments.byOrdinal(from.afterOrdinal);
  }

  /** Only for times of receipt: the other conditions cost more than reading the open lines. */
  #mayHave({ lines }: Segment, { received }: WantedLines): boolean {
    if (received === undefined) return true;
    const times = lines.column("receivedAt").map(Number);
    return Math.max(...times) < received.wholly || Math.min(...times) < received.partly;
  }

  findOriginals(
    candidates: readonly DuplicateCandidate[],
    nowMs: number,
    isKept?: (facts: SignalFacts) => boolean,
  ): (Original | null)[] {
    return this.#originals.find(candidates, nowMs, isKept);
  }

  earliest(): Earliest {
    const sealed = this.#segments.oldest();
    const { lines } = this.#head;
    const received = lines.column("receivedAt").map(Number);
    const statuses = lines.column("status");
    const ends = lines.column("periodEnd").filter((_, index) => statusOf(statuses[index] ?? 0) === "held");
    const held = this.name === "held" ? "instr(statuses, 'h') > 0 ORDER BY period_end LIMIT 1" : null;
    const [row] = held === null ? [] : this.#segments.rows(held);
    return {
      receivedMs: earliestOf([sealed.receivedMs ?? [], received].flat()),
      wholeMs: earliestOf([sealed.wholeMs ?? [], received.length === 0 ? [] : Math.max(...received)].flat()),
      periodEndMs: earliestOf([row?.period_end ?? [], ends.map(Number)].flat()),
    };
  }

  /** @param indexes as in `unpackPayloads`. */
  payloadsOf(portion: Portion, indexes?: readonly number[]): readonly (string | null)[] | null {
    const segment = segmentOf(portion);
    const { payloads } = this.#head;
    if (segment.row === null) return indexes?.map((index) => payloads[index] ?? null) ?? payloads;
    return portion.payloads === "in_r2" ? null : this.#segments.payloadsOf(segment, indexes);
  }

  async readPayloads(wanted: Iterable<LinesOfPortion>): Promise<Payloads> {
    const payloads = new Map<number, string | null>();
    const inR2: { segment: Segment; seqs: readonly number[] }[] = [];
    for (const { portion, seqs } of wanted) {
      if (seqs.length === 0) continue;
      const stored = this.payloadsOf(
        portion,
        seqs.map((seq) => seq - portion.firstSeq),
      );
      if (stored === null) inR2.push({ segment: segmentOf(portion), seqs });
      else for (const [at, seq] of seqs.entries()) payloads.set(seq, stored[at] ?? null);
    }
    for (const [seq, payload] of (await this.#cold?.read(inR2)) ?? []) payloads.set(seq, payload);
    return payloads;
  }

  isCurrent(portion: Portion): boolean {
    const segment = segmentOf(portion);
    if (segment.row !== null) return this.#segments.isCurrent(segment);
    return segment.firstSeq === this.#head.firstSeq && segment.lines === this.#head.lines;
  }

  rewrite(portion: Portion, changes: ReadonlyMap<number, SignalFacts>): number {
    if (changes.size === 0) return 0;
    let segment = segmentOf(portion);
    if (segment.row === null) {
      if (!this.isCurrent(portion)) throw new Error("the open lines have been rewritten or sealed meanwhile");
      if (![...changes.values()].some(isDropped)) {
        this.#blankOpen(segment, changes);
        this.#head.rewrite(changes);
        return 0;
      }
      this.seal();
      segment = this.#segmentOf(segment.firstSeq) ?? segment;
    }
    return this.#rewriteSealed(segment, changes);
  }

  #blankOpen({ firstSeq }: Segment, changes: ReadonlyMap<number, SignalFacts>): void {
    const gone = [...changes].filter(([, facts]) => !keepsPayload(facts)).map(([seq]) => seq - firstSeq);
    if (!gone.some((index) => this.#head.payloads[index] !== null)) return;
    this.#head.replacePayloads(this.#head.payloads.map((payload, index) => (gone.includes(index) ? null : payload)));
  }

  #rewriteSealed(segment: Segment, changes: ReadonlyMap<number, SignalFacts>): number {
    const isDropping = [...changes].some(([seq, facts]) => isDropped(facts) && !segment.isGone(seq));
    if (isDropping) {
      for (const [seq, facts] of changes) if (isDropped(facts)) this.#removeLate(segment, seq);
      const left = segment.seqsOf({}).filter((seq) => !isDropped(changes.get(seq) ?? segment.facts(seq)));
      if (left.length === 0) {
        this.#segments.drop(segment);
        this.#cold?.removeIfUnused(segment);
        this.#announceWork();
        return 0;
      }
    }
    const gone = new Set<number>();
    for (const [seq, facts] of changes) {
      if (!keepsPayload(facts) && keepsPayload(segment.facts(seq))) gone.add(seq);
    }
    let objects = 0;
    if (gone.size > 0 && typeof segment.row?.cold === "string") objects = this.#cold?.clear(segment) ?? 0;
    else if (gone.size > 0) this.#blank(segment, gone);
    const rewritten = this.#segments.rewrite(segment, changes);
    // Lines that are dropped, and held lines that leave, change the bounds in the row.
    if (isDropping || this.name === "held") this.#segments.summariseAgain(rewritten);
    return objects;
  }

  #blank(segment: Segment, gone: ReadonlySet<number>): void {
    const { firstSeq, lines } = segment;
    const payloads = this.#segments.payloadsOf(segment);
    const left = payloads.map((payload, index) => (gone.has(firstSeq + index) ? null : payload));
    this.#segments.writePayloads(firstSeq, lines, left);
    this.#announceWork();
  }

  /** Without the first payloads that wait for R2, the next may be due earlier: a delayed signal is recorded after younger ones. */
  #announceWork(): void {
    const dueMs = this.workMs(0);
    if (dueMs !== null) this.#announce(dueMs);
  }

  clearDropped(): void {
    this.#cold?.clearDropped();
  }

  workMs(nowMs: number): number | null {
    if (this.#cold === null) return null;
    return earliestOf([this.#openUntilMs ?? [], this.#cold.workMs(nowMs) ?? []].flat());
  }

  async work(nowMs: number): Promise<void> {
    if ((this.#openUntilMs ?? Number.POSITIVE_INFINITY) <= nowMs) this.#sealAndFlush();
    await this.#cold?.work(nowMs);
  }

  #sealAndFlush(): void {
    try {
      this.#storage.transactionSync(() => {
        this.seal();
        this.flush();
      });
    } catch (error) {
      this.reload();
      throw error;
    }
  }

  /** When the payloads of the open lines are old enough for R2; null: there are none. */
  get #openUntilMs(): number | null {
    const { lines, payloads } = this.#head;
    if (payloads.every((payload) => payload === null)) return null;
    return Math.max(...lines.column("receivedAt").map(Number)) + COLD_AFTER_MS;
  }

  async markLostPayloads(nowMs: number): Promise<number> {
    return (await this.#cold?.markLostPayloads(nowMs)) ?? 0;
  }

  #open(): Segment | null {
    const { firstSeq, lines } = this.#head;
    return lines.length === 0 ? null : new Segment(firstSeq, lines, 0, null);
  }

  #segmentOf(seq: number): Segment | null {
    if (seq >= this.#head.firstSeq) return seq < this.#head.nextSeq ? this.#open() : null;
    const row = this.#segments.rowOf(seq);
    return row === null ? null : this.#segments.of(row);
  }

  #hashesOf(firstSeq: number): Uint8Array {
    return firstSeq === this.#head.firstSeq ? this.#head.hashBytes() : this.#segments.hashesOf(firstSeq);
  }

  *#hashesReceived(fromMs: number, toMs: number): Generator<SegmentHashes> {
    yield* this.#segments.hashesReceived(fromMs, toMs);
    const { firstSeq } = this.#head;
    yield { firstSeq, receivedToMs: Number.MAX_SAFE_INTEGER, hashes: this.#head.hashBytes() };
  }

  // Finding lines by signal id. An id contains a time, and the row of a segment has the range of the times in its ids. The table `late`
  // lists lines whose id has no time, or a time before the latest segments.

  #seqOf(id: string): number | null {
    const openSeq = this.#open()?.seqOf(id) ?? null;
    if (openSeq !== null) return openSeq;
    const ms = idMs(id);
    if (ms !== null) {
      const rows = this.#segments.rows(
        "first_ms <= ?1 AND first_ms >= ?1 - ?2 AND last_ms >= ?1 ORDER BY first_ms DESC",
        ms,
        this.meta.maxSpanMs,
      );
      for (const row of rows) {
        const seq = this.#segments.of(row).seqOf(id);
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
    const rows = this.#segments.rows("TRUE ORDER BY first_seq DESC LIMIT ?", SPAN_SEGMENTS);
    this.#spanStarts = rows.map((row) => row.first_ms);
  }

  #removeLate({ firstSeq, lines, row }: Segment, seq: number): void {
    const id = String(lines.cell(seq - firstSeq, "id"));
    const ms = idMs(id);
    if (ms !== null && row !== null && ms >= row.first_ms && ms <= row.last_ms) return;
    this.#sql.exec(`DELETE FROM ${this.name}_late WHERE id = ? AND seq = ?`, id, seq);
  }
}

function idMs(id: string): number | null {
  return uuidv7Ms(id.slice(id.indexOf("_") + 1));
}

function earliestOf(times: readonly number[]): number | null {
  return times.length === 0 ? null : Math.min(...times);
}

function after(seqs: readonly number[], seq: number): readonly number[] {
  return (seqs[0] ?? 0) > seq ? seqs : seqs.filter((wanted) => wanted > seq);
}

function before(seqs: readonly number[], seq: number): readonly number[] {
  return (seqs.at(-1) ?? 0) < seq ? seqs : seqs.filter((wanted) => wanted < seq);
}

function conditionOf({
  event,
  outcomes,
  source,
  status,
  sinceMs,
  untilMs,
  periodEndMs,
  received,
}: WantedLines): Condition {
  const parts: [sql: string, ...values: SqlStorageValue[]][] = [["TRUE"]];
  if (typeof event === "string" && (outcomes?.size ?? 0) === 0) {
    parts.push(["instr(groups, ?) > 0", toSqlBlob(groupMark(event, source))]);
  }
  if (status !== undefined) parts.push(["instr(statuses, ?) > 0", statusLetter(status)]);
  if (sinceMs !== undefined) parts.push(["received_to >= ?", sinceMs]);
  if (untilMs !== undefined) parts.push(["received_from < ?", untilMs]);
  if (periodEndMs !== undefined) parts.push(["period_end <= ?", periodEndMs]);
  if (received !== undefined) parts.push(["(received_to < ? OR received_from < ?)", received.wholly, received.partly]);
  return { sql: parts.map(([sql]) => sql).join(" AND "), values: parts.flatMap(([, ...values]) => values) };
}
