/** The log of held signals: when those end that are still held, and in which order they are released. */
import type { Lines } from "./lines.ts";
import { Log } from "./log.ts";
import type { Segment } from "./segment.ts";

/** Rows of segments that are read at a time. */
const ROWS_AT_ONCE = 16;

/**
 * When the held ones of some open lines end, and how many lines have been looked at for it. Lines are replaced as one where
 * any changes.
 */
const openEnds = new WeakMap<Lines, { seen: number; endMs: number }>();

export class HeldLog extends Log {
  constructor(sql: SqlStorage) {
    super(sql, "held", { maxSpanMs: 0 });
  }

  /** When the period of the next held lines ends, in milliseconds since 1970; null where none is held. */
  nextEndMs(): number | null {
    const nextMs = Math.min(this.segments.nextHeldEndMs() ?? Number.POSITIVE_INFINITY, this.#openEndMs());
    return nextMs === Number.POSITIVE_INFINITY ? null : nextMs;
  }

  /** A segment that has held lines whose period has ended, maybe with others; null: there is none. */
  ended(nowMs: number): Segment | null {
    if (this.#openEndMs() <= nowMs) return this.open();
    const [row] = this.rows("instr(statuses, 'h') > 0 AND period_end <= ? ORDER BY period_end LIMIT 1", nowMs);
    return row === undefined ? null : this.sealed(row);
  }

  /**
   * Sealed segments that may have held lines of ordinals behind one, of whichever period: in the order of their first
   * ordinals. A segment is read where that is asked for.
   */
  *byOrdinal(behind: number): Generator<{ firstOrdinal: number; read: () => Segment }> {
    for (let [ordinal, seq, isMore] = [0, 0, true]; isMore;) {
      const rows = this.rows(
        `instr(statuses, 'h') > 0 AND (ordinal_from, first_seq) > (?2, ?3) AND ordinal_to > ?1
         ORDER BY ordinal_from, first_seq LIMIT ${ROWS_AT_ONCE}`,
        behind,
        ordinal,
        seq,
      );
      for (const row of rows) yield { firstOrdinal: row.ordinal_from, read: () => this.sealed(row) };
      isMore = rows.length === ROWS_AT_ONCE;
      [ordinal, seq] = [rows.at(-1)?.ordinal_from ?? 0, rows.at(-1)?.first_seq ?? 0];
    }
  }

  #openEndMs(): number {
    const { lines } = this.open();
    const known = openEnds.get(lines) ?? { seen: 0, endMs: Number.POSITIVE_INFINITY };
    for (; known.seen < lines.length; known.seen++) {
      const { status, admission } = lines.facts(known.seen);
      if (status === "held") known.endMs = Math.min(known.endMs, admission.periodEndMs);
    }
    openEnds.set(lines, known);
    return known.endMs;
  }
}
