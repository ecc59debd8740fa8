/** What the addresses of the lists of people and accounts ask for. */
import { expect, test } from "vitest";
import { readAccountsQuery, readPeopleQuery } from "../../src/pages/people-query.ts";

test("without anything, the newest come first, and the address says nothing", () => {
  expect(readPeopleQuery({})).toEqual({ q: "", by: "email", sort: "newest", query: { sort: "newest" }, shown: {} });
  expect(readAccountsQuery({})).toEqual({ q: "", sort: "newest", query: { sort: "newest" }, shown: {} });
});

test("an order, or a search, which comes in an order of its own", () => {
  expect(readPeopleQuery({ sort: "score" }).query).toEqual({ sort: "score" });
  expect(readPeopleQuery({ sort: "score", q: " Jane ", by: "name" }).query).toEqual({ by: "name", prefix: "Jane" });
  expect(readAccountsQuery({ sort: "last_seen" }).query).toEqual({ sort: "last_seen" });
  expect(readAccountsQuery({ q: "acme-" }).query).toEqual({ prefix: "acme-" });
});

test("what is shown is kept for the next page", () => {
  const asked = { q: "jane", by: "name", sort: "email", cursor: "7.jane" };
  expect(readPeopleQuery(asked).shown).toEqual(asked);
  expect(readPeopleQuery({ ...asked, other: "x" }).shown).toEqual(asked);
});

test("what makes no sense is as if it were not there", () => {
  expect(readPeopleQuery({ sort: "toString", by: "constructor", q: "  " }).query).toEqual({ sort: "newest" });
  expect(readAccountsQuery({ sort: "score" }).query).toEqual({ sort: "newest" });
  expect(readPeopleQuery({ q: "\ud800".padEnd(400, "x") }).q).toBe(`\ufffd${"x".repeat(254)}`);
});
