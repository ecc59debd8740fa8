/** Which outbox rows the store has recorded, so that each is recorded once, however often it is delivered. */

/**
 * Ranges of row numbers that are remembered: 18 KB of the head. Consumers that work in parallel leave some ten gaps; hundreds
 * come of messages that fail again and again, among others that do not.
 */
export const RECORDED_RANGES_MAX = 500;

export interface RecordedRows {
  /** All rows with a lower number are settled, as the counter has said: their numbers are forgotten. It only rises. */
  low: number;
  /** Numbers of rows from `low` on that have been recorded, as ranges in ascending order. */
  rows: [first: number, last: number][];
  /**
   * The highest row that a restore has lost; 0: none was lost. Messages from before the restore may still come, and what they
   * say of settled rows has been undone: up to this row it is ignored.
   */
  lostUpTo: number;
}

export function hasRow({ low, rows }: RecordedRows, row: number): boolean {
  const [first = Number.POSITIVE_INFINITY] = rows[firstFrom(rows, row)] ?? [];
  return row < low || first <= row;
}

/** Notes all rows from `first` to `last` as recorded. */
function addRows({ rows }: RecordedRows, first: number, last: number): void {
  if (last < first) return;
  // The ranges that overlap the new one, or join it, become one range with it.
  const from = firstFrom(rows, first - 1);
  let until = from;
  let [low, high] = [first, last];
  for (let range = rows[until]; range !== undefined && range[0] <= last + 1; range = rows[++until]) {
    low = Math.min(low, range[0]);
    high = Math.max(high, range[1]);
  }
  rows.splice(from, until - from, [low, high]);
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

/** Notes that a restore has lost the rows from `first` to `last`: they are never recorded. */
export function loseRows(recorded: RecordedRows, first: number, last: number): void {
  addRows(recorded, first, last);
  recorded.lostUpTo = Math.max(recorded.lostUpTo, last);
}

/** Forgets the numbers of rows below `low`, as a message has said it. */
export function forgetRowsBelow(recorded: RecordedRows, low: number): void {
  if (low <= Math.max(recorded.low, recorded.lostUpTo)) return;
  recorded.low = low;
  recorded.rows.splice(0, firstFrom(recorded.rows, low));
}

/**
 * Whether the rows can be remembered. Where too many ranges are, only rows that join one can; the lowest row that is not settled
 * always joins those below it, so that all rows are recorded in the end.
 */
export function hasRoomFor(recorded: RecordedRows, rows: readonly { row: number }[]): boolean {
  if (recorded.rows.length < RECORDED_RANGES_MAX) return true;
  return rows.every(({ row }) => hasRow(recorded, row - 1) || hasRow(recorded, row) || hasRow(recorded, row + 1));
}

/** Those of the rows that have not been recorded, each once. They count as recorded now. */
export function takeFreshRows<Row extends { row: number }>(recorded: RecordedRows, rows: readonly Row[]): Row[] {
  return rows.filter(({ row }) => {
    if (hasRow(recorded, row)) return false;
    addRows(recorded, row, row);
    return true;
  });
}
