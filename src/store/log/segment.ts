/** Segments: hundreds of consecutive lines that are kept together. What their rows say, and how their lines are asked for. */
import { statusLetter, statusOf, textOf, outcomesOf } from "./line-cells.ts";
import type { ColumnName } from "./line-cells.ts";
import type { Facts } from "./line.ts";
import type { Lines } from "./lines.ts";

/**
 * Bytes of a content hash that are kept of each line; all zero where it is no original. That two signals of ten million
 * have the same ones happens once in 180,000 times. The first bit: see originals.ts.
 */
export const HASH_BYTES = 8;

/** What can be said of a segment without reading its lines. */
export interface SegmentRow {
  [column: string]: SqlStorageValue;
  first_seq: number;
  last_seq: number;
  /** The span of the times that the signals' ids tell, but for those in `late`. */
  first_ms: number;
  last_ms: number;
  /** The span of the receipts, and of the ordinals, of the segment's lines. */
  received_from: number;
  received_to: number;
  ordinal_from: number;
  ordinal_to: number;
  /** The earliest end of a billing period among lines that are held; where none is, the latest of all. */
  period_end: number;
  /** A mark for each group that has lines here: see `groupMark`. */
  groups: ArrayBuffer;
  /** Letters of the statuses that lines have. */
  statuses: string;
  /** The object in R2 that has the payloads, and where in it they are; null: they are here, or nowhere. */
  cold: string | null;
  cold_offset: number;
  /** Bytes of the payloads in that object, or PAYLOADS_LOST. */
  cold_bytes: number;
}

/** In place of the bytes in R2: the object that had the payloads is gone, which happens only by a restore. */
export const PAYLOADS_LOST = -1;

/** The lines of a sealed segment as they were read, or those that are still open. */
export class Segment {
  readonly firstSeq: number;
  /**
   * The segment's lines: other ones once any of them changes, while lines that are added to an open segment come to the
   * same.
   */
  readonly lines: Lines;
  /** How often it has been rewritten; what was read before an `await` is read again where this has moved. */
  readonly version: number;
  /** The segment's row; null while it is open. */
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

  /** When the latest of its lines was received, in milliseconds since 1970; infinity while it is open. */
  get receivedToMs(): number {
    return this.row?.received_to ?? Number.POSITIVE_INFINITY;
  }

  /** The object in R2 that has its payloads; null: they are here, or nowhere. */
  get coldObject(): string | null {
    return this.row?.cold ?? null;
  }

  /** Whether a restore of the workspace has lost the payloads. */
  get payloadsLost(): boolean {
    return this.row?.cold_bytes === PAYLOADS_LOST;
  }

  /** Facts of a line. @throws when the line is none of this segment. */
  facts(seq: number): Facts {
    const index = seq - this.firstSeq;
    if (index < 0 || index >= this.length) throw new Error(`line ${seq} is not in the segment of ${this.firstSeq}`);
    return this.lines.facts(index);
  }

  /** Numbers of all its lines. */
  seqs(): number[] {
    return Array.from({ length: this.length }, (_, index) => this.firstSeq + index);
  }

  /** Numbers of the lines that have this in a column. */
  seqsWith(column: ColumnName, value: string): number[] {
    return this.#seqsWhere(column, (cell) => cell === value);
  }

  /** Numbers of the lines that have one of these outcomes. */
  seqsScored(outcomes: ReadonlySet<number>): number[] {
    return this.#seqsWhere("outcomes", (cell) => outcomesOf(cell).some((id) => outcomes.has(id)));
  }

  /** Whether one of its events is such. */
  hasEvent(isWanted: (event: string) => boolean): boolean {
    return [...new Set(this.lines.column("event"))].some((event) => typeof event === "string" && isWanted(event));
  }

  #seqsWhere(column: ColumnName, isWanted: (cell: number | string) => boolean): number[] {
    return this.lines.column(column).flatMap((cell, index) => (isWanted(cell) ? [this.firstSeq + index] : []));
  }
}

type Summary = Pick<
  SegmentRow,
  "received_from" | "received_to" | "ordinal_from" | "ordinal_to" | "period_end" | "statuses"
> & { groups: Uint8Array };

/** What the row of a segment says of its lines, but for those that retention has deleted. */
export function summarise(lines: Lines): Summary {
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
  for (const [index, mark] of [...marks].sort((one, other) => one - other).entries()) {
    groups.set(bytesOf(mark), index * MARK_BYTES);
  }
  return { ...row, groups, statuses: lettersOf(letters) };
}

/** Letters of the statuses that a segment's lines have. */
export function statusLetters(lines: Lines): string {
  return lettersOf(new Set(lines.column("status").map((cell) => statusLetter(statusOf(cell)))));
}

/**
 * What `groups` has where the segment has lines of this event: two bytes that many others share by chance, and one more for
 * the source. It says which segments need not be read.
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

/** FNV-1a of a text, its halves folded together. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash ^ (hash >>> 16);
}

function lettersOf(letters: Set<string>): string {
  return [...letters].sort().join("");
}
