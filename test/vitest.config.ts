/**
 * Six kinds of tests: pure rules in Node, the Worker on workerd with its real bindings, the built Worker under the CDPs'
 * own SDKs, with the providers that people sign in by, and with receivers of its events, and faults across processes.
 */
import path from "node:path";
import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";
import { keepFilesInMemory } from "./support/in-memory.ts";
import { importsAtOnce } from "./support/imports-at-once.ts";
import { LongestFirst } from "./support/longest-first.ts";

const root = path.join(import.meta.dirname, "..");
/** Variables of this process that tests in the runtime read. */
const given = Object.entries(process.env).filter(([name]) => /^(MODEL|HOSTILE|RACES|FAULTS)_/.test(name));

/** Files that are about what an isolate remembers, or that replace bindings and timers: each has a runtime of its own. */
const ALONE = ["test/worker/{http,ingest,service}/**/*.test.ts"];

/** A machine with few cores, of which others use most, may take ten times as long as one that does nothing else. */
const PATIENCE = { testTimeout: 60_000, hookTimeout: 120_000, expect: { poll: { timeout: 20_000 } } };

/** The Worker on workerd, with its real bindings. */
function worker(name: string, test: { include: string[]; exclude?: string[]; isolate?: boolean }) {
  return {
    root,
    plugins: [
      importsAtOnce(),
      cloudflareTest(async () => ({
        main: "./src/index.ts",
        wrangler: { configPath: "./wrangler.toml" },
        miniflare: {
          queueConsumers: {
            signals: { maxBatchSize: 100, maxBatchTimeout: 0, maxRetries: 8, deadLetterQueue: "signals-dlq" },
            "signals-dlq": { maxBatchSize: 10, maxBatchTimeout: 0, maxRetries: 100 },
          },
          bindings: {
            OPERATOR_TOKEN: "test-operator",
            SIGN_IN: "oidc",
            LOG_REQUESTS: "all",
            // Most tests wait until what they have sent is processed.
            DRAIN_PACE_MS: "50",
            ...Object.fromEntries(given),
            D1_MIGRATIONS: await readD1Migrations(`${root}/migrations/d1`),
          },
        },
      })),
    ],
    test: { name, ...test, ...PATIENCE, setupFiles: ["test/support/setup-worker.ts"] },
  };
}

/** The built Worker, in a process of its own. */
function built(name: string, patience: typeof PATIENCE) {
  return { root, test: { name, include: [`test/${name}/**/*.test.ts`], environment: "node" as const, ...patience } };
}

keepFilesInMemory();

export default defineConfig({
  root,
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        root,
        test: {
          name: "unit",
          isolate: false,
          include: ["test/unit/**/*.test.ts"],
          environment: "node",
          ...PATIENCE,
          setupFiles: ["test/support/setup-unit.ts"],
        },
      },
      // To start a runtime and load the Worker takes four seconds of CPU: files that come one after the other share one.
      worker("worker", { include: ["test/worker/**/*.test.ts"], exclude: ALONE, isolate: false }),
      worker("worker-alone", { include: ALONE }),
      built("sdk", PATIENCE),
      built("sign-in", PATIENCE),
      built("events", PATIENCE),
      built("fault", { ...PATIENCE, testTimeout: 180_000 }),
    ],
  },
});
