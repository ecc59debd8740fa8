import { expect, test } from "vitest";
import { cut, grouped } from "../../../src/domain/text.ts";

test("cut truncates long texts with an ellipsis", () => {
  expect(["", "abc", "abcd"].map((text) => cut(text, 3))).toEqual(["", "abc", "abc…"]);
  // Half a surrogate pair is replaced.
  expect(cut("ab🙂", 3)).toBe("ab\u{fffd}…");
});

test("grouped separates thousands", () => {
  expect([0, 999, 1_000, 12_345_678, -1_234].map(grouped)).toEqual(["0", "999", "1,000", "12,345,678", "-1,234"]);
});
