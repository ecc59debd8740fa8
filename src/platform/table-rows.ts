/** Copies rows of an object's tables, for the file of a workspace: a few at a time, in the order of the primary key. */

/** Bytes are `{ base64 }`. */
type FileValue = string | number | null | { base64: string };
export type FileRow = Record<string, FileValue>;

/** Where reading goes on; `after`: the primary key of the last row; null: before the first row of the table. */
export interface TablePlace {
  table: number;
  after: SqlStorageValue[] | null;
}

export interface TableLine {
  table: string;
  row: FileRow;
}

const ROWS_AT_ONCE = 2_000;

/**
 * @param tables in the order of the file. @param maxBytes of the values, except that one row may be longer.
 * @returns `next` null: all rows were read.
 */
export function readRows(
  sql: SqlStorage,
  tables: readonly string[],
  place: TablePlace,
  maxBytes: number,
): { lines: TableLine[]; next: TablePlace | null } {
  const lines: TableLine[] = [];
  let { table: index, after } = place;
  let bytes = 0;
  for (; ; index++, after = null) {
    const table = tables[index];
    if (table === undefined) return { lines, next: null };
    const key = primaryKeyOf(sql, table);
    for (let more = true; more;) {
      const from = after === null ? "" : `WHERE (${key.join(", ")}) > (${key.map(() => "?").join(", ")})`;
      const rows = sql.exec(
        `SELECT * FROM ${table} ${from} ORDER BY ${key.join(", ")} LIMIT ${ROWS_AT_ONCE}`,
        ...(after ?? []),
      );
      let read = 0;
      for (const row of rows) {
        read++;
        after = key.map((column) => row[column] ?? null);
        lines.push({ table, row: toFile(row) });
        bytes += bytesOf(row);
        if (bytes >= maxBytes) return { lines, next: { table: index, after } };
      }
      more = read === ROWS_AT_ONCE;
    }
  }
}

/** Idempotent: a row with the same primary key is replaced. @throws if the table does not have a column. */
export function writeRows(sql: SqlStorage, lines: readonly TableLine[]): void {
  for (const { table, row } of lines) {
    const columns = Object.keys(row);
    const values = Object.values(row).map(fromFile);
    const marks = columns.map(() => "?").join(", ");
    sql.exec(`INSERT OR REPLACE INTO ${table} (${columns.map(quoted).join(", ")}) VALUES (${marks})`, ...values);
  }
}

/** The text of a column; empty if it has another kind of value. */
export function textIn(row: FileRow, column: string): string {
  const value = row[column];
  return typeof value === "string" ? value : "";
}

function primaryKeyOf(sql: SqlStorage, table: string): string[] {
  const columns = sql.exec<{ name: string }>("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", table);
  return columns.toArray().map(({ name }) => name);
}

export function toFile(row: Record<string, SqlStorageValue>): FileRow {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      value instanceof ArrayBuffer ? { base64: Buffer.from(value).toString("base64") } : value,
    ]),
  );
}

function fromFile(value: FileValue): SqlStorageValue {
  if (typeof value !== "object" || value === null) return value;
  const bytes = Buffer.from(value.base64, "base64");
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
}

function bytesOf(row: Record<string, SqlStorageValue>): number {
  let bytes = 0;
  for (const value of Object.values(row)) {
    bytes += value instanceof ArrayBuffer ? value.byteLength : typeof value === "string" ? value.length : 8;
  }
  return bytes;
}

function quoted(column: string): string {
  return `"${column.replaceAll('"', '""')}"`;
}
