/** The pure rules in Node alone: what the mutation test runs for each mutant, without what measures time. */
import path from "node:path";
import { defineConfig } from "vitest/config";

const root = path.join(import.meta.dirname, "../..");

export default defineConfig({
  root,
  test: {
    include: ["test/unit/**/*.test.ts"],
    // These tests read the bundle, the bench and the sources.
    exclude: ["test/unit/**/{startup,cost,documents,import-circles}.test.ts"],
    setupFiles: ["test/support/setup-unit.ts", "test/mutation/setup.ts"],
    environment: "node",
    testTimeout: 120_000,
    // Instrumented code takes ten times as long, and a property has only a moment: these want speed, or many cases.
    testNamePattern:
      /^(?!.*(linear time|takes as long as|within 10 ms|in a fraction of a second|no further than the maximum of signals|is valid and matches its own sample|the naive evaluator))/,
  },
});
