/**
 * A segment is a group of hundreds of consecutive lines that are stored together. Its row summarizes the lines. `Lines` keeps them by
 * column. A column is unpacked, and the facts of a line are assembled, on first use.
 */
import type { SegmentRow } from "../schema.ts";
import {
  COLUMNS,
  decodeFacts,
  encodeFacts,
  outcomesOf,
  placeOf,
  statusLetter,
  statusOf,
  textOf,
  type Column,
  type ColumnName,
  type Facts,
} from "./line.ts";
import {
  packColumn,
  packColumns,
  unpackColumn,
  unpackColumns,
  type Cell,
  type PackedColumn,
  type PayloadNames,
} from "./packing.ts";

/** Bytes of a content hash; all zero if the line is no original. In ten million signals a false match has a chance of 1 in 180,000. */
export const HASH_BYTES = 8;

/** Stored as `cold_bytes` if the object is missing in R2. */
export const PAYLOADS_LOST = -1;

interface LinesColumn {
  is: Column["is"];
  /** A column that has a packed form is not changed in place. */
  packed: PackedColumn | null;
  cells: Cell[] | null;
}

export class Lines {
  #length: number;
  /** In the order of COLUMNS. */
  readonly #columns: readonly LinesColumn[];

  constructor(
    length = 0,
    columns: readonly LinesColumn[] = COLUMNS.map(({ is }) => ({ is, packed: null, cells: [] })),
  ) {
    this.#length = length;
    this.#columns = columns;
  }

  get length(): number {
    return this.#length;
  }

  column(name: ColumnName): readonly Cell[] {
    const column = this.#columns[placeOf(name)];
    return column === undefined ? [] : this.#cells(column);
  }

  cell(index: number, name: ColumnName): Cell {
    return this.column(name)[index] ?? 0;
  }

  cells(index: number): Cell[] {
    return this.#columns.map((column) => this.#cells(column)[index] ?? 0);
  }

  facts(index: number): Facts {
    return decodeFacts((name) => this.cell(index, name));
  }

  names(index: number): PayloadNames {
    return { userId: textOf(this.cell(index, "userId")), anonymousId: textOf(this.cell(index, "anonymousId")) };
  }

  /** @param cells in the order of COLUMNS; missing cells at the end are absent. */
  push(cells: readonly Cell[]): void {
    for (const [place, column] of this.#columns.entries()) this.#cells(column).push(cells[place] ?? 0);
    this.#length++;
  }

  with(changes: ReadonlyMap<number, Facts>, firstSeq: number): Lines {
    const changed = [...changes].map(([seq, facts]) => ({ index: seq - firstSeq, cells: encodeFacts(facts) }));
    const columns = this.#columns.map((column, place) => {
      const before = this.#cells(column);
      const news = changed.filter(({ index, cells }) => cells[place] !== before[index]);
      if (news.length === 0 && column.packed !== null) return column;
      const after = [...before];
      for (const { index, cells } of news) after[index] = cells[place] ?? 0;
      return { is: column.is, packed: null, cells: after };
    });
    return new Lines(this.#length, columns);
  }

  pack(): Uint8Array {
    const columns = this.#columns.map((column) => (column.packed ??= packColumn(this.#cells(column), column.is)));
    return packColumns(columns, this.#length);
  }

  static unpack(bytes: ArrayBuffer): Lines {
    const { length, columns } = unpackColumns(bytes);
    return new Lines(
      length,
      COLUMNS.map(({ is }, place) => ({ is, packed: columns[place] ?? null, cells: null })),
    );
  }

  #cells(column: LinesColumn): Cell[] {
    return (column.cells ??= column.packed === null ? [] : unpackColumn(column.packed, column.is, this.#length));
  }
}

/** The lines of a sealed segment as they were read, or the open lines. */
export class Segment {
  readonly firstSeq: number;
  /** A rewrite replaces this object. New open lines are added to the same object. */
  readonly lines: Lines;
  /** Counts rewrites. A caller that has awaited compares versions before it writes. */
  readonly version: number;
  /** Null: the lines are open. */
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

  get receivedToMs(): number {
    return this.row?.received_to ?? Number.POSITIVE_INFINITY;
  }

  get coldObject(): string | null {
    return this.row?.cold ?? null;
  }

  get payloadsLost(): boolean {
    return this.row?.cold_bytes === PAYLOADS_LOST;
  }

  facts(seq: number): Facts {
    const index = seq - this.firstSeq;
    if (index < 0 || index >= this.length) throw new Error(`line ${seq} is not in the segment of ${this.firstSeq}`);
    return this.lines.facts(index);
  }

  seqs(): number[] {
    return Array.from({ length: this.length }, (_, index) => this.firstSeq + index);
  }

  /** The latest line with a signal id. */
  seqOf(id: string): number | null {
    const index = this.lines.column("id").lastIndexOf(id);
    return index === -1 ? null : this.firstSeq + index;
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

  #seqsWhere(column: ColumnName, isWanted: (cell: Cell) => boolean): number[] {
    return this.lines.column(column).flatMap((cell, index) => (isWanted(cell) ? [this.firstSeq + index] : []));
  }
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

/** FNV-1a with its halves folded together. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash ^ (hash >>> 16);
}
