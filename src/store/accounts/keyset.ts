/**
 * Pages of a list in an order other than that of the rows' numbers: the cursor is the last row's number and its value,
 * `42.1795258151637`, and the next page is what stands behind both. Each order has an index on the value, in which the
 * row's number comes next by itself.
 */
import { asc, desc, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import type { Page, PageOf } from "../../platform/list-page.ts";

export interface Order {
  /** A column, or one with its collation. */
  value: SQL | SQLiteColumn;
  kind: "number" | "text";
  id: SQLiteColumn;
  direction: "up" | "down";
  /** Only values that begin with this are listed; with a collation of NOCASE, in whatever case. */
  prefix?: string;
}

export function cursorOf(id: number, value: number | string): string {
  return `${id}.${value}`;
}

/**
 * The rows of a page, and one more: those of the cursor's own value that come after it, then those beyond. Asked for as
 * `(value, id) > (?, ?)`, SQLite would read all rows of that value, and a hundred thousand people may have a score of 0.
 *
 * @param read ordered by `ordered`.
 */
export function readBehind<Row>(
  order: Order,
  { cursor, limit }: Page,
  read: (asked: SQL | undefined, limit: number) => Row[],
): Row[] {
  const { value, id, direction, prefix } = order;
  const last = lastOf(order, cursor);
  const end = prefix === undefined ? sql`` : sql` AND ${value} < ${`${prefix}\u{10FFFF}`}`;
  if (last === null) return read(prefix === undefined ? undefined : sql`${value} >= ${prefix}${end}`, limit + 1);
  // The plus keeps SQLite from beginning at the prefix: the cursor says where to begin.
  const within = prefix === undefined ? sql`` : sql` AND +${value} >= ${prefix}${end}`;
  const beyond = sql.raw(direction === "up" ? ">" : "<");
  const same = read(sql`${value} = ${last.value} AND ${id} ${beyond} ${last.id}${within}`, limit + 1);
  if (same.length > limit) return same;
  return [...same, ...read(sql`${value} ${beyond} ${last.value}${within}`, limit + 1 - same.length)];
}

export function ordered({ value, id, direction }: Order): [SQL, SQL] {
  return direction === "up" ? [asc(value), asc(id)] : [desc(value), desc(id)];
}

/** The row that a cursor names; null for the first page, and where the cursor is none. */
function lastOf({ kind }: Order, cursor: string | null): { id: number; value: number | string } | null {
  const [, id, text] = /^(\d{1,15})\.(.*)$/su.exec(cursor ?? "") ?? [];
  if (id === undefined || text === undefined) return null;
  const value = kind === "number" ? Number(text) : text;
  return Number.isNaN(value) ? null : { id: Number(id), value };
}

/** Turns up to `page.limit + 1` rows into a page of items. */
export function pageOfRows<Row, T>(
  rows: Row[],
  page: Page,
  key: (row: Row) => string | number,
  item: (row: Row) => T,
): PageOf<T> {
  const shown = rows.slice(0, page.limit);
  const last = shown.at(-1);
  return {
    items: shown.map(item),
    next: rows.length > page.limit && last !== undefined ? String(key(last)) : null,
  };
}
