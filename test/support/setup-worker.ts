/**
 * Around each test file: before it the control plane's tables and the seeded plans; after it nothing is stored, and nothing
 * replaced, that the next file in this runtime would find.
 */
import { applyD1Migrations, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, vi } from "vitest";
import { configureProperties } from "./properties.ts";

configureProperties();
await applyD1Migrations(env.DB, env.D1_MIGRATIONS);

afterAll(async () => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  await reset();
});
