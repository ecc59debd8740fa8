/** The address of a list: its range of days, and the links to other slices. */
import { html } from "hono/html";
import { describe, expect, test } from "vitest";
import { ListAddress, ListPanel } from "../../../src/pages/kit/list.tsx";
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
