/**
 * Runs before and after each test file. Before: creates the tables of D1 and the seeded plans. After: empties all
 * databases and objects and restores replaced functions, because the next file uses the same runtime.
 */
import { applyD1Migrations, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, afterEach, vi } from "vitest";
import { shiftDate } from "../../src/dev/worker/shift-date.ts";
import { configureProperties } from "./properties.ts";
import { forgetShared } from "./shared-for-file.ts";
import { clockAheadMs } from "./worker.ts";

// Zero, unless `npm run at` started this run.
shiftDate(clockAheadMs);
configureProperties();
keepLogLines();
keepImports();
await applyD1Migrations(env.DB, env.D1_MIGRATIONS);

afterAll(async () => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  // `reset` deletes only objects in memory. If a test aborted all objects, D1 is not in memory until it is asked.
  await env.DB.prepare("SELECT 1").run();
  await reset();
  forgetShared();
});

/**
 * Makes the test runner load each module once in a test file. Otherwise the plugin imports the Worker before each call of
 * the Worker or of an object. Each import costs a message to the runner's process and back.
 */
function keepImports(): void {
  const { moduleRunner } = (globalThis as unknown as { __vitest_mocker__: { moduleRunner: ModuleRunner } })
    .__vitest_mocker__;
  const importModule: ModuleRunner["import"] = Object.getPrototypeOf(moduleRunner).import;
  const loaded = new Map<string, unknown>();
  moduleRunner.import = async (id, options) => {
    // Vitest loads this file and each test file again, also in a runtime that has loaded them.
    if (options?.invalidate === true || !loaded.has(id)) {
      loaded.set(id, await importModule.call(moduleRunner, id, options));
    }
    return loaded.get(id);
  };
}

interface ModuleRunner {
  import(id: string, options?: { invalidate?: boolean }): Promise<unknown>;
}

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
