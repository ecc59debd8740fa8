export interface Page {
  cursor: string | null;
  limit: number;
}

export interface PageOf<T> {
  items: T[];
  next: string | null;
}

/** @param rows up to `page.limit + 1`; the additional one means that more follow. @param key the sort key. */
export function pageOf<T>(rows: readonly T[], page: Page, key: (row: T) => string): PageOf<T> {
  const items = rows.slice(0, page.limit);
  const last = items.at(-1);
  return { items, next: rows.length > page.limit && last !== undefined ? key(last) : null };
}
