/** A segment is a group of hundreds of consecutive lines that are stored together. Its row summarizes the lines. */
import { statusLetter, statusOf, textOf, outcomesOf, type ColumnName, type Lines } from "./lines.ts";
import type { Facts } from "./line.ts";

/**
 * Stored bytes of the content hash of each line; all zero if the line is no original. In ten million signals a false match has a
 * chance of 1 in 180,000. originals.ts explains the first bit.
 */
export const HASH_BYTES = 8;

export interface SegmentRow {
  [column: string]: SqlStorageValue;
  first_seq: number;
  last_seq: number;
  /** Range of the times in the signal ids, without ids in the `late` table. */
  first_ms: number;
  last_ms: number;
  /** Ranges of the received times and of the ordinals. */
  received_from: number;
  received_to: number;
  ordinal_from: number;
  ordinal_to: number;
  /** The earliest end of a billing period of the held lines; without held lines the latest end of all lines. */
  period_end: number;
  /** One mark for each event group with lines here, see `groupMark`. */
  groups: ArrayBuffer;
  statuses: string;
  /** The object in R2 that has the payloads; null: the payloads are in the store, or lost. */
  cold: string | null;
  cold_offset: number;
  /** Bytes of the payloads in the object, or PAYLOADS_LOST. */
  cold_bytes: number;
}

/** Stored as `cold_bytes` if the object is gone from R2, which happens only after a restore. */
export const PAYLOADS_LOST = -1;

/** The lines of a sealed segment as they were read, or the open lines. */
export class Segment {
  readonly firstSeq: number;
  /** A rewrite replaces this object. New open lines are added to the same object. */
  readonly lines: Lines;
  /** Counts rewrites. A caller that has awaited compares versions before it writes. */
  readonly version: number;
  readonly row: SegmentRow | null;

  constructor(firstSeq: number, lines: Lines, version: number, row: SegmentRow | null) {
    this.firstSeq = firstSeq;
    this.lines = lines;
    this.version = version;
    this.row = row;
  }

  get length(): number {
    return this.lines.length;
  }

  get lastSeq(): number {
    return this.firstSeq + this.length - 1;
  }

  /** When the latest line was received, in milliseconds since 1970; infinity while the segment is open. */
  get receivedToMs(): number {
    return this.row?.received_to ?? Number.POSITIVE_INFINITY;
  }

  /** The object in R2 that has the payloads; null: the payloads are in the store, or lost. */
  get coldObject(): string | null {
    return this.row?.cold ?? null;
  }

  get payloadsLost(): boolean {
    return this.row?.cold_bytes === PAYLOADS_LOST;
  }

  /** @throws when the segment does not have the line. */
  facts(seq: number): Facts {
    const index = seq - this.firstSeq;
    if (index < 0 || index >= this.length) throw new Error(`line ${seq} is not in the segment of ${this.firstSeq}`);
    return this.lines.facts(index);
  }

  seqs(): number[] {
    return Array.from({ length: this.length }, (_, index) => this.firstSeq + index);
  }

  seqsWith(column: ColumnName, value: string): number[] {
    return this.#seqsWhere(column, (cell) => cell === value);
  }

  seqsScored(outcomes: ReadonlySet<number>): number[] {
    return this.#seqsWhere("outcomes", (cell) => outcomesOf(cell).some((id) => outcomes.has(id)));
  }

  hasEvent(matches: (event: string) => boolean): boolean {
    return [...new Set(this.lines.column("event"))].some((event) => typeof event === "string" && matches(event));
  }

  #seqsWhere(column: ColumnName, isWanted: (cell: number | string) => boolean): number[] {
    return this.lines.column(column).flatMap((cell, index) => (isWanted(cell) ? [this.firstSeq + index] : []));
  }
}

/** Computes the columns of a segment's row from its lines, without lines that retention dropped. */
export function summarise(lines: Lines) {
  const row = {
    received_from: Number.MAX_SAFE_INTEGER,
    received_to: 0,
    ordinal_from: Number.MAX_SAFE_INTEGER,
    ordinal_to: 0,
    period_end: 0,
  };
  const [marks, letters] = [new Set<number>(), new Set<string>()];
  let heldUntil = Number.POSITIVE_INFINITY;
  for (let index = 0; index < lines.length; index++) {
    if (lines.cell(index, "id") === "") continue;
    const receivedAtMs = Number(lines.cell(index, "receivedAt"));
    const ordinal = Number(lines.cell(index, "ordinal"));
    const periodEndMs = Number(lines.cell(index, "periodEnd"));
    const status = statusOf(lines.cell(index, "status"));
    row.received_from = Math.min(row.received_from, receivedAtMs);
    row.received_to = Math.max(row.received_to, receivedAtMs);
    row.ordinal_from = Math.min(row.ordinal_from, ordinal);
    row.ordinal_to = Math.max(row.ordinal_to, ordinal);
    row.period_end = Math.max(row.period_end, periodEndMs);
    if (status === "held") heldUntil = Math.min(heldUntil, periodEndMs);
    letters.add(statusLetter(status));
    const event = textOf(lines.cell(index, "event"));
    if (event !== null) marks.add(markOf(event, textOf(lines.cell(index, "source")) ?? ""));
  }
  if (heldUntil !== Number.POSITIVE_INFINITY) row.period_end = heldUntil;
  const groups = new Uint8Array(marks.size * MARK_BYTES);
  for (const [index, mark] of [...marks].sort((a, b) => a - b).entries()) {
    groups.set(bytesOf(mark), index * MARK_BYTES);
  }
  return { ...row, groups, statuses: joinLetters(letters) };
}

export function statusLetters(lines: Lines): string {
  return joinLetters(new Set(lines.column("status").map((cell) => statusLetter(statusOf(cell)))));
}

/**
 * The mark that `groups` contains if the segment may have lines of this event: two bytes for the event and one for the source.
 * Different groups can share a mark. A walk skips segments without the mark.
 */
export function groupMark(event: string, source?: string): Uint8Array {
  const mark = bytesOf(markOf(event, source ?? ""));
  return source === undefined ? mark.subarray(0, EVENT_MARK_BYTES) : mark;
}

const EVENT_MARK_BYTES = 2;
const MARK_BYTES = 3;

function markOf(event: string, source: string): number {
  return ((hashOf(event) & 0xffff) << 8) | (hashOf(source) & 0xff);
}

function bytesOf(mark: number): Uint8Array {
  return Uint8Array.of(mark >>> 16, (mark >>> 8) & 0xff, mark & 0xff);
}

/** FNV-1a with its halves folded together. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash ^ (hash >>> 16);
}

function joinLetters(letters: Set<string>): string {
  return [...letters].sort().join("");
}
