/**
 * Pages of a list in an order other than that of the rows' numbers: the cursor is the last row's number and its value,
 * `42.1795258151637`, and the next page is what stands behind both. Each order has an index on the value and the number.
 */
import { asc, desc, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import type { Page } from "./protocol.ts";

export interface Order {
  /** A column, or one with its collation. */
  value: SQL | SQLiteColumn;
  kind: "number" | "text";
  id: SQLiteColumn;
  direction: "up" | "down";
}

export function cursorOf(id: number, value: number | string): string {
  return `${id}.${value}`;
}

/** What stands behind the cursor; undefined for the first page, and where the cursor is none. */
export function behind({ value, kind, id, direction }: Order, { cursor }: Page): SQL | undefined {
  const [, number, last] = /^(\d+)\.(.*)$/su.exec(cursor ?? "") ?? [];
  if (number === undefined || last === undefined) return undefined;
  const at = kind === "number" ? Number(last) : last;
  if (Number.isNaN(at)) return undefined;
  return sql`(${value}, ${id}) ${sql.raw(direction === "up" ? ">" : "<")} (${at}, ${Number(number)})`;
}

export function ordered({ value, id, direction }: Order): [SQL, SQL] {
  return direction === "up" ? [asc(value), asc(id)] : [desc(value), desc(id)];
}

/** What begins with `prefix`; with a column of NOCASE, in whatever case. */
export function startsWith(value: SQL | SQLiteColumn, prefix: string): SQL {
  return sql`${value} >= ${prefix} AND ${value} < ${`${prefix}\u{10FFFF}`}`;
}
