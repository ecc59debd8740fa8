/**
 * The settings that the Worker needs, in each environment. A test compares these lists with the repository's wrangler.toml. So the check
 * before a deployment finds each line that a deployment's own file lacks.
 */
import path from "node:path";
import type { Unstable_Config } from "wrangler";

/** Settings that every environment inherits: with others, its Worker would be another program than the tested one. */
const INHERITED = ["compatibility_date", "compatibility_flags", "migrations", "triggers", "limits", "rules"] as const;

/** The settings of wrangler.toml that are compared. */
export type ComparedConfig = Pick<
  Unstable_Config,
  | ("configPath" | "main" | "vars" | "d1_databases" | "r2_buckets" | "queues" | "durable_objects" | "ratelimits")
  | ("send_email" | "services" | (typeof INHERITED)[number])
>;

export const NEEDED_SETTINGS: Readonly<Record<string, unknown>> = {
  main: "src/index.ts",
  compatibility_date: "2026-09-01",
  compatibility_flags: ["queue_consumer_no_wait_for_wait_until"],
  migrations: [{ tag: "v1", new_sqlite_classes: ["QuotaCounter", "SignalStore", "Destinations"] }],
  triggers: { crons: ["*/5 * * * *"] },
  limits: { cpu_ms: 30_000 },
  code_update_strategy: { mode: "deferred", max_delay: 60 },
  rules: [{ type: "Text", globs: ["**/*.sql"], fallthrough: true }],
};

/** Bindings and variables by name, with the settings that no environment may choose. */
type Bindings = Readonly<Record<string, Readonly<Record<string, string | undefined>>>>;

export const NEEDED_BINDINGS: Bindings = {
  DB: { kind: "d1_databases", migrations_dir: "migrations/d1" },
  QUOTA_COUNTER: { kind: "durable_objects", class_name: "QuotaCounter" },
  SIGNAL_STORE: { kind: "durable_objects", class_name: "SignalStore" },
  DESTINATIONS: { kind: "durable_objects", class_name: "Destinations" },
  COLD: { kind: "r2_buckets" },
  SIGNALS: { kind: "queues" },
  DELIVERIES: { kind: "queues" },
  AUTH_FAILURES: { kind: "ratelimits" },
  SIGN_IN_ATTEMPTS: { kind: "ratelimits" },
  PAGE_FORMS: { kind: "ratelimits" },
  TOKEN_CALLS: { kind: "ratelimits" },
  REQUEST_RATE_PER_SECOND: { kind: "vars" },
  REQUEST_BURST: { kind: "vars" },
  LOG_REQUESTS: { kind: "vars" },
  SIGN_IN: { kind: "vars" },
  ACCESS_AUD: { kind: "vars" },
  OIDC_ISSUER: { kind: "vars" },
  OIDC_CLIENT_ID: { kind: "vars" },
  JURISDICTION: { kind: "vars" },
  EMAIL_FROM: { kind: "vars" },
};

export function settingsOf(config: ComparedConfig): Record<string, unknown> {
  const { main = "", configPath = "" } = config;
  const inherited = INHERITED.map((name) => [name, config[name]] as const);
  // Wrangler makes the path absolute.
  const relative = path.relative(path.dirname(configPath), main);
  const { code_update_strategy } = config.durable_objects;
  return { main: relative, ...Object.fromEntries(inherited), code_update_strategy };
}

export function bindingsOf(config: ComparedConfig): Bindings {
  const { queues, ratelimits, send_email: emails, services = [] } = config;
  const named = (kind: string, names: readonly string[]) => names.map((name) => [name, { kind }] as const);
  return Object.fromEntries([
    ...config.d1_databases.map(
      ({ binding, migrations_dir }) => [binding, { kind: "d1_databases", migrations_dir }] as const,
    ),
    ...config.durable_objects.bindings.map(
      ({ name, class_name, script_name }) => [name, { kind: "durable_objects", class_name, script_name }] as const,
    ),
    ...named(
      "r2_buckets",
      config.r2_buckets.map(({ binding }) => binding),
    ),
    ...named(
      "queues",
      (queues.producers ?? []).map(({ binding }) => binding),
    ),
    ...named(
      "ratelimits",
      ratelimits.map(({ name }) => name),
    ),
    ...named(
      "send_email",
      emails.map(({ name }) => name),
    ),
    ...named(
      "services",
      services.map(({ binding }) => binding),
    ),
    ...named("vars", Object.keys(config.vars)),
  ]);
}
