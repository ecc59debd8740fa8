/** Detects a full counter database without reading its size at every commit (design §7). */
import { expect, test } from "vitest";
import { Fill } from "../../../src/quota/outbox.ts";

const MB = 1_000_000;

test("reads the database size at first use, and then not before the database may be full", () => {
  let size = 10 * MB;
  let asked = 0;
  const fill = new Fill(() => {
    asked++;
    return size;
  });
  expect([fill.reaches(1_000 * MB), fill.reaches(1_000 * MB), asked]).toEqual([false, false, 1]);
  fill.written(400 * MB);
  size = 500 * MB;
  expect([fill.reaches(1_000 * MB), asked]).toEqual([false, 1]);
  fill.written(100 * MB);
  size = 1_000 * MB;
  expect([fill.reaches(1_000 * MB), asked]).toEqual([true, 2]);
  size = 900 * MB;
  expect([fill.reaches(1_000 * MB), asked]).toEqual([false, 3]);
});

test("reads the size each time near the limit and with a small limit", () => {
  let asked = 0;
  const fill = new Fill(() => ++asked * MB);
  expect([1, 2, 3, 4].map(() => fill.reaches(3 * MB))).toEqual([false, false, true, true]);
});
