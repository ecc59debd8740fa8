/** How Durable Objects make their tables: each migration once, in one transaction. */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { makeTables } from "../../../src/platform/make-tables.ts";

/** The object's own migration, then these. */
const withMigrations = (...texts: string[]) => {
  const all = ["CREATE TABLE ledger (never TEXT)", ...texts];
  return {
    journal: { entries: all.map((_, idx) => ({ idx, tag: `the ${idx}th` })) },
    migrations: Object.fromEntries(all.map((text, idx) => [`m000${idx}`, text])),
  };
};

const tablesOf = (sql: SqlStorage) =>
  sql
    .exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'added_*' ORDER BY name")
    .toArray()
    .map(({ name }) => name);

test("an object makes each table once, and makes nothing of a migration that fails", async () => {
  const stub = env.QUOTA_COUNTER.getByName(crypto.randomUUID());
  await runInDurableObject(stub, (_, { storage }) => {
    makeTables(storage, withMigrations("CREATE TABLE added_1 (id); CREATE TABLE added_2 (id)"));
    makeTables(storage, withMigrations("SELECT broken"));
    expect(() => makeTables(storage, withMigrations("SELECT broken", "CREATE TABLE added_3 (id); broken"))).toThrow(
      "broken",
    );
    const missing = { ...withMigrations("", ""), migrations: {} };
    expect(() => makeTables(storage, missing)).toThrow("the migration the 2th is missing");
    expect(tablesOf(storage.sql)).toEqual(["added_1", "added_2"]);
    makeTables(storage, withMigrations("SELECT broken", "CREATE TABLE added_3 (id)"));
  });
  await evictDurableObject(stub);
  await runInDurableObject(stub, (_, { storage }) => {
    expect(tablesOf(storage.sql)).toEqual(["added_1", "added_2", "added_3"]);
  });
});

test("an object that has its tables reads one number at its start", async () => {
  const stub = env.QUOTA_COUNTER.getByName(crypto.randomUUID());
  await runInDurableObject(stub, (_, { storage }) => {
    const queries: string[] = [];
    const exec = storage.sql.exec.bind(storage.sql);
    storage.sql.exec = ((query: string, ...values: SqlStorageValue[]) => {
      queries.push(query);
      return exec(query, ...values);
    }) as typeof exec;
    makeTables(storage, withMigrations());
    expect(queries).toEqual([]);
  });
});
