/** What `npm run deploy:setup` writes into wrangler.toml. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { missingInConfig, readSections } from "../../../../src/dev/deploy/deploy-checks.ts";
import { createdDatabaseId, withDatabase, withJurisdiction } from "../../../../src/dev/deploy/setup-file.ts";

const TOML = readFileSync(path.resolve(import.meta.dirname, "../../../../wrangler.toml"), "utf8");
const ID = "0b6a1f6e-1111-4222-8333-444455556666";

function sectionsOf(toml: string) {
  const folder = mkdtempSync(path.join(os.tmpdir(), "signal-ingestion-setup-"));
  try {
    writeFileSync(path.join(folder, "wrangler.toml"), toml);
    return readSections(path.join(folder, "wrangler.toml"));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe.each([[undefined], ["staging"]])("in the environment %s", (environment) => {
  const of = (toml: string) => sectionsOf(toml).find((section) => section.environment === environment)?.config;
  const other = (toml: string) => sectionsOf(toml).find((section) => section.environment !== environment)?.config;

  test("the jurisdiction is that of the objects and of the bucket, and nothing else changes", () => {
    const changed = withJurisdiction(TOML, environment, "eu");
    expect(of(changed)).toMatchObject({ vars: { JURISDICTION: "eu" }, r2_buckets: [{ jurisdiction: "eu" }] });
    expect(other(changed)?.vars).toEqual(other(TOML)?.vars);
    expect(other(changed)?.r2_buckets).toEqual(other(TOML)?.r2_buckets);
    const lines = new Set(TOML.split("\n"));
    expect(changed.split("\n").filter((line) => !lines.has(line))).toHaveLength(2);
    expect(
      missingInConfig(sectionsOf(changed), environment).filter(({ problem }) => problem.includes("urisdiction")),
    ).toEqual([]);
  });

  test("a second run changes nothing, and another place is rejected", () => {
    const changed = withJurisdiction(TOML, environment, "eu");
    expect(withJurisdiction(changed, environment, "eu")).toBe(changed);
    expect(withJurisdiction(TOML, environment, "none")).toBe(TOML);
    expect(() => withJurisdiction(changed, environment, "us")).toThrow('JURISDICTION = "eu" already');
  });

  test("the database gets its id, once", () => {
    const changed = withDatabase(TOML, environment, ID);
    expect(of(changed)?.d1_databases[0]?.database_id).toBe(ID);
    expect(other(changed)?.d1_databases[0]?.database_id).toMatch(/^[0-]+$/);
    expect(() => withDatabase(changed, environment, ID)).toThrow("has no place");
  });
});

test("an environment that the file lacks is named", () => {
  expect(() => withJurisdiction(TOML, "test", "eu")).toThrow("wrangler.toml has no [env.test].");
});

test.each([
  [`[[d1_databases]]\nbinding = "DB"\ndatabase_name = "signal-ingestion"\ndatabase_id = "${ID}"`, ID],
  [`{ "d1_databases": [ { "binding": "DB", "database_id": "${ID}" } ] }`, ID],
  ["✘ [ERROR] A database with that name already exists", null],
])("the id is read from wrangler's output %#", (out, id) => {
  expect(createdDatabaseId(out)).toBe(id);
});
