/** The cost of SQL: sizes of rows as the platform measures them, and rows read and written. */

/** The platform rejects larger rows; workerd does not. */
export const PLATFORM_ROW_MAX_BYTES = 2_000_000;

/** Bytes of the largest row of each non-empty table. */
export function largestRows(sql: SqlStorage): Map<string, number> {
  const tables = sql.exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table'").toArray();
  const rows = tables.flatMap(({ name }) => {
    if (name.startsWith("_cf_")) return [];
    const columns = sql.exec<{ name: string }>(`PRAGMA table_info("${name}")`).toArray();
    const size = columns.map((column) => `coalesce(length(CAST("${column.name}" AS BLOB)), 0)`).join(" + ");
    const [largest] = sql.exec<{ bytes: number | null }>(`SELECT max(${size}) AS bytes FROM "${name}"`);
    const bytes = largest?.bytes ?? null;
    return bytes === null ? [] : [[name, bytes] as const];
  });
  return new Map(rows);
}

/** Bytes of the heads of the logs without their lines. */
export function headMetaBytes(sql: SqlStorage): number {
  return sql.exec<{ bytes: number }>("SELECT max(length(CAST(meta AS BLOB))) AS bytes FROM heads").one().bytes;
}

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
