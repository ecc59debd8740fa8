/** Walks over a log's segments, from line to line in either direction, past those that cannot hold what is wanted. */
import { toSqlBlob } from "./sql-blob.ts";
import { statusLetter } from "./line-cells.ts";
import type { LineStatus } from "./line.ts";
import { groupMark } from "./segment.ts";
import type { Segment } from "./segment.ts";
import type { StoredSegments } from "./stored-segments.ts";

/** Rows of segments that a walk reads at a time: few at first, since most walks end soon. */
const ROWS = { first: 4, most: 64 } as const;
/** Most lines that a segment can have, with room to spare. */
const MOST_LINES = 1_024;

/** What a walk looks for. A segment that it stops at may have other lines besides. */
export interface Wanted {
  event?: string | undefined;
  source?: string | undefined;
  status?: LineStatus | undefined;
  /** When the signals were received: not before `sinceMs`, and before `untilMs`, in milliseconds since 1970. */
  sinceMs?: number | undefined;
  untilMs?: number | undefined;
}

/** Segments from the latest line before `before` back to the oldest. */
export function* walkSegmentsBack(
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
export function* walkSegments(
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
export function* segmentsReceivedBefore(
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
