/** Before each test file: the control plane's tables and the seeded plans. */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";

await applyD1Migrations(env.DB, env.D1_MIGRATIONS);
