/** Rows that SQLite reads for this. */
export function rowsRead(sql: SqlStorage, act: () => void): number {
  let rows = 0;
  const exec = sql.exec.bind(sql);
  const cursors: { rowsRead: number }[] = [];
  sql.exec = ((...given: Parameters<typeof exec>) => {
    const cursor = exec(...given);
    cursors.push(cursor);
    return cursor;
  }) as typeof sql.exec;
  act();
  sql.exec = exec;
  for (const cursor of cursors) rows += cursor.rowsRead;
  return rows;
}
