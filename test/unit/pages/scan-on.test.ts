/** Lists that the server filters: how far one page searches for a match. */
import { describe, expect, test } from "vitest";
import { scanOn } from "../../../src/pages/kit/list-address.ts";

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
