/** The rows that a database has had in a test, and the fields of their values, for docs/storage.md. */

type SqlValue = SqlStorageValue;
export type Row = Record<string, SqlValue>;

export interface Column {
  name: string;
  type: string;
  isNullable: boolean;
}

/** A stored table, or something that the document shows like one: a message, a key of an object's storage. */
export interface Stored {
  columns: Column[];
  rows: Row[];
}

type Query = (sql: string) => Row[] | Promise<Row[]>;

const SEEN = "seen ";

/** The tables that the code creates, without those of SQLite, the platform and `watchRows`. */
const OUR_TABLES = `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '${SEEN}%'
  AND name NOT LIKE '\\_cf%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'd1\\_%' ESCAPE '\\'`;

function textOf(value: SqlValue | undefined): string {
  if (typeof value !== "string") throw new Error("not a text");
  return value;
}

async function columnsOf(query: Query, table: string): Promise<Column[]> {
  const columns = await query(
    `SELECT name, upper(type) AS type, "notnull" AS required, pk FROM pragma_table_xinfo('${table}')`,
  );
  return columns.map(({ name, type, required, pk }) => {
    // SERIAL, of drizzle's table, means nothing to SQLite, so its primary key can be null.
    const isNullable = required === 0 && (pk === 0 || type === "SERIAL");
    return { name: textOf(name), type: textOf(type), isNullable };
  });
}

/** From now on remembers each row as it was written, because many rows are deleted within seconds. */
export async function watchRows(sql: SqlStorage): Promise<void> {
  const query = (text: string): Row[] => sql.exec<Row>(text).toArray();
  for (const { name } of query(OUR_TABLES)) {
    const table = textOf(name);
    // oxlint-disable-next-line no-await-in-loop -- synchronous
    const columns = (await columnsOf(query, table)).map((column) => `new."${column.name}"`);
    sql.exec(`CREATE TABLE "${SEEN}${table}" AS SELECT * FROM "${table}"`);
    for (const change of ["INSERT", "UPDATE"]) {
      sql.exec(`CREATE TRIGGER "${SEEN}${change} ${table}" AFTER ${change} ON "${table}" BEGIN
        INSERT INTO "${SEEN}${table}" VALUES (${columns.join(", ")}); END`);
    }
  }
}

/** All tables of a database, with the rows that it has or, if they are watched, has had. */
export async function storedIn(query: Query, isWatched: boolean): Promise<Map<string, Stored>> {
  const tables = new Map<string, Stored>();
  for (const { name } of await query(OUR_TABLES)) {
    const table = textOf(name);
    // oxlint-disable-next-line no-await-in-loop -- one connection
    const rows = await query(`SELECT * FROM "${isWatched ? SEEN : ""}${table}"`);
    // oxlint-disable-next-line no-await-in-loop -- one connection
    tables.set(table, { columns: await columnsOf(query, table), rows });
  }
  return tables;
}

/** A field of a value, at the end of a path such as `meta.evaluated.sinceSeq`. */
export interface Leaf {
  path: string;
  value: unknown;
}

export interface Shape {
  /** Objects whose keys are data, such as ids. Their path gets `{}`. */
  isMap: (path: string) => boolean;
  /** Values that the document does not describe field by field. */
  isOpaque: (path: string) => boolean;
}

export function leavesOf(path: string, value: unknown, shape: Shape): Leaf[] {
  if (typeof value !== "object" || value === null || shape.isOpaque(path)) return [{ path, value }];
  if (Array.isArray(value)) {
    const items = value.flatMap((item) => leavesOf(`${path}[]`, item, shape));
    const areScalars = items.every((item) => item.path === `${path}[]`);
    return areScalars ? [{ path, value }] : items;
  }
  const fields = Object.entries(value);
  if (shape.isMap(path)) {
    return fields.length === 0
      ? [{ path: `${path}{}`, value: null }]
      : fields.flatMap(([, item]) => leavesOf(`${path}{}`, item, shape));
  }
  if (fields.length === 0) return [{ path, value }];
  return fields.flatMap(([name, item]) => leavesOf(`${path}.${name}`, item, shape));
}

/** Leaves out an absent object or list if another value of the same place has fields. */
export function deepest(paths: Iterable<string>): Set<string> {
  const all = new Set(paths);
  const isPrefix = (path: string) =>
    [...all].some(
      (other) => other.length > path.length && other.startsWith(path) && /[.[{]/.test(other[path.length] ?? ""),
    );
  return new Set([...all].filter((path) => !isPrefix(path)));
}

export function jsonType(value: unknown): string {
  if (value === null || value === undefined) return "null";
  return Array.isArray(value) ? "list" : typeof value;
}
