/**
 * Lists ordered by a time that changes with nearly every signal. An index on the time would cost a row each, so the
 * index is on its day. A day is read by key, CHUNK rows at a time, and each chunk is sorted by time. The order is
 * exact for days with at most CHUNK rows; in any case each row appears once.
 */

/** Sort values, most significant first; each has the same type in all rows. */
export type Values = readonly (string | number)[];

export interface DayList<Row> {
  chunk: number;
  /** `down`: the latest day comes first. */
  direction: "down" | "up";
  /** The next day in this direction that has any rows, `from` included; null: there is none. */
  nextDay(from: number): number | null;
  /** The next `chunk` rows of a day after a key, by key; null: the first rows. */
  rows(day: number, behind: Values | null): Row[];
  keyOf(row: Row): Values;
  /** The time of a row, and what tells rows of the same time apart. */
  orderOf(row: Row): Values;
  /** Compares two rows by their sort values; negative: the first comes first. */
  compare(one: Values, other: Values): number;
}

/** Start of a slice: after `last`, in the chunk after `chunk`. */
export interface DayPlace {
  day: number;
  chunk: Values | null;
  last: Values | null;
}

/** The rows of a list, each with the place behind it. */
export function* byDay<Row>(list: DayList<Row>, from: DayPlace | null): Generator<{ row: Row; place: DayPlace }> {
  const [first, step] = list.direction === "down" ? [Number.MAX_SAFE_INTEGER, -1] : [0, 1];
  let last = from?.last ?? null;
  let chunk = from?.chunk ?? null;
  for (let next = from?.day ?? first; ; next += step) {
    const day = list.nextDay(next);
    if (day === null) return;
    if (day !== from?.day) [chunk, last] = [null, null];
    for (let isMore = true; isMore;) {
      const rows = list.rows(day, chunk);
      const sorted = rows.map((row) => ({ row, order: list.orderOf(row) }));
      sorted.sort((one, other) => list.compare(one.order, other.order));
      for (const { row, order } of sorted) {
        if (last === null || list.compare(order, last) > 0) yield { row, place: { day, chunk, last: order } };
      }
      const end = rows.at(-1);
      isMore = end !== undefined && rows.length === list.chunk;
      if (end !== undefined) [chunk, last] = [list.keyOf(end), null];
    }
    next = day;
  }
}

/** Compares value by value; numbers and texts from the lowest. */
export function ascending(one: Values, other: Values): number {
  for (const [index, value] of one.entries()) {
    const otherValue = other[index] ?? value;
    if (value !== otherValue) return value < otherValue ? -1 : 1;
  }
  return 0;
}

/** A place as a cursor tells it, see cursor.ts. */
export function writeDayPlace({ day, chunk, last }: DayPlace): unknown {
  return [day, chunk, last];
}

/** Parses a position. @returns null if it is invalid or its key and values have other types. */
export function readDayPlace(fields: unknown, key: Types, order: Types): DayPlace | null {
  if (!Array.isArray(fields) || fields.length !== 3) return null;
  const [day, chunk, last] = fields as unknown[];
  if (!Number.isSafeInteger(day) || !(chunk === null || isOf(chunk, key)) || !isOf(last, order)) return null;
  return { day: Number(day), chunk, last };
}

type Types = readonly ("number" | "string")[];

export function isOf(values: unknown, types: Types): values is Values {
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

/** Position of a cursor. Null: first slice, or invalid JSON. The caller validates the position. */
export function readCursor(cursor: string | null): unknown {
  if (cursor === null) return null;
  try {
    return JSON.parse(cursor) as unknown;
  } catch {
    return null;
  }
}
