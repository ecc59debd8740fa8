/** Before each test file: the control plane's tables and the seeded plans. */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
// What the Worker loads when it is first asked for: here before the first test, whose time it would take.
import "../../src/other-routes.ts";
import "../../src/queue/consumer.ts";
import "../../src/store/migrate.ts";

await applyD1Migrations(env.DB, env.D1_MIGRATIONS);
