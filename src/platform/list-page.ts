export interface ListQuery {
  cursor: string | null;
  limit: number;
}

export interface ListPage<T> {
  items: T[];
  next: string | null;
  /** Length of the whole list, where it is known without another query. */
  total?: number;
}

/** @param rows up to `page.limit + 1`; the additional one means that more follow. @param key the sort key. */
export function listPage<T>(rows: readonly T[], listQuery: ListQuery, key: (row: T) => string): ListPage<T> {
  const items = rows.slice(0, listQuery.limit);
  const last = items.at(-1);
  return { items, next: rows.length > listQuery.limit && last !== undefined ? key(last) : null };
}
