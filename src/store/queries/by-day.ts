/**
 * Sorts lists by a time that changes with nearly every signal. Each change would write an index on the time, so the index is on the day.
 * The rows of a day are read by key in chunks, and each chunk is sorted by time. So the order is exact only for days with one chunk, but
 * each row appears once. Also reads and writes the cursors of these lists.
 */

/** Values to sort by, most significant first. Each has the same type in all rows. */
export type Values = readonly (string | number)[];

export interface DayList<Row> {
  chunk: number;
  /** `down`: the latest day first. */
  direction: "down" | "up";
  /** The next day in this direction that has rows, `from` included; null: there is none. */
  nextDay(from: number): number | null;
  /** The next `chunk` rows of a day, by key; null: the first rows. */
  rows(day: number, after: Values | null): Row[];
  keyOf(row: Row): Values;
  /** The time of a row, and what orders rows of the same time. */
  orderOf(row: Row): Values;
  compare(a: Values, b: Values): number;
}

/** The place after a row, as stored in cursors. `chunkStart` is the last key of the chunk before. `last` is the order of the row. */
export type DayPlace = readonly [day: number, chunkStart: Values | null, last: Values];

export function* byDay<Row>(list: DayList<Row>, from: DayPlace | null): Generator<{ row: Row; place: DayPlace }> {
  const step = list.direction === "down" ? -1 : 1;
  const [fromDay = step < 0 ? Number.MAX_SAFE_INTEGER : 0, fromChunk = null, fromLast = null] = from ?? [];
  for (let day = list.nextDay(fromDay); day !== null; day = list.nextDay(day + step)) {
    let [chunkStart, last]: [Values | null, Values | null] = day === from?.[0] ? [fromChunk, fromLast] : [null, null];
    for (let isMore = true; isMore;) {
      const rows = list.rows(day, chunkStart);
      const sorted = rows
        .map((row) => ({ row, order: list.orderOf(row) }))
        .sort((a, b) => list.compare(a.order, b.order));
      for (const { row, order } of sorted) {
        if (last === null || list.compare(order, last) > 0) yield { row, place: [day, chunkStart, order] };
      }
      const end = rows.at(-1);
      isMore = end !== undefined && rows.length === list.chunk;
      if (end !== undefined) [chunkStart, last] = [list.keyOf(end), null];
    }
  }
}

/** `nextDay` for a table with an index on its column `last_day`. */
export function nextDayOf(
  sql: SqlStorage,
  table: "people" | "event_groups",
  direction: "down" | "up",
  {
    sinceDay = 0,
    untilDay = Number.MAX_SAFE_INTEGER,
  }: { sinceDay?: number | undefined; untilDay?: number | undefined },
): (from: number) => number | null {
  const day = direction === "up" ? "min(last_day)" : "max(last_day)";
  return (from) =>
    sql
      .exec<{ day: number | null }>(
        `SELECT ${day} AS day FROM ${table} WHERE last_day >= ? AND last_day <= ?`,
        direction === "up" ? Math.max(from, sinceDay) : sinceDay,
        direction === "up" ? untilDay : Math.min(from, untilDay),
      )
      .one().day;
}

export function ascending(a: Values, b: Values): number {
  for (const [index, value] of a.entries()) {
    const compared = b[index] ?? value;
    if (value !== compared) return value < compared ? -1 : 1;
  }
  return 0;
}

type Types = readonly ("number" | "string")[];

/** Null: the place is invalid, or of another list. */
export function readDayPlace(place: unknown, key: Types, order: Types): DayPlace | null {
  if (!Array.isArray(place) || place.length !== 3) return null;
  const [day, chunkStart, last] = place as unknown[];
  const isKey = chunkStart === null || hasTypes(chunkStart, key);
  return Number.isSafeInteger(day) && isKey && hasTypes(last, order) ? [Number(day), chunkStart, last] : null;
}

export function hasTypes(values: unknown, types: Types): values is Values {
  return (
    Array.isArray(values) &&
    values.length === types.length &&
    values.every(
      (value: unknown, index) =>
        typeof value === types[index] && (types[index] === "string" || Number.isSafeInteger(value)),
    )
  );
}

export function writeCursor(place: unknown): string {
  return JSON.stringify(place);
}

/** Returns an unchecked place. Null: no cursor, or no JSON. */
export function readCursor(cursor: string | null): unknown {
  if (cursor === null) return null;
  try {
    return JSON.parse(cursor) as unknown;
  } catch {
    return null;
  }
}
