import { describe, expect, test } from "vitest";
import { UnderWay } from "../../../src/http/workspace-share.ts";

const FOR_MS = 1_000;

describe("things under way", () => {
  test("are limited for each holder", () => {
    const open = new UnderWay({ each: 2 });
    const [first, second] = [open.begin("a", 0, FOR_MS), open.begin("a", 0, FOR_MS)];
    expect([first, second, open.begin("a", 0, FOR_MS)]).toEqual([expect.anything(), expect.anything(), null]);
    expect(open.begin("b", 0, FOR_MS)).not.toBeNull();
    first?.release();
    first?.release();
    expect([open.begin("a", 0, FOR_MS), open.begin("a", 0, FOR_MS)]).toEqual([expect.anything(), null]);
  });

  test("are limited for all holders, but each may always have some", () => {
    const open = new UnderWay({ each: 3, all: 4, always: 1 });
    for (const holder of ["a", "a", "a", "b"]) expect(open.begin(holder, 0, FOR_MS)).not.toBeNull();
    expect(open.begin("b", 0, FOR_MS)).toBeNull();
    expect([open.begin("c", 0, FOR_MS), open.begin("c", 0, FOR_MS)]).toEqual([expect.anything(), null]);
  });

  test("end after their time if nobody ends them, so an ended request keeps no place", () => {
    const open = new UnderWay({ each: 1 });
    const gone = open.begin("a", 0, FOR_MS);
    expect(open.begin("a", FOR_MS, FOR_MS)).toBeNull();
    const next = open.begin("a", FOR_MS + 1, FOR_MS);
    expect(next).not.toBeNull();
    gone?.release();
    expect(open.begin("a", FOR_MS + 1, FOR_MS)).toBeNull();
  });

  test("are counted without those whose time is over", () => {
    const open = new UnderWay({ each: 5 });
    open.begin("a", 0, FOR_MS);
    open.begin("b", 0, 2 * FOR_MS);
    expect([open.count(FOR_MS), open.count(FOR_MS + 1), open.count(2 * FOR_MS + 1)]).toEqual([2, 1, 0]);
  });

  test("can be prolonged", () => {
    const open = new UnderWay({ each: 1 });
    const long = open.begin("a", 0, FOR_MS);
    if (long !== null) long.untilMs = 5 * FOR_MS;
    expect(open.begin("a", 2 * FOR_MS, FOR_MS)).toBeNull();
  });
});
