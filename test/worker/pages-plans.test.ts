/** The pages of people and accounts read by indexes alone, whatever is asked for: growing tables cost them nothing. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/durable-sqlite";
import { expect, test } from "vitest";
import { findAccounts, readAccountPage } from "../../src/store/account-page.ts";
import { findPeople } from "../../src/store/people-search.ts";
import { readPersonPage } from "../../src/store/person-page.ts";
import type { AccountsQuery, PeopleQuery } from "../../src/store/protocol.ts";
import { deliver } from "./deliver.ts";

const PEOPLE: PeopleQuery[] = [
  ...(["newest", "last_seen", "score", "email"] as const).map((sort) => ({ sort })),
  ...(["email", "name"] as const).map((by) => ({ by, prefix: "j" })),
];
const ACCOUNTS: AccountsQuery[] = [{ sort: "newest" }, { sort: "last_seen" }, { prefix: "a" }];

/** Lists of a statement's own. */
const SMALL = /^SCAN (json_each|latest|span)\b/;
const NOT_BEING_DELETED = 'where "people"."id" NOT IN (SELECT person_id FROM erasures WHERE person_id IS NOT NULL) ';

test("no statement scans a table that grows, or sorts what it has read", async () => {
  const workspaceId = `ws-plans-${crypto.randomUUID()}`;
  await deliver(workspaceId, [{ id: "sig_1", payload: { email: "jane@example.com", event: "e" } }]);
  const plans = await runInDurableObject(env.SIGNAL_STORE.getByName(workspaceId), (_, { storage }) => {
    storage.sql.exec(
      `INSERT INTO product_orgs (external_id, attributes, claims, first_seen, last_seen) VALUES ('acme', '{}', '{}', 1, 1)`,
    );
    const asked = new Map<string, number>();
    const spy = new Proxy(storage.sql, {
      get: (sql, name: keyof SqlStorage) =>
        name === "exec"
          ? (text: string, ...values: unknown[]) => (asked.set(text, values.length), sql.exec(text, ...values))
          : sql[name],
    });
    const db = drizzle({ sql: spy } as unknown as DurableObjectStorage);
    for (const cursor of [null, "1.1", "7"]) {
      const page = { cursor, limit: 25 };
      for (const query of PEOPLE) findPeople(db, query, page);
      for (const query of ACCOUNTS) findAccounts(db, query, page);
      for (const timeline of ["all", "scores"] as const) readPersonPage(db, spy, "jane@example.com", timeline, page);
      readAccountPage(db, "acme", { ...page, cursor: cursor === null ? null : "1.1.plan" });
    }
    return [...asked].map(([text, count]) => ({
      text,
      details: storage.sql
        .exec<{ detail: string }>(`EXPLAIN QUERY PLAN ${text}`, ...Array.from({ length: count }, () => 1))
        .toArray()
        .map(({ detail }) => detail),
    }));
  });
  expect(plans.length).toBeGreaterThan(25);
  for (const { text, details } of plans) {
    for (const detail of details) {
      // The steps of a curve, of which there are few.
      if (!text.startsWith("WITH latest")) expect(detail, text).not.toContain("TEMP B-TREE FOR ORDER BY");
      if (!detail.startsWith("SCAN ") || SMALL.test(detail)) continue;
      // The first page of a list: it begins where the index does, and ends with the limit.
      expect(detail, text).toMatch(/^SCAN (people|product_orgs)( USING INDEX \w+)?$/);
      expect(text.replace(NOT_BEING_DELETED, "")).toMatch(/from "\w+" order by .* limit \?$/);
    }
  }
});
