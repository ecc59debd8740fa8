/** The address of a list: its range of days. */
import { describe, expect, test } from "vitest";
import { ListAddress } from "../../../src/pages/kit/list.tsx";

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
