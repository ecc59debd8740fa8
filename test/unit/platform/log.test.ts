/** The text of an error in the log: the failure without its data. */
import { DrizzleQueryError } from "drizzle-orm/errors";
import { expect, test, vi } from "vitest";
import { errorText, logEvent } from "../../../src/platform/log.ts";

test("logs a failed query without its text and parameters", () => {
  const cause = new Error("D1_ERROR: no such table: members");
  const failed = new DrizzleQueryError('select * from "members" where "email" = ?', ["jane@example.com"], cause);
  expect(failed.message).toContain("jane@example.com");
  expect(errorText(failed)).toBe("Error: D1_ERROR: no such table: members");
});

test("logs errors without a cause and thrown non-errors as they are", () => {
  expect(errorText(new TypeError("It is none."))).toBe("TypeError: It is none.");
  expect(errorText("broken")).toBe("broken");
  expect(errorText(new Error("outer", { cause: "a text" }))).toBe("Error: outer");
});

test("logs an event as one line of JSON that begins with its name", () => {
  const log = vi.spyOn(console, "log").mockImplementation(() => {});
  logEvent("batch", { signals: 2, outcome: "two\nlines" });
  expect(log.mock.calls).toEqual([['{"event":"batch","signals":2,"outcome":"two\\nlines"}']]);
  log.mockRestore();
});
