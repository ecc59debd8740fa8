/**
 * The whole content of a workspace in an object's database and the bucket as one text, with compressed data expanded.
 */
import { env } from "cloudflare:workers";
import { COLUMNS, Lines, unpackPayloads } from "../../src/store/log/columns.ts";
import { listOfKey } from "../../src/store/people/timelines.ts";

const PACKED: Record<string, (bytes: ArrayBuffer) => string> = {
  signals_facts: textOfLines,
  held_facts: textOfLines,
  signals_payloads: textOfPayloads,
  held_payloads: textOfPayloads,
};

const KEYS = ["key", "other_key", "list"];

/** Texts of the facts are already included. */
const LEFT_OUT = { cell: (_index: number, name: string) => `(${name})` };

/** Each segment in an object is a zstd frame, which begins with these bytes. */
const FRAME = Buffer.from("28b52ffd", "hex");

type Column = { table: string; name: string; type: string };

/** The columns of our tables. */
const ALL_COLUMNS = `
  SELECT tables.name AS "table", columns.name, columns.type
  FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns
  WHERE tables.type = 'table' AND tables.name NOT LIKE '\\_cf%' ESCAPE '\\'
    AND tables.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND tables.name NOT LIKE 'd1\\_%' ESCAPE '\\'`;

export function textOfTables(sql: SqlStorage): string {
  const tables = sql.exec<{ name: string }>(
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
  );
  return tables
    .toArray()
    .flatMap(({ name }) =>
      sql
        .exec(`SELECT * FROM "${name}"`)
        .toArray()
        .map(
          (row) =>
            `${name} ${Object.entries(row)
              .map(([column, value]) => textOf(name, column, value))
              .join(" ")}`,
        ),
    )
    .join("\n");
}

/**
 * The content of each text column of an object's database, by `table.column`. Stored lines count as one column for
 * each of their fields.
 */
export function textsOfColumns(sql: SqlStorage): Map<string, string> {
  const columns = sql.exec<Column>(ALL_COLUMNS);
  const texts = new Map<string, string>();
  for (const { table, name, type } of columns.toArray()) {
    if (/^integer$/i.test(type)) continue;
    const values = sql.exec(`SELECT "${name}" FROM "${table}"`).toArray();
    if (name === "facts" && PACKED[table] === textOfLines) {
      const textColumns = COLUMNS.filter(({ is }) => is === "text");
      for (const { name: column } of textColumns) texts.set(`${table}.facts.${column}`, "");
      for (const { facts } of values) {
        const lines = Lines.unpack(facts as ArrayBuffer);
        for (const { name: column } of textColumns) {
          const place = `${table}.facts.${column}`;
          texts.set(place, `${texts.get(place)}\n${lines.column(column).join("\n")}`);
        }
      }
    } else texts.set(`${table}.${name}`, values.map((row) => textOf(table, name, row[name] ?? null)).join("\n"));
  }
  return texts;
}

/** The same for the database that all workspaces share. */
export async function textsOfD1(): Promise<Map<string, string>> {
  const { results } = await env.DB.prepare(ALL_COLUMNS).all<Column>();
  const columns = results.filter(({ type }) => !/^integer$/i.test(type));
  const texts = columns.map(async ({ table, name }) => {
    const { results: rows } = await env.DB.prepare(`SELECT "${name}" AS value FROM "${table}"`).all<{
      value: unknown;
    }>();
    return [`${table}.${name}`, rows.map(({ value }) => String(value)).join("\n")] as const;
  });
  return new Map(await Promise.all(texts));
}

export async function textOfBucket(workspaceId: string, bucket = env.COLD): Promise<string> {
  const { objects } = await bucket.list({ prefix: `cold/${workspaceId}/` });
  const texts = objects.map(async ({ key }) => {
    const found = await bucket.get(key);
    if (found === null) return "";
    const bytes = Buffer.from(await found.arrayBuffer());
    const segments: string[] = [];
    for (let at = 0, end = 0; at < bytes.length; at = end) {
      const next = bytes.indexOf(FRAME, at + 1);
      end = next === -1 ? bytes.length : next;
      segments.push(textOfPayloads(bytes.subarray(at, end)));
    }
    return segments.join("\n");
  });
  return (await Promise.all(texts)).join("\n");
}

function textOfLines(bytes: ArrayBuffer): string {
  const lines = Lines.unpack(bytes);
  return Array.from({ length: lines.length }, (_, index) => JSON.stringify(lines.facts(index))).join("\n");
}

function textOfPayloads(bytes: ArrayBuffer | Uint8Array): string {
  return unpackPayloads(bytes, LEFT_OUT).join("\n");
}

function textOf(table: string, column: string, value: SqlStorageValue): string {
  if (!(value instanceof ArrayBuffer)) return String(value);
  if (KEYS.includes(column)) return listOfKey(value);
  const expand = column === "facts" || column === "payloads" ? PACKED[table] : undefined;
  return expand === undefined ? new TextDecoder().decode(value) : expand(value);
}
