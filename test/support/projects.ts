/** The kinds of tests, for the configurations of `npm test` and of `npm run test:all`. */
import path from "node:path";
import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-plugin";
import { Response } from "miniflare";
import { mkdirSync, statfsSync } from "node:fs";
import { availableParallelism } from "node:os";
import type { Plugin, TestProjectInlineConfiguration, ViteUserConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { TEST_AUTH_FAILURES_PER_MINUTE } from "./auth-failures.ts";

const IN_MEMORY = "/dev/shm";
/** A whole run needs up to 1 GB at a time. */
const ROOM_BYTES = 4_000_000_000;

keepFilesInMemory();
// Otherwise it reports that it has read `.dev.vars`.
process.env["WRANGLER_LOG"] ??= "warn";
hideRuntimeMessages();

export const root = path.join(import.meta.dirname, "../..");
/** In CI a run must give the same result for the same code. */
const CI_SEED = "20261120";
if (process.env["CI"] !== undefined) process.env["PROPERTY_SEED"] ??= CI_SEED;
/** Variables of this process that tests in the runtime read. */
const given = Object.entries(process.env).filter(([name]) =>
  /^(CLOCK|LIVES|MODEL|HOSTILE|RACES|FAULTS|PROPERTY|STORE)_/.test(name),
);

/** A small machine that is busy with other processes may take ten times as long as an idle machine. */
const patience = { testTimeout: 60_000, hookTimeout: 120_000, expect: { poll: { timeout: 20_000 } } };

/** Runs the files project by project, in the order of the configuration, so that the files of a project can share a runtime. */
class ByProject extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const { projects } = this.ctx;
    return sorted.toSorted((a, b) => projects.indexOf(a.project) - projects.indexOf(b.project));
  }
}

export const sharedOptions = {
  // One more than there are cores: many tests wait for timers.
  maxWorkers: availableParallelism() + 1,
  silent: "passed-only",
  sequence: { sequencer: ByProject },
} satisfies ViteUserConfig["test"];

interface WorkerTests {
  include: string[];
  /** Whether each file gets a new runtime. Starting a runtime and loading the Worker takes four seconds of CPU time. */
  isolate?: boolean;
  variables?: Record<string, string>;
}

/** The Worker on workerd, with its real bindings. */
export function workerProject(
  name: string,
  { include, isolate = false, variables = {} }: WorkerTests,
): TestProjectInlineConfiguration {
  return {
    root,
    // Vite warns of two libraries whose source maps name files that are not in their packages.
    logLevel: "error",
    plugins: [
      importsAtOnce(),
      cloudflareTest(async () => ({
        main: "./test/support/worker.ts",
        // Otherwise the runtime writes its own warnings and what the Worker logs past Vitest.
        verbose: false,
        wrangler: { configPath: "./wrangler.toml" },
        miniflare: {
          // Calls of `fetch` that no test replaces must not leave this machine.
          outboundService: () => new Response("The tests have no network.", { status: 502 }),
          queueConsumers: {
            signals: { maxBatchSize: 100, maxBatchTimeout: 0, maxRetries: 8, deadLetterQueue: "signals-dlq" },
            "signals-dlq": { maxBatchSize: 10, maxBatchTimeout: 0, maxRetries: 100 },
          },
          // Fewer than in wrangler.toml: a test that goes beyond the limit makes as many calls.
          ratelimits: {
            AUTH_FAILURES: { namespace_id: "1001", simple: { limit: TEST_AUTH_FAILURES_PER_MINUTE, period: 60 } },
          },
          bindings: {
            OPERATOR_TOKEN: "test-operator",
            SIGN_IN: "oidc",
            // The local runtime has no jurisdictions.
            JURISDICTION: "",
            LOG_REQUESTS: "all",
            // Most tests wait until what they have sent is processed.
            DRAIN_PACE_MS: "50",
            ...variables,
            ...Object.fromEntries(given),
            D1_MIGRATIONS: await readD1Migrations(`${root}/migrations/d1`),
          },
        },
      })),
    ],
    test: { name, include, isolate, ...patience, setupFiles: ["test/support/setup-worker.ts"] },
  };
}

/** The pure rules in Node. */
export function unitProject(include: string[], env: Record<string, string> = {}): TestProjectInlineConfiguration {
  const setupFiles = ["test/support/setup-unit.ts"];
  const node = { isolate: false, environment: "node", ...patience, testTimeout: 180_000 };
  return { root, test: { name: "unit", include, env, setupFiles, ...node } };
}

/** The built Worker in a separate process. The files of a test process share one build. */
export function builtProject(
  name: string,
  include: string[],
  env: Record<string, string> = {},
): TestProjectInlineConfiguration {
  return { root, test: { name, include, env, isolate: false, environment: "node", ...patience, testTimeout: 180_000 } };
}

/** The built service in a real browser. */
export const browserProject: TestProjectInlineConfiguration = {
  root,
  test: {
    name: "e2e",
    include: ["test/e2e/**/*.test.ts"],
    globalSetup: ["test/e2e/support/setup.ts"],
    environment: "node",
    ...patience,
    testTimeout: 120_000,
  },
};

/** The plugin prints messages of the runtime, such as warnings about alarms after a test moved the clock or aborted all objects. */
function hideRuntimeMessages(): void {
  const write = process.stderr.write.bind(process.stderr);
  process.stderr.write = ((text: string | Uint8Array, ...rest: []) =>
    /^(NOSENTRY |console warning; |exception = .*abortAllDurableObjects|failed to invoke drain)/.test(String(text)) ||
    write(text, ...rest)) as typeof process.stderr.write;
}

/**
 * Makes this process and its children create temporary files in memory. Every commit of an object waits for the disk,
 * and the tests make hundreds of thousands of commits: on a disk they take four times as long. Tests kill processes and
 * never the machine, so that memory keeps the same files as a disk.
 */
function keepFilesInMemory(): void {
  if (process.env["TMPDIR"] !== undefined || !hasRoom()) return;
  const folder = path.join(IN_MEMORY, "signal-ingestion");
  mkdirSync(folder, { recursive: true });
  process.env["TMPDIR"] = folder;
}

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(IN_MEMORY);
    return bavail * bsize >= ROOM_BYTES;
  } catch {
    return false;
  }
}

const SRC = path.join(import.meta.dirname, "../../src/");

/**
 * On workerd, tests load the Worker's lazy modules (`await import`) together with the rest. There an import is a call of
 * the test runner, even for loaded modules. Two objects that import the same module at once share the call, and one of
 * them would continue with the other's storage. The platform rejects that.
 */
function importsAtOnce(): Plugin {
  return {
    name: "imports-at-once",
    transform(code, id) {
      if (!id.startsWith(SRC)) return null;
      const imports: string[] = [];
      const changed = code.replaceAll(/\bimport\(("[^"]+")\)/g, (_, specifier: string) => {
        const name = `__loaded_${imports.length}`;
        imports.push(`import * as ${name} from ${specifier};`);
        return `Promise.resolve(${name})`;
      });
      // On the first line, so that the line numbers stay the same.
      return imports.length === 0 ? null : { code: imports.join("") + changed, map: null };
    },
  };
}
