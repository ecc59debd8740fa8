/** The outbox rows that the store has recorded. They make recording idempotent. */

/**
 * Maximum stored ranges of row numbers: 18 KB of the head. Parallel consumers leave some ten gaps. Hundreds of gaps come from
 * messages that fail again and again while others succeed.
 */
export const RECORDED_RANGES_MAX = 500;

export interface RecordedRows {
  /** All rows with a lower number are settled. Never decreases. */
  low: number;
  /** Recorded rows from `low` on, as ascending ranges. */
  rows: [first: number, last: number][];
  /**
   * The highest row that a restore has lost; 0: none. Old messages can still report a `low` that the restore has undone, so
   * values up to this row are ignored.
   */
  lostUpTo: number;
}

export function hasRow({ low, rows }: RecordedRows, row: number): boolean {
  const [first = Number.POSITIVE_INFINITY] = rows[firstFrom(rows, row)] ?? [];
  return row < low || first <= row;
}

function addRows({ rows }: RecordedRows, first: number, last: number): void {
  if (last < first) return;
  // Merge the new range with all ranges that overlap or touch it.
  const from = firstFrom(rows, first - 1);
  let until = from;
  let [low, high] = [first, last];
  for (let range = rows[until]; range !== undefined && range[0] <= last + 1; range = rows[++until]) {
    low = Math.min(low, range[0]);
    high = Math.max(high, range[1]);
  }
  rows.splice(from, until - from, [low, high]);
}

/** Index of the first range that does not end before the row. */
function firstFrom(rows: RecordedRows["rows"], row: number): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((rows[middle]?.[1] ?? 0) < row) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Marks rows that a restore has lost as recorded, so that they never will be. */
export function loseRows(recorded: RecordedRows, first: number, last: number): void {
  addRows(recorded, first, last);
  recorded.lostUpTo = Math.max(recorded.lostUpTo, last);
}

/** Forgets rows below the `low` of a message. */
export function forgetRowsBelow(recorded: RecordedRows, low: number): void {
  if (low <= Math.max(recorded.low, recorded.lostUpTo)) return;
  recorded.low = low;
  recorded.rows.splice(0, firstFrom(recorded.rows, low));
}

/**
 * Whether there is room for the rows. If there are too many ranges, only rows next to a range fit. The lowest unsettled row always
 * does, so all rows are recorded in the end.
 */
export function hasRoomFor(recorded: RecordedRows, rows: readonly { row: number }[]): boolean {
  if (recorded.rows.length < RECORDED_RANGES_MAX) return true;
  return rows.every(({ row }) => hasRow(recorded, row - 1) || hasRow(recorded, row) || hasRow(recorded, row + 1));
}

/** Returns the rows that are not recorded yet, without repeats, and marks them as recorded. */
export function takeFreshRows<Row extends { row: number }>(recorded: RecordedRows, rows: readonly Row[]): Row[] {
  return rows.filter(({ row }) => {
    if (hasRow(recorded, row)) return false;
    addRows(recorded, row, row);
    return true;
  });
}
