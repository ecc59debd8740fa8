/**
 * Which outbox rows the store has recorded, so that each is recorded once; and which it refuses, because a counter that was
 * restored from a backup gives numbers anew.
 */
import type { KnownRows } from "../protocol/signals-to-record.ts";
import { readTotals } from "./books.ts";
import type { Books } from "./books.ts";

/**
 * A counter that is restored from a backup is silent for so long at least. Where row numbers stood at such pauses is
 * remembered of the latest ones: those of as long as a row may take to come, which is sent again after RESEND_AFTER_MS.
 */
export const ROW_PAUSE_MS = 30_000;
export const ROW_PAUSES_KEPT = 32;
/** Rows that are remembered as recorded although their time does not fit their number: hardly any, ever. */
const LATE_ROWS_KEPT = 100;
/** By how much rows' times may differ from their order, where the counter's object has moved. */
export const ROW_CLOCK_SKEW_MS = 1_000;

/** That no row up to a number, as the number was given first, was admitted after a time. */
type NumbersSeen = [row: number, untilMs: number];

export interface RecordedRows {
  /** Numbers of outbox rows that have been recorded, as ranges in ascending order. */
  rows: [first: number, last: number][];
  /** The latest time at which a row that has been recorded was admitted. */
  latestRowAtMs: number;
  /**
   * Each time that row numbers came again: up to which number they had been seen, and the latest time at which one of those
   * was admitted.
   */
  restored: NumbersSeen[];
  /** The latest times that no row had come for a while, as in `restored`: the counter may have been restored then. */
  pauses: NumbersSeen[];
  /** The latest rows whose numbers had been left out before, recorded with a later time than was seen up to those numbers. */
  late: [row: number, atMs: number][];
}

export function hasRow(rows: RecordedRows["rows"], row: number): boolean {
  const at = firstFrom(rows, row);
  const [first = Number.POSITIVE_INFINITY] = rows[at] ?? [];
  return first <= row;
}

export function addRow(rows: RecordedRows["rows"], row: number): void {
  const at = firstFrom(rows, row);
  const [before, behind] = [rows[at - 1], rows[at]];
  if (behind !== undefined && behind[0] <= row) return;
  const joinsBefore = before !== undefined && before[1] === row - 1;
  const joinsBehind = behind !== undefined && behind[0] === row + 1;
  if (joinsBefore && joinsBehind) rows.splice(at - 1, 2, [before[0], behind[1]]);
  else if (joinsBefore) before[1] = row;
  else if (joinsBehind) behind[0] = row;
  else rows.splice(at, 0, [row, row]);
}

/** The first range that does not end before the row. */
function firstFrom(rows: RecordedRows["rows"], row: number): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((rows[middle]?.[1] ?? 0) < row) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** What is known of rows. Of those in neither list the store knows nothing: they are, or will be, on their way. */
export function knownRows(books: Books & RecordedRows, rows: readonly { row: number; atMs: number }[]): KnownRows {
  const known: KnownRows = { recorded: [], refused: [], totals: readTotals(books.totals, undefined) };
  for (const row of rows) {
    if (!hasRow(books.rows, row.row)) continue;
    const isKnown = isRecorded(books, row, seenBefore(books, row.row) ?? seenNow(books));
    known[isKnown ? "recorded" : "refused"].push(row.row);
  }
  return known;
}

/** Whether what was recorded under that number is this row. */
function isRecorded(books: RecordedRows, { row, atMs }: { row: number; atMs: number }, seen: NumbersSeen): boolean {
  return atMs <= seen[1] || books.late.some(([number, lateMs]) => number === row && lateMs === atMs);
}

/** Where row numbers came again, or stood still, at this one or a later one; undefined: they never did. */
function seenBefore({ restored, pauses }: RecordedRows, row: number): NumbersSeen | undefined {
  return restored.find(([last]) => row <= last) ?? pauses.find(([last]) => row <= last);
}

function seenNow({ rows, latestRowAtMs }: RecordedRows): NumbersSeen {
  return [rows.at(-1)?.[1] ?? 0, latestRowAtMs];
}

/** Notes that no row has come for a while: a counter that was restored goes on with numbers given before, at later times. */
function notePause({ rows, pauses, latestRowAtMs }: RecordedRows, atMs: number): void {
  const highest = rows.at(-1)?.[1];
  if (highest === undefined || atMs < latestRowAtMs + ROW_PAUSE_MS) return;
  pauses.push([highest, latestRowAtMs + ROW_CLOCK_SKEW_MS]);
  if (pauses.length > ROW_PAUSES_KEPT) pauses.shift();
}

/** Notes a row whose number had been left out before, by a counter that was restored, or whose clock was ahead. */
function noteLate(books: RecordedRows, { row, atMs }: { row: number; atMs: number }): void {
  const seen = seenBefore(books, row);
  if (seen === undefined || atMs <= seen[1]) return;
  books.late.push([row, atMs]);
  if (books.late.length > LATE_ROWS_KEPT) books.late.shift();
}

/**
 * Takes the outbox rows that have not been recorded, which now count as recorded: a row is recorded whole, and once, however
 * often it is delivered. Row numbers are never used twice; where one comes again with a time later than any that was seen,
 * the counter has been restored from a backup, and gives numbers anew: such a row is refused, because it is another one.
 * The same holds for the others up to the highest that was seen then, also once the counter has come past it, in whatever
 * order they come.
 */
export function takeFreshRows<Row extends { row: number; atMs: number }>(
  books: RecordedRows,
  rows: readonly Row[],
): { fresh: Row[]; refused: number[] } {
  const fresh = new Map<number, Row>();
  const refused = new Set<number>();
  const now = seenNow(books);
  for (const row of rows) {
    if (hasRow(books.rows, row.row)) {
      const seen = seenBefore(books, row.row) ?? now;
      if (fresh.has(row.row) || isRecorded(books, row, seen)) continue;
      refused.add(row.row);
      if (!books.restored.includes(seen)) books.restored.push(seen);
      continue;
    }
    notePause(books, row.atMs);
    noteLate(books, row);
    addRow(books.rows, row.row);
    books.latestRowAtMs = Math.max(books.latestRowAtMs, row.atMs);
    fresh.set(row.row, row);
  }
  return { fresh: [...fresh.values()], refused: [...refused] };
}
