import { execFileSync, spawnSync } from "node:child_process";
import path from "node:path";
import { expect, test } from "vitest";

const AT = path.join(import.meta.dirname, "../../../src/dev/at.ts");
const PRINT = "JSON.stringify([Date.now(), +new Date(), +new Date(5), new Date() instanceof Date])";

function printedAt(time: string, ...command: string[]): number[] {
  const [node, ...args] = [process.execPath, AT, time, ...command];
  return JSON.parse(execFileSync(node, args, { encoding: "utf8" })) as number[];
}

test.each([
  ["a process", [process.execPath, "-p", PRINT]],
  ["a process of a shell", ["sh", "-c", `"${process.execPath}" -p "${PRINT}"`]],
])("%s begins at the given time, and other times stay the same", (_, command) => {
  const [now, constructed, other, isDate] = printedAt("2027-01-31T23:58Z", ...command);
  const startMs = Date.UTC(2027, 0, 31, 23, 58);
  for (const ms of [now, constructed]) {
    expect(ms).toBeGreaterThanOrEqual(startMs);
    expect(ms).toBeLessThan(startMs + 60_000);
  }
  expect([other, isDate]).toEqual([5, true]);
});

test.each([["tomorrow"], ["2027-01-31T23:58Z"]])("an incomplete call is explained: %s", (...args) => {
  const { status, stderr } = spawnSync(process.execPath, [AT, ...args], { encoding: "utf8" });
  expect([status, stderr]).toEqual([2, expect.stringContaining("npm run at -- ")]);
});

test("the exit code is that of the command", () => {
  const { status } = spawnSync(process.execPath, [AT, "2027-01-31T23:58Z", process.execPath, "-e", "process.exit(7)"]);
  expect(status).toBe(7);
});
