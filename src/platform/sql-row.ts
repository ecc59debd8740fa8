/** Rows of a Durable Object's tables, as objects that have a property for each column. */

export function insertRow(sql: SqlStorage, table: string, row: object): void {
  const columns = Object.keys(row);
  const values = Object.values(row) as SqlStorageValue[];
  sql.exec(`INSERT INTO ${table} (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`, ...values);
}

/**
 * Updates the changed columns only: a statement that names an indexed column writes a row of the index, even for the same value.
 *
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
