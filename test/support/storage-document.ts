/** docs/storage.md as data: its tables of fields, compared with stored rows, and written again with their values. */
import {
  jsonType,
  leavesOf,
  deepest,
  type Column,
  type Leaf,
  type Row,
  type Shape,
  type Stored,
} from "./stored-rows.ts";

/** A row of a table in the document. */
export interface Described {
  name: string;
  type: string;
  meaning: string;
  example: string;
}

/** By the heading of the section, and the name in the heading of the table. */
export type Document<Item> = ReadonlyMap<string, ReadonlyMap<string, readonly Item[]>>;

/** A column, or a field of the value of a column or of a message. */
export interface Field {
  name: string;
  /** The type that the schema declares; of a field, the types of its values. */
  types: string[];
  isColumn: boolean;
  /** Reads the text of a column; null: it is no JSON and has no other grammar. */
  read: ((text: string) => unknown) | null;
  /** Null: there is none in any row. */
  example: string;
}

export interface Reading extends Shape {
  /** Reads texts that are not JSON, by table and column such as `people.recent`. */
  readers: Record<string, (text: string) => unknown>;
  /** Shows blobs that are a text, and hides parts of secrets, by table and column. */
  shown: Record<string, (value: SqlStorageValue) => string>;
  /** Tables whose rows are values by name, with the column of the name. */
  namedValues: Record<string, string>;
  /** Texts that the rows of the examples have, so that the examples belong together. */
  favourites: readonly string[];
}

const HEADER = ["Column", "Type", "Meaning", "Example"];
const EXAMPLE_MAX_CHARACTERS = 64;
const NO_EXAMPLE = "fields below";
const NOT_WRITTEN = "TODO";

export function parseDocument(text: string): Document<Described> {
  const sections = new Map<string, Map<string, Described[]>>();
  for (const [section, names, line] of linesOf(text)) {
    const tables = sections.get(section) ?? new Map<string, Described[]>();
    sections.set(section, tables);
    const row = describedBy(line);
    for (const name of names) tables.set(name, [...(tables.get(name) ?? []), ...(row === null ? [] : [row])]);
  }
  return sections;
}

/** The document with the fields, types and examples of the run. New fields have no meaning yet. */
export function rewriteDocument(text: string, fields: Document<Field>): string {
  const written: string[] = [];
  const described = parseDocument(text);
  for (const [section, [table = ""], line] of linesOf(text)) {
    const known = fields.get(section)?.get(table);
    if (!line.startsWith("|") || known === undefined) written.push(line);
    else if (line.startsWith(`| ${HEADER[0]} `))
      written.push(...tableOf(known, described.get(section)?.get(table) ?? []));
  }
  return written.join("\n");
}

function tableOf(fields: readonly Field[], described: readonly Described[]): string[] {
  const rows = fields.map((field) => {
    const before = described.find(({ name }) => name === field.name);
    const unit = before === undefined ? "" : unitOf(before.type);
    return [code(field.name), typeText(field, before) + unit, before?.meaning ?? NOT_WRITTEN, code(field.example)];
  });
  return [HEADER, HEADER.map(() => "-"), ...rows].map((cells) => `| ${cells.join(" | ")} |`);
}

function typeText({ types, isColumn }: Field, before: Described | undefined): string {
  const all = isColumn || before === undefined ? types : [...typesOf(before.type), ...types];
  return [...new Set(all)]
    .filter((type) => type !== "")
    .sort((a, b) => Number(a === "null") - Number(b === "null"))
    .join(" or ");
}

function unitOf(type: string): string {
  const comma = type.indexOf(",");
  return comma === -1 ? "" : type.slice(comma);
}

function typesOf(type: string): string[] {
  return (type.split(",")[0] ?? "").split(" or ");
}

/** Each line with the section and the tables that it belongs to: a heading may name several tables of the same form. */
function* linesOf(text: string): Generator<[section: string, tables: string[], line: string]> {
  let [section, tables]: [string, string[]] = ["", []];
  for (const line of text.split("\n")) {
    const heading = /^## (.*)$/.exec(line)?.[1];
    if (heading !== undefined) [section, tables] = [heading, []];
    if (line.startsWith("### ")) tables = [...line.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);
    yield [section, tables, line];
  }
}

function describedBy(line: string): Described | null {
  const cells = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
  const [, name = "", type = "", meaning = "", example = ""] = cells;
  if (!line.startsWith("| `") || cells.length !== HEADER.length + 2) return null;
  return { name: uncoded(name), type, meaning, example: uncoded(example) };
}

function code(text: string): string {
  return text === NO_EXAMPLE ? text : `\`${text.replaceAll("|", "\\|")}\``;
}

function uncoded(cell: string): string {
  return cell.replace(/^`(.*)`$/, "$1").replaceAll("\\|", "|");
}

/** What is wrong with the document, each as a sentence; empty if it describes exactly what is stored. */
export function problemsOf(described: Document<Described>, fields: Document<Field>): string[] {
  const problems: string[] = [];
  for (const [section, tables] of described) {
    if (tables.size > 0 && !fields.has(section)) problems.push(`${section} stores nothing`);
  }
  for (const [section, tables] of fields) {
    const inDocument = described.get(section) ?? new Map<string, Described[]>();
    for (const table of inDocument.keys())
      if (!tables.has(table)) problems.push(`${section}: \`${table}\` is not stored`);
    for (const [table, wanted] of tables) {
      const rows = inDocument.get(table);
      if (rows === undefined) problems.push(`${section}: \`${table}\` is missing`);
      else problems.push(...problemsOfTable(wanted, rows).map((problem) => `${section}: \`${table}\`${problem}`));
    }
  }
  return problems.map((problem) => `docs/storage.md: ${problem}`);
}

function problemsOfTable(wanted: readonly Field[], rows: readonly Described[]): string[] {
  const problems: string[] = [];
  const fields = new Map(wanted.map((field) => [field.name, field]));
  for (const name of fields.keys())
    if (!rows.some((row) => row.name === name)) problems.push(`: no row describes \`${name}\``);
  for (const [index, row] of rows.entries()) {
    const field = fields.get(row.name);
    const isRepeated = rows.findIndex(({ name }) => name === row.name) < index;
    if (field === undefined) problems.push(` has no \`${row.name}\``);
    else if (isRepeated) problems.push(` describes \`${row.name}\` twice`);
    else problems.push(...problemsOfRow(field, row, rows).map((problem) => `: \`${row.name}\` ${problem}`));
  }
  return problems;
}

function problemsOfRow(field: Field, row: Described, rows: readonly Described[]): string[] {
  const types = typesOf(row.type);
  const problems: string[] = [];
  if (row.meaning === "" || row.meaning === NOT_WRITTEN) problems.push("has no meaning");
  const isSame = field.isColumn
    ? types.join(" or ") === field.types.join(" or ")
    : field.types.every((type) => types.includes(type));
  if (!isSame) problems.push(`is ${field.types.join(" or ")}, not ${types.join(" or ")}`);
  if (row.example === NO_EXAMPLE)
    return rows.some(({ name }) => isPartOf(name, row.name)) ? problems : [...problems, "has no example"];
  if (!fitsType(row, types, field.isColumn)) problems.push(`is ${row.type}, but its example is ${row.example}`);
  if (field.read !== null) problems.push(...problemsOfText(field.read, row, rows));
  return problems;
}

/** The fields of an example that is a text with a grammar are those of its reader, with these values. */
function problemsOfText(read: (text: string) => unknown, row: Described, rows: readonly Described[]): string[] {
  const leaves = leavesOf(row.name, read(row.example === EMPTY ? "" : row.example), {
    isMap: () => false,
    isOpaque: () => false,
  });
  return rows.flatMap(({ name, example }) => {
    if (!isPartOf(name, row.name) || example === "null") return [];
    const values = leaves.filter(({ path }) => path === name).map(({ value }) => shortened(JSON.stringify(value)));
    return values.includes(example) ? [] : [`is read as ${values.join(", ")} in \`${name}\`, not as ${example}`];
  });
}

function isPartOf(name: string, column: string): boolean {
  return name.startsWith(column) && /^[.[{]/.test(name.slice(column.length));
}

const UNITS: Record<string, RegExp> = {
  "ISO 8601": /^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
  /** The years 2001 to 2286. */
  "ms since 1970": /^[1-9]\d{12}$/,
  /** The years 1997 to 2243. */
  "days since 1970": /^\d{5}$/,
};

const SQL_TYPES: Record<string, RegExp> = { INTEGER: /^-?\d+$/, NUMERIC: /^-?\d+$/, TEXT: /./, BLOB: /./ };

function fitsType({ type, example }: Described, types: readonly string[], isColumn: boolean): boolean {
  if (example === "null") return types.includes("null");
  const unit = UNITS[unitOf(type).replace(/^, /, "")];
  const value = isColumn ? example : example.replace(/^"(.*)"$/, "$1");
  if (unit !== undefined && !unit.test(value)) return false;
  if (isColumn) return types.some((name) => SQL_TYPES[name]?.test(example) === true);
  if (example.endsWith("…")) return types.some((name) => JSON_BEGINS[name]?.test(example) === true);
  return types.includes(jsonTypeOfText(example));
}

const JSON_BEGINS: Record<string, RegExp> = { text: /^"/, list: /^\[/, object: /^\{/ };

function jsonTypeOfText(text: string): string {
  try {
    return wordOf(JSON.parse(text));
  } catch {
    return "not JSON";
  }
}

function wordOf(value: unknown): string {
  const type = jsonType(value);
  return type === "string" ? "text" : type;
}

const EMPTY = "''";

function shortened(text: string): string {
  return text.length <= EXAMPLE_MAX_CHARACTERS ? text : `${text.slice(0, EXAMPLE_MAX_CHARACTERS)}…`;
}

/** The fields of a table, with examples of one row as far as it has them. */
export function fieldsOfTable(table: string, { columns, rows }: Stored, reading: Reading): Field[] {
  const best = bestFirst(rows, reading.favourites);
  const fields = columns.flatMap((column) => fieldsOfColumn(`${table}.${column.name}`, column, best, reading));
  const name = reading.namedValues[table];
  return name === undefined ? fields : [...fields, ...fieldsOfNames(name, best)];
}

/** The values of a table with a row for each name, as if the names were columns. */
function fieldsOfNames(column: string, rows: readonly Row[]): Field[] {
  const values = new Map(rows.map((row) => [exampleOf(row[column] ?? null, undefined, true), row["value"] ?? null]));
  return [...values].toSorted().map(([name, value]) => {
    return {
      name: `value of ${name}`,
      types: ["TEXT"],
      isColumn: true,
      read: null,
      example: exampleOf(value, undefined, false),
    };
  });
}

function fieldsOfColumn(place: string, column: Column, rows: readonly Row[], reading: Reading): Field[] {
  const { name, type, isNullable } = column;
  const read = reading.readers[place] ?? null;
  const values = rows.map((row) => row[name] ?? null);
  if (read !== null) values.sort((a, b) => fieldCount(b, read) - fieldCount(a, read));
  const below = fieldsOfValues(
    values.flatMap((value) => (typeof value === "string" ? valueOf(value, read) : [])),
    place,
    reading,
  );
  const [example = null] = values;
  const isShort = read !== null || below.length === 0;
  const self: Field = {
    name,
    types: isNullable ? [type, "null"] : [type],
    isColumn: true,
    read: below.length > 0 ? read : null,
    example: isShort ? exampleOf(example, reading.shown[place], read !== null) : NO_EXAMPLE,
  };
  const prefix = place.slice(0, place.indexOf(".") + 1);
  return [self, ...below.map((field) => ({ ...field, name: field.name.slice(prefix.length) }))];
}

/** The example of a text with a grammar has all fields that such texts have. */
function fieldCount(text: SqlStorageValue, read: (text: string) => unknown): number {
  const leaves = leavesOf("", read(typeof text === "string" ? text : ""), {
    isMap: () => false,
    isOpaque: () => false,
  });
  return new Set(leaves.filter(({ value }) => value !== null).map(({ path }) => path)).size;
}

/** Empty: the text has no fields. */
function valueOf(text: string, read: ((text: string) => unknown) | null): unknown[] {
  if (read !== null) return [read(text)];
  if (!/^\s*[[{]/.test(text)) return [];
  try {
    return [JSON.parse(text)];
  } catch {
    return [];
  }
}

/** The fields of values that have the same form. @param values the first ones give the examples. */
export function fieldsOfValues(values: readonly unknown[], root: string, shape: Shape): Field[] {
  const leaves = values.map((value) => leavesOf(root, value, shape));
  const paths = deepest(leaves.flat().map(({ path }) => path));
  return grouped([...paths])
    .filter((path) => path !== root)
    .map((path) => {
      const found: Leaf[] = leaves.flat().filter((leaf) => leaf.path === path);
      const { value } = found.find((leaf) => leaf.value !== null && !isEmpty(leaf.value)) ??
        found[0] ?? { value: null };
      const types = [...new Set(found.map((leaf) => wordOf(leaf.value)))];
      return { name: path, types, isColumn: false, read: null, example: shortened(JSON.stringify(value ?? null)) };
    });
}

/** Fields of the same object stand together, in the order of its first field. */
function grouped(paths: readonly string[]): string[] {
  const prefixesOf = (path: string) =>
    path.split(/(?=[.[{])/).map((_, index, parts) => parts.slice(0, index + 1).join(""));
  const first = new Map<string, number>();
  for (const [index, path] of paths.entries())
    for (const prefix of prefixesOf(path)) if (!first.has(prefix)) first.set(prefix, index);
  const order = (path: string) => prefixesOf(path).map((prefix) => first.get(prefix) ?? 0);
  const compare = (a: number[], b: number[]) =>
    a.map((place, depth) => place - (b[depth] ?? 0)).find((by) => by !== 0) ?? 0;
  return paths.toSorted((a, b) => compare(order(a), order(b)));
}

function isEmpty(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

/** Rows with the most favourites come first, then those with the most values, then the latest. */
function bestFirst(rows: readonly Row[], favourites: readonly string[]): Row[] {
  const ranks = rows.map((row, index) => {
    const text = Object.values(row)
      .map((value) => (value instanceof ArrayBuffer ? new TextDecoder().decode(value) : String(value)))
      .join(" ");
    const liked = favourites.filter((favourite) => text.includes(favourite)).length;
    const filled = Object.values(row).filter((value) => value !== null && value !== "" && value !== 0).length;
    return { row, rank: [liked, filled, index] };
  });
  const order = (a: number[], b: number[]): number =>
    a.map((rank, place) => (b[place] ?? 0) - rank).find((by) => by !== 0) ?? 0;
  return ranks.toSorted((a, b) => order(a.rank, b.rank)).map(({ row }) => row);
}

const HEX_BYTES = 8;

function exampleOf(
  value: SqlStorageValue,
  shown: ((value: SqlStorageValue) => string) | undefined,
  isWhole: boolean,
): string {
  if (shown !== undefined && value !== null) return shortened(shown(value));
  if (value instanceof ArrayBuffer) {
    const hex = Buffer.from(value).toString("hex");
    return hex.length <= HEX_BYTES * 2 ? `x'${hex}'` : `x'${hex.slice(0, HEX_BYTES * 2)}'…`;
  }
  const text = String(value).trim();
  if (text === "") return EMPTY;
  return isWhole ? text : shortened(text.replaceAll("\n", "⏎"));
}
