export function insertRow(sql: SqlStorage, table: string, row: object): void {
  const columns = Object.keys(row);
  const values = Object.values(row) as SqlStorageValue[];
  sql.exec(`INSERT INTO ${table} (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`, ...values);
}

/**
 * Names only changed columns: an UPDATE writes each index whose column it names.
 * @param keys columns that identify the row. @returns whether a column changed.
 */
export function updateRow<Row extends object>(
  sql: SqlStorage,
  table: string,
  keys: readonly (keyof Row & string)[],
  before: Partial<Row>,
  now: Row,
): boolean {
  const columns = (Object.keys(now) as (keyof Row & string)[]).filter((column) => before[column] !== now[column]);
  if (columns.length === 0) return false;
  const set = columns.map((column) => `${column} = ?`).join(", ");
  const where = keys.map((column) => `${column} = ?`).join(" AND ");
  const values = [...columns, ...keys].map((column) => now[column] as SqlStorageValue);
  sql.exec(`UPDATE ${table} SET ${set} WHERE ${where}`, ...values);
  return true;
}

/** The platform accepts a view of a buffer as a parameter, although its types name buffers only. */
export function toSqlBlob(bytes: Uint8Array): SqlStorageValue {
  return bytes as SqlStorageValue & Uint8Array;
}
