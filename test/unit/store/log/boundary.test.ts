/** Only src/store/log/ knows how lines are stored, and the rules of .oxlintrc.json that say so name files that exist. */
import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { getTableColumns, getTableName, isTable, type Table } from "drizzle-orm";
import { expect, test } from "vitest";
import * as z from "zod";
import * as logSchema from "../../../../src/store/log/schema.ts";
import * as storeSchema from "../../../../src/store/schema.ts";

const ROOT = path.join(import.meta.dirname, "../../../..");

const tablesOf = (schema: object): Table[] => Object.values(schema).filter((value) => isTable(value));
const columnsOf = (tables: readonly Table[]): string[] =>
  tables.flatMap((table) => Object.values(getTableColumns(table)).map(({ name }) => name));

function sourcesOutsideLog(): [file: string, text: string][] {
  return globSync("src/store/**/*.ts", { cwd: ROOT })
    .filter((file) => !file.startsWith("src/store/log/"))
    .map((file) => [file, readFileSync(path.join(ROOT, file), "utf8")]);
}

test("no file outside names a table, a column or a segment of the log", () => {
  const tables = tablesOf(logSchema);
  const others = new Set(columnsOf(tablesOf(storeSchema)));
  const isOfLog = (name: string): boolean => name.includes("_") && !others.has(name);
  const columns = columnsOf(tables).filter(isOfLog);
  expect(columns).toEqual(expect.arrayContaining(["first_seq", "cold_offset", "received_from"]));
  const names = [...new Set([...tables.map(getTableName).filter(isOfLog), ...columns])];
  const word = new RegExp(`\\b(?:${[...names, "Segment"].join("|")})\\b`);
  const found = sourcesOutsideLog().flatMap(([file, text]) => {
    const match = word.exec(text);
    return match === null ? [] : [`${file}: ${match[0]}`];
  });
  expect(found).toEqual([]);
});

test("no query reads dead letters past the gate", () => {
  const found = sourcesOutsideLog().filter(
    ([file, text]) => file.startsWith("src/store/queries/") && /\bdead_letters\b/.test(text),
  );
  expect(found.map(([file]) => file)).toEqual(["src/store/queries/dead-letters.ts"]);
});

test("the rules of imports name files and folders that exist", () => {
  const rules = z.object({
    overrides: z.array(
      z.object({
        files: z.array(z.string()),
        rules: z.object({
          "no-restricted-imports": z
            .tuple([z.string(), z.object({ patterns: z.array(z.object({ group: z.array(z.string()) })) })])
            .optional(),
        }),
      }),
    ),
  });
  const { overrides } = rules.parse(JSON.parse(readFileSync(path.join(ROOT, ".oxlintrc.json"), "utf8")));
  const groups = overrides
    .flatMap((one) => one.rules["no-restricted-imports"]?.[1].patterns ?? [])
    .flatMap(({ group }) => group);
  const named = [...new Set(groups)].filter((pattern) => pattern.includes("/") && /\*\*\//.test(pattern));
  expect(named.length).toBeGreaterThan(10);
  const missing = named.filter((pattern) => globSync(`src/${pattern.replace(/^!/, "")}`, { cwd: ROOT }).length === 0);
  expect(missing.filter((pattern) => pattern.startsWith("**") || pattern.startsWith("!"))).toEqual([]);
  for (const { files } of overrides) {
    for (const file of files) expect(globSync(file, { cwd: ROOT }), file).not.toEqual([]);
  }
});
