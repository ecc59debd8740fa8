/**
 * Runs before and after each test file. Before: creates the tables of D1 and the seeded plans. After: empties all
 * databases and objects and restores replaced functions, because the next file uses the same runtime.
 */
import { applyD1Migrations, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, afterEach, vi } from "vitest";
import { shiftDate } from "../../src/dev/worker/shift-date.ts";
import { expectKnownWork } from "./known-work.ts";
import { configureProperties } from "./properties.ts";
import { watchLog } from "./logged.ts";
import { isPlain, openSignalLogsInStores } from "./log.ts";
import { forgetShared } from "./shared-for-file.ts";
import { clockAheadMs } from "./worker.ts";

// Zero, unless `npm run at` started this run.
shiftDate(clockAheadMs);
configureProperties();
if (isPlain) openSignalLogsInStores();
watchLog();
keepImports();
await applyD1Migrations(env.DB, env.D1_MIGRATIONS);

afterEach(expectKnownWork);

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
