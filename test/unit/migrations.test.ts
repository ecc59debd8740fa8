/**
 * The migrations are what the schemas say: drizzle-kit, asked in a copy of them, finds nothing to generate. And the tables that a schema
 * calls WITHOUT ROWID are so, which drizzle-kit does not know.
 */
import { execFileSync } from "node:child_process";
import { cpSync, globSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";

const ROOT = path.join(import.meta.dirname, "../..");

const DATABASES = [
  ["d1", "src/d1/database.ts", []],
  ["quota-counter", "src/quota/schema.ts", ["--driver", "durable-sqlite"]],
  ["signal-store", "src/store/**/schema.ts", ["--driver", "durable-sqlite"]],
  ["destinations", "src/notifications/schema.ts", ["--driver", "durable-sqlite"]],
] as const;

test.each(DATABASES)("the migrations in %s make the tables that %s declares", (database, schema, driver) => {
  const copy = mkdtempSync(path.join(tmpdir(), "migrations-"));
  try {
    cpSync(path.join(ROOT, "migrations", database), copy, { recursive: true });
    const before = readdirSync(copy);
    const kit = path.join(ROOT, "node_modules/drizzle-kit/bin.cjs");
    const output = execFileSync(
      process.execPath,
      // drizzle-kit puts a dot in front of some paths, so it accepts only relative paths.
      [kit, "generate", "--dialect", "sqlite", ...driver, "--schema", schema, "--out", path.relative(ROOT, copy)],
      { cwd: ROOT, encoding: "utf8" },
    );
    expect(output).toContain("nothing to migrate");
    expect(readdirSync(copy)).toEqual(before);
  } finally {
    rmSync(copy, { recursive: true });
  }
});

test.each(DATABASES)("the migrations in %s make the tables WITHOUT ROWID that %s calls so", (database, schema) => {
  const folder = path.join(ROOT, "migrations", database);
  const db = new DatabaseSync(":memory:");
  const files = readdirSync(folder).filter((name) => name.endsWith(".sql"));
  for (const file of files.sort()) db.exec(readFileSync(path.join(folder, file), "utf8"));
  const made = db.prepare("SELECT name FROM pragma_table_list WHERE wr = 1").all();

  const sources = globSync(schema, { cwd: ROOT }).map((file) => readFileSync(path.join(ROOT, file), "utf8"));
  const source = sources.join("\n");
  // A comment, and the first table or function after it. A function makes the table of each log.
  const declared = [...source.matchAll(/WITHOUT ROWID\.[^\n]* \*\/\n[^"`]*["`](\$\{log\}_)?(\w+)/g)].flatMap(
    ([, isOfLogs, name = ""]) => (isOfLogs === undefined ? [name] : [`signals_${name}`, `held_${name}`]),
  );
  expect(made.map(({ name }) => name).toSorted()).toEqual(declared.toSorted());
});
