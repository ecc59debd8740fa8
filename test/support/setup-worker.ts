/** Before each test file: the control plane's tables and the seeded plans. */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
// What the Worker loads when it is first asked for: here before the first test, whose time it would take. Two that ask for it
// at once would wait for one another here, where loading it is a call of the runner.
import "../../src/delivery/delivery-consumer.ts";
import "../../src/destinations/due-key-notices.ts";
import "../../src/destinations/switched-off.ts";
import "../../src/other-routes.ts";
import "../../src/queue/consumer.ts";
import "../../src/store/accounts/account-list.ts";
import "../../src/store/accounts/account-page.ts";
import "../../src/store/migrate.ts";
import "../../src/store/queries/export-page.ts";

await applyD1Migrations(env.DB, env.D1_MIGRATIONS);
