/** `npm run test:e2e`: the built service in a real browser. */
import path from "node:path";
import { defineConfig } from "vitest/config";
import { keepFilesInMemory } from "../support/in-memory.ts";

keepFilesInMemory();

export default defineConfig({
  root: path.join(import.meta.dirname, "../.."),
  test: {
    name: "e2e",
    include: ["test/e2e/**/*.test.ts"],
    globalSetup: ["test/e2e/support/setup.ts"],
    environment: "node",
    // The longest file is half of it all.
    maxWorkers: 2,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // A score takes some seconds: the outbox and the queue wait for company.
    expect: { poll: { timeout: 20_000 } },
  },
});
