import { expect, test } from "vitest";
import { cut } from "../../../src/domain/text.ts";

test("keeps a text of at most as many characters, and marks the end of what is cut", () => {
  expect(["", "abc", "abcd"].map((text) => cut(text, 3))).toEqual(["", "abc", "abc…"]);
  // No half of a pair stays.
  expect(cut("ab🙂", 3)).toBe("ab\u{fffd}…");
});
