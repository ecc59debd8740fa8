/** The address of a list: its range of days, and how far one page searches for a match. */
import { describe, expect, test } from "vitest";
import { ListAddress, scanOn } from "../../../src/pages/kit/list.tsx";

/** A list of slices without matches, except at these cursors. */
function listWith(matches: readonly number[], length: number) {
  const read: string[] = [];
  const readSlice = ({ cursor }: { cursor: string | null }) => {
    const at = Number(cursor ?? 0);
    read.push(String(cursor));
    const isLast = at === length - 1;
    return Promise.resolve({
      items: matches.includes(at) ? [at] : [],
      next: isLast ? null : String(at + 1),
      complete: isLast,
    });
  };
  return { read, readSlice };
}

describe("the search for a first match", () => {
  test.each([
    ["stops at the first slice with a match", [2, 3], 9, { items: [2], next: "3", complete: false, scans: 3 }],
    ["stops at the end of the list", [], 4, { items: [], next: null, complete: true, scans: 4 }],
    ["stops after ten slices, and continues from there", [], 30, { items: [], next: "10", complete: false, scans: 10 }],
  ])("%s", async (_, matches, length, expected) => {
    const { read, readSlice } = listWith(matches, length);
    expect(await scanOn({ cursor: null, limit: 5 }, readSlice)).toEqual(expected);
    expect(read).toHaveLength(expected.scans);
  });
});

describe("the range of days", () => {
  const read = (asked: Record<string, string>) => {
    const list = new ListAddress("/list", asked);
    return { ...list.days("Received"), errors: list.errors.length, query: list.query };
  };

  test("begins with its first day and ends with the end of its last", () => {
    const asked = { from: "2031-03-01", to: "2031-03-01" };
    const [sinceMs, untilMs] = [Date.UTC(2031, 2, 1), Date.UTC(2031, 2, 2)];
    expect(read(asked)).toEqual({ sinceMs, untilMs, errors: 0, query: asked });
  });

  test.each(["yesterday", "2031-02-31", "2031-13-01", "2031-3-1", "0000-00-00", "2031-03-01T00:00"])(
    "does not apply the invalid day %j, and says so",
    (day) => {
      expect(read({ from: day })).toMatchObject({ sinceMs: null, untilMs: null, errors: 1, query: {} });
    },
  );

  test("does not apply a first day after the last, and says so", () => {
    const reversed = { from: "2031-03-02", to: "2031-03-01" };
    expect(read(reversed)).toMatchObject({ sinceMs: null, untilMs: null, errors: 1, query: {} });
  });
});
