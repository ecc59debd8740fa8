/** The migrations are what the schemas say: drizzle-kit, asked in a copy of them, finds nothing to generate. */
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";

const ROOT = path.join(import.meta.dirname, "../..");

test.each([
  ["d1", "src/control/database.ts", []],
  ["signal-store", "src/store/schema.ts", ["--driver", "durable-sqlite"]],
])("the migrations in %s make the tables that %s declares", (database, schema, driver) => {
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
