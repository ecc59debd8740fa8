/**
 * Where a signal's line is, by its id: an id tells a time, and a segment's row the span of those of its lines. A line
 * whose id tells no time, or one long past, stands in a table of its own.
 */
import { uuidv7Ms } from "../../platform/uuidv7.ts";
import type { LogName } from "./head.ts";
import type { Segment, SegmentRow } from "./segment.ts";
import type { StoredSegments } from "./stored-segments.ts";

/** Sealed segments among which a line belongs by the time that its id tells; before them it is noted as late. */
const SPAN_SEGMENTS = 16;

export class IdSearch {
  readonly #sql: SqlStorage;
  readonly #name: LogName;
  readonly #segments: StoredSegments;
  /** The span of the times that ids of open lines tell, without those that are late; null: there is none. */
  #openSpan: { first: number; last: number } | null = null;
  /** Where the last SPAN_SEGMENTS sealed segments begin in time, the latest last. */
  #beginnings: number[] = [];

  constructor(sql: SqlStorage, name: LogName, segments: StoredSegments) {
    this.#sql = sql;
    this.#name = name;
    this.#segments = segments;
  }

  /** Notes an open line that has come. */
  add(id: string, seq: number): void {
    const ms = idMs(id);
    if (ms === null || ms < this.#lateBefore) {
      this.#sql.exec(`INSERT OR IGNORE INTO ${this.#name}_late (id, seq) VALUES (?, ?)`, id, seq);
    } else this.#extendSpan(ms);
  }

  /**
   * The span of the open lines' ids, which are being sealed. Where all ids are late, it is empty, and no id is looked for in
   * it.
   */
  close(): { first: number; last: number } {
    const span = this.#openSpan ?? { first: this.#beginnings.at(-1) ?? 0, last: -1 };
    this.#openSpan = null;
    this.#beginnings.push(span.first);
    if (this.#beginnings.length > SPAN_SEGMENTS) this.#beginnings.shift();
    return span;
  }

  /**
   * The number of the latest line with this id.
   *
   * @param maxSpanMs the longest span that a segment has.
   */
  find(id: string, open: Segment, maxSpanMs: number): number | null {
    const here = lineIn(open, id);
    if (here !== null) return here;
    const ms = idMs(id);
    if (ms !== null) {
      const rows = this.#segments.rows(
        "first_ms <= ?1 AND first_ms >= ?1 - ?2 AND last_ms >= ?1 ORDER BY first_ms DESC",
        ms,
        maxSpanMs,
      );
      for (const row of rows) {
        const seq = lineIn(this.#segments.read(row), id);
        if (seq !== null) return seq;
      }
    }
    const [late] = this.#sql.exec<{ seq: number }>(
      `SELECT seq FROM ${this.#name}_late WHERE id = ? ORDER BY seq DESC LIMIT 1`,
      id,
    );
    return late?.seq ?? null;
  }

  /** Takes out a line of a sealed segment, which no id is to find any more. */
  remove({ first_ms: first, last_ms: last }: SegmentRow, id: string, seq: number): void {
    const ms = idMs(id);
    if (ms !== null && ms >= first && ms <= last) return;
    this.#sql.exec(`DELETE FROM ${this.#name}_late WHERE id = ? AND seq = ?`, id, seq);
  }

  /** Learns the spans anew from what is stored. */
  reload(openIds: readonly string[]): void {
    this.#beginnings = this.#segments
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

function lineIn({ lines, firstSeq }: Segment, id: string): number | null {
  const index = lines.column("id").lastIndexOf(id);
  return index === -1 ? null : firstSeq + index;
}

/** When the edge gave the id, in milliseconds since 1970; null where it tells no time. */
function idMs(id: string): number | null {
  return uuidv7Ms(id.slice(id.indexOf("_") + 1));
}
