/** What all lists of the store share. */
import { and, desc, lt, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { SQLiteColumn, SQLiteSelect } from "drizzle-orm/sqlite-core";
import type { Page, PageOf } from "../protocol.ts";

/** Of what is asked for, the rows of a page from new to old, and one more. The cursor is the last row's key. */
export function newestFirst<Query extends SQLiteSelect>(
  query: Query,
  key: SQLiteColumn,
  page: Page,
  asked: SQL | undefined,
) {
  return query
    .where(and(asked, page.cursor === null ? undefined : lt(key, Number(page.cursor))))
    .orderBy(desc(key))
    .limit(page.limit + 1);
}

/** A condition: of as many values as there are, where a statement takes few parameters. */
export function isAmong(column: SQLiteColumn, values: readonly (string | number)[]): SQL {
  return sql`${column} IN (SELECT value FROM json_each(${JSON.stringify(values)}))`;
}

/** Turns up to `page.limit + 1` rows into a page of items. */
export function toPage<Row, T>(
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

/** A payload is shown as JSON; one that is not (which only a dead letter can hold) as its text. */
export function parsed(payload: string | null): unknown {
  if (payload === null) return null;
  try {
    return JSON.parse(payload);
  } catch {
    return payload;
  }
}
