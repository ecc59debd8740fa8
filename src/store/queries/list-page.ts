/** What lists share that are read by drizzle's queries. */
import type { Page, PageOf } from "../../platform/list-page.ts";

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
