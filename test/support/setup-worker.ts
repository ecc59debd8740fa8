/**
 * Around each test file: before it the control plane's tables and the seeded plans; after it nothing is stored, and nothing
 * replaced, that the next file in this runtime would find.
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

/** Prints a failed test's log lines. To hand over those of every test would cost Vitest as much as a sixth of the run. */
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
