/**
 * Runs before and after each test file. Before: creates the tables of D1 and the seeded plans. After: empties all
 * databases and objects and restores replaced functions, because the next file uses the same runtime.
 */
import { applyD1Migrations, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, afterEach, vi } from "vitest";
import { configureProperties } from "./properties.ts";
import { forgetShared } from "./shared-for-file.ts";

configureProperties();
keepLogLines();
await applyD1Migrations(env.DB, env.D1_MIGRATIONS);

afterAll(async () => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  await reset();
  forgetShared();
});

/** Prints the log lines of failed tests only: passing the lines of all tests to Vitest takes a seventh of the CPU time. */
function keepLogLines(): void {
  /* oxlint-disable no-console -- the Worker logs to it */
  const print = console.log;
  let lines: unknown[][] = [];
  console.log = (...line: unknown[]) => void lines.push(line);
  afterEach(({ task }) => {
    if (task.result?.state === "fail") for (const line of lines) print(...line);
    lines = [];
  });
  /* oxlint-enable no-console */
}
