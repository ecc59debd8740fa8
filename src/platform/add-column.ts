/** Columns that tables of existing Durable Objects do not have yet. */

/** Adds the column where the table has none of its name, as in an object of version 0.1.0. @param column its name and type. */
export function addColumn(sql: SqlStorage, table: string, column: string): void {
  const [name] = column.split(" ");
  const has = sql.exec("SELECT 1 FROM pragma_table_info(?) WHERE name = ?", table, name).toArray().length > 0;
  if (!has) sql.exec(`ALTER TABLE ${table} ADD COLUMN ${column}`);
}
