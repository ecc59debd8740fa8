/** The queries in the addresses of the lists of people and accounts. */
import { expect, test } from "vitest";
import { readAccountsQuery } from "../../../src/pages/accounts/accounts-query.ts";
import { readPeopleQuery } from "../../../src/pages/people/people-query.ts";

test("without a query the newest people come first, and the address is empty", () => {
  expect(readPeopleQuery({})).toMatchObject({
    q: "",
    sort: "newest",
    minScore: "",
    query: { sort: "newest" },
    shown: {},
  });
  expect(readAccountsQuery({})).toEqual({ q: "", sort: "newest", query: { sort: "newest" }, shown: {} });
});

test("an order, a search, the lowest score and the days go together", () => {
  const asked = { sort: "score", q: " Jane ", score: " -3", from: "1970-01-02", to: "1970-01-03" };
  expect(readPeopleQuery(asked).query).toEqual({ sort: "score", text: "Jane", minScore: -3, sinceDay: 1, untilDay: 2 });
  expect(readAccountsQuery({ sort: "last_seen" }).query).toEqual({ sort: "last_seen" });
  expect(readAccountsQuery({ q: "acme-" }).query).toEqual({ prefix: "acme-" });
});

test("the shown filters are kept for the next page", () => {
  const asked = { q: "jane", sort: "email", score: "5", from: "2026-01-01", to: "2026-02-01", cursor: "7.jane" };
  expect(readPeopleQuery(asked).shown).toEqual(asked);
  expect(readPeopleQuery({ ...asked, other: "x" }).shown).toEqual(asked);
  const accounts = { q: "acme", sort: "last_seen", cursor: "7.acme" };
  expect(readAccountsQuery({ ...accounts, score: "5" }).shown).toEqual(accounts);
  expect(readAccountsQuery({ sort: "newest", cursor: "7" }).shown).toEqual({ cursor: "7" });
});

test("invalid parts of a query are ignored", () => {
  const strange = { sort: "toString", score: "1e3", from: "2026-02-31", q: "  " };
  expect(readPeopleQuery(strange).query).toEqual({ sort: "newest" });
  expect(readPeopleQuery(strange).shown).toEqual({});
  expect(readAccountsQuery({ sort: "score" }).query).toEqual({ sort: "newest" });
  expect(readPeopleQuery({ q: "\ud800".padEnd(400, "x") }).q).toBe(`\ufffd${"x".repeat(254)}`);
});
