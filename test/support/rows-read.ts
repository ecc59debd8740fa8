/** Rows that SQLite reads or writes during a function. */
export function rowsRead(sql: SqlStorage, act: () => void): number {
  return sum(cursorsOf(sql, act).map((cursor) => cursor.rowsRead));
}

export function rowsWritten(sql: SqlStorage, act: () => void): number {
  return sum(cursorsOf(sql, act).map((cursor) => cursor.rowsWritten));
}

function cursorsOf(sql: SqlStorage, act: () => void): { rowsRead: number; rowsWritten: number }[] {
  const exec = sql.exec.bind(sql);
  const cursors: { rowsRead: number; rowsWritten: number }[] = [];
  sql.exec = ((...given: Parameters<typeof exec>) => {
    const cursor = exec(...given);
    cursors.push(cursor);
    return cursor;
  }) as typeof sql.exec;
  act();
  sql.exec = exec;
  return cursors;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
