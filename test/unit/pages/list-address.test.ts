/** The address of a list: its range of days, and the links to other slices. */
import { html } from "hono/html";
import type { Child } from "hono/jsx";
import { describe, expect, test } from "vitest";
import { Filters, LapsingNote, ListAddress, ListPanel, totalOf } from "../../../src/pages/kit/list.tsx";
import { readHtml } from "../../support/html.ts";

describe("the range of days", () => {
  const read = (asked: Record<string, string>) => {
    const list = new ListAddress("/list", asked);
    return { ...list.times("Received"), errors: list.errors.length, query: list.query };
  };

  test("begins with its first day and ends with the end of its last", () => {
    const asked = { from: "2031-03-01", to: "2031-03-01" };
    const [sinceMs, untilMs] = [Date.UTC(2031, 2, 1), Date.UTC(2031, 2, 2)];
    expect(read(asked)).toEqual({ sinceMs, untilMs, errors: 0, query: asked });
  });

  test.each(["yesterday", "2031-02-31", "2031-13-01", "2031-3-1", "0000-00-00", "2031-03-01T00:00"])(
    "does not apply the invalid day %j, and says so",
    (day) => {
      expect(read({ from: day })).toMatchObject({ sinceMs: undefined, untilMs: undefined, errors: 1, query: {} });
    },
  );

  test("does not apply a first day after the last, and says so", () => {
    const reversed = { from: "2031-03-02", to: "2031-03-01" };
    expect(read(reversed)).toMatchObject({ sinceMs: undefined, untilMs: undefined, errors: 1, query: {} });
  });
});

describe("a choice", () => {
  const ORDERS = { newest: "Newest first", oldest: "Oldest first" };

  test.each([
    [{}, "newest", {}],
    [{ sort: "" }, "newest", {}],
    [{ sort: "newest" }, "newest", {}],
    [{ sort: "oldest" }, "oldest", { sort: "oldest" }],
  ])("of %j is %s, and the address keeps %j", (asked, value, query) => {
    const list = new ListAddress("/list", asked);
    expect([list.sort(ORDERS, "newest"), list.query, list.errors]).toEqual([value, query, []]);
  });

  test.each(["new", "toString"])("of the unknown option %j is not applied, and the list says so", (sort) => {
    const list = new ListAddress("/list", { sort });
    expect([list.sort(ORDERS, "newest"), list.query]).toEqual(["newest", {}]);
    expect(list.errors).toEqual([`“${sort}” is not one of: Newest first, Oldest first`]);
  });
});

describe("Next and Previous", () => {
  /** Walks to the last of some slices and back. Returns the address of each visited slice. */
  async function walk(slices: number, cursorOf: (slice: number) => string) {
    const linksOf = async (address: string) => {
      const list = new ListAddress(
        "/list",
        Object.fromEntries(new URL(address, "https://signals.example").searchParams),
      );
      list.searchText("q", "Search", "Search");
      const slice = Array.from({ length: slices }, (_, n) => n).findIndex(
        (n) => list.slice(1).cursor === (n === 0 ? null : cursorOf(n)),
      );
      const found = { items: [slice], next: slice + 1 < slices ? cursorOf(slice + 1) : null };
      return readHtml(await html`${ListPanel({ list, found, children: "" })}`);
    };
    const follow = async (from: string, link: "next" | "previous") => {
      const visited = [from];
      // A wrong link might lead around in a circle.
      while (visited.length <= slices) {
        const { [link]: to } = await linksOf(visited.at(-1) ?? "");
        if (to === undefined) break;
        visited.push(to);
      }
      return visited;
    };
    const there = await follow("/list?q=a", "next");
    return { there, back: await follow(there.at(-1) ?? "", "previous") };
  }

  test("lead to the last slice and back over the same addresses, which keep the search text", async () => {
    const { there, back } = await walk(5, (slice) => `c${slice}`);
    expect(there).toHaveLength(5);
    expect(there[4]).toContain("q=a&cursor=c4");
    expect(back).toEqual(there.toReversed());
  });

  test("remember a bounded number of slices, and lead from the oldest of them to the first slice", async () => {
    const { there, back } = await walk(60, (slice) => `${"x".repeat(97)}${slice}`);
    expect(Math.max(...there.map(({ length }) => length))).toBeLessThan(1_700);
    expect(there).toHaveLength(60);
    expect(back.at(-1)).toBe("/list?q=a");
    expect(back.length).toBeGreaterThan(10);
    expect(back.length).toBeLessThan(20);
    const cursorOf = (address: string) => new URLSearchParams(address.split("?")[1]).get("cursor");
    expect(back.slice(0, 10).map(cursorOf)).toEqual(there.toReversed().slice(0, 10).map(cursorOf));
  });
});

describe("the filters and the panel of a list", () => {
  const STATUS = { "": "Any", held: "Held", dead: "Dead letter" };
  const listOf = (asked: Record<string, string>) => {
    const list = new ListAddress("/list", asked);
    list.searchText("q", "Search", "Search names");
    list.choice("status", "Status", STATUS);
    list.text("source", "Source");
    list.wholeNumber("least", "At least");
    return list;
  };
  const TWO = { q: "x", status: "held", cursor: "c", back: "b" };
  const filters = (asked: Record<string, string>, suggestions = {}) => Filters({ list: listOf(asked), suggestions });
  const found = { items: [1], next: "c2" };
  const panel = (asked: Record<string, string>, more: object = {}, props: object = {}) =>
    ListPanel({
      list: listOf(asked),
      found: { ...found, ...more },
      noun: "rows",
      searched: "9 rows",
      children: "R",
      ...props,
    });

  test.each<[string, Child, string, string, unknown[]]>([
    ["a search field has its text", filters({ q: "x" }), "input[type=search]", "value", ["x"]],
    ["and a name", filters({}), "input[type=search]", "aria-label", ["Search names"]],
    ["the form asks its own address", filters({}), "form", "action", ["/list"]],
    ["as a search", filters({}), "form", "role", ["search"]],
    ["without a script there is a button", filters({}), "button.no-script", "text", ["Search"]],
    ["a choice has all options", filters({}), "#status option", "text", ["Any", "Held", "Dead letter"]],
    ["the chosen one is selected", filters({ status: "dead" }), "option[selected]", "text", ["Dead letter"]],
    ["a field offers suggestions", filters({}, { source: ["web"] }), "#known-source option", "value", ["web"]],
    ["a filter in use is a chip", filters(TWO), ".chips a", "text", ["Search x", "Status Held", "Clear all"]],
    [
      "that removes it, from the first slice on",
      filters(TWO),
      ".chips a",
      "href",
      ["/list?status=held", "/list?q=x", "/list"],
    ],
    ["and says so", filters({ q: "x" }), ".chips a", "aria-label", ["Remove filter Search: x"]],
    ["one alone needs no way to clear all", filters({ q: "x" }), ".chips a", "text", ["Search x"]],
    ["none is no chip", filters({}), ".chips", "text", []],
    ["a number is a filter", filters({ least: "-5" }), ".chips a", "text", ["At least -5"]],
    [
      "another text is an error",
      filters({ least: "many" }),
      "[role=alert]",
      "text",
      ["At least: enter a whole number."],
    ],
    ["a panel with rows shows them", panel({}), "section", "text", ["R Next"]],
    ["its slices are named", panel({}), "nav", "aria-label", ["Pages"]],
    ["the next one keeps the filters", panel({ q: "x" }), "[rel=next]", "href", ["/list?q=x&cursor=c2"]],
    ["an ended search has no further slice", panel({}, { next: null }), "nav", "aria-label", []],
    ["one that stopped early can go on", panel({}, { complete: false }), "[rel=next]", "text", ["Search further back"]],
    ["and says how far it came", panel({}, { complete: false }), "p.quiet", "text", ["Searched 9 rows."]],
    ["also without a match", panel({}, { items: [], complete: false }), "h2", "text", ["No matches in 9 rows"]],
    ["no match is not no row", panel({ q: "x" }, { items: [] }), "h2", "text", ["No rows match these filters"]],
    ["one can clear the filters", panel({ q: "x" }, { items: [] }), ".empty a", "href", ["/list"]],
    ["no row has its own text", panel({}, { items: [] }, { empty: "none" }), "section", "text", ["none Next"]],
    [
      "lapsing points are said",
      LapsingNote({ lapsing: true }),
      "p",
      "text",
      [expect.stringMatching(/^Points are lapsing/)],
    ],
    ["others are not", LapsingNote({ lapsing: false }), "p", "text", []],
  ])("%s", async (_, part, selector, attribute, expected) => {
    const elements = readHtml(await html`${part}`).all(selector);
    expect(elements.map((one) => (attribute === "text" ? one.text : one.attribute(attribute)))).toEqual(expected);
  });

  test.each([
    ["is that of its rows if there is one slice", {}, { next: null }, 1],
    ["is that which the list knows", {}, { total: 7 }, 7],
    ["also on its last slice", { cursor: "c" }, { next: null, total: 7 }, 7],
    ["is not known of a search that stopped", {}, { next: null, complete: false }, undefined],
  ])("the number of rows %s", (_, asked, more, total) => {
    expect(totalOf(listOf(asked), { ...found, ...more })).toBe(total);
  });
});
