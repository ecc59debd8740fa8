/**
 * What is missing before the service can be deployed: in the configuration by itself, and in the account by what wrangler
 * says of it. Each thing comes with the command or the line that makes it.
 */
import { FIT_SIGN_INS, signInSettings } from "../../pages/session/sign-in-settings.ts";
import { carriedBy, QUEUE_WORDS } from "../../queue/queue-names.ts";
import type { Carried } from "../../queue/queue-names.ts";

/** What of wrangler.toml matters here, for one environment, as wrangler reads it. */
export interface DeployConfig {
  name: string | undefined;
  account_id?: string | undefined;
  /** The environments of the file; for one that is not among them wrangler takes everything from the top level. */
  definedEnvironments?: string[] | undefined;
  vars: Record<string, unknown>;
  d1_databases: {
    binding: string;
    database_name?: string | undefined;
    database_id?: string | undefined;
    migrations_dir?: string | undefined;
  }[];
  r2_buckets: { binding: string; bucket_name?: string | undefined; jurisdiction?: string | undefined }[];
  queues: {
    producers?: { binding: string; queue: string }[] | undefined;
    consumers?: QueueConsumer[] | undefined;
  };
  durable_objects: { bindings: { name: string; class_name: string; script_name?: string | undefined }[] };
  ratelimits?: { name: string; namespace_id: string }[] | undefined;
  send_email?: { name: string }[] | undefined;
  observability?:
    | { logs?: { invocation_logs?: boolean | undefined }; traces?: { enabled?: boolean | undefined } | undefined }
    | undefined;
  logpush?: boolean | undefined;
}

/** The numbers are absent where the file does not have them: the platform's own count then. */
interface QueueConsumer {
  queue: string;
  dead_letter_queue?: string | undefined;
  max_batch_size?: number | undefined;
  max_batch_timeout?: number | undefined;
  max_retries?: number | undefined;
}

/** An environment's part of wrangler.toml; `environment` is undefined for the top level. */
export interface Section {
  environment: string | undefined;
  config: DeployConfig;
  /** Host names of its routes. Wrangler takes the top level's routes for an environment without any. */
  hosts: readonly string[];
}

export interface Missing {
  what: string;
  /** The command that makes it, or what to write where. */
  how: string;
}

/** What is in the account; `unknown` says why it could not be asked. */
export interface CloudflareAccount {
  databases: { uuid: string; name: string }[] | Unknown;
  /** Whether each queue that the configuration names exists. */
  queues: Record<string, boolean | Unknown>;
  buckets: Record<string, boolean | Unknown>;
  /** Names of the Worker's secrets; empty before it is deployed. */
  secrets: string[] | Unknown;
  /** What answers at each of the Worker's hosts, on the paths of webhooks and of pages. */
  hosts: { host: string; webhooks: Front; pages: Front }[];
}

export interface Unknown {
  unknown: string;
}

/** What answers first at a path; `nobody`: nothing does yet. */
export type Front = "access" | "worker" | "nobody";

const NO_DATABASE = /^[0-]*$/;

/** @param all every section of the file, the top level first. */
export function missingInConfig(all: readonly Section[], environment: string | undefined): Missing[] {
  const [base] = all;
  const checked = all.find((one) => one.environment === environment);
  if (base === undefined || checked === undefined) {
    const how = `[env.${environment}] in wrangler.toml with bindings of its own: without it, those of the top level are taken`;
    return [{ what: `There is no environment ${environment}.`, how }];
  }
  const { config } = checked;
  const section = sectionName(environment);
  const flag = environment === undefined ? "" : ` --env ${environment}`;
  const said = (name: string): string => {
    const value = config.vars[name];
    return typeof value === "string" ? value : "";
  };
  const missing: Missing[] = [
    ...missingBindings(config, base.config, section),
    ...missingSettings(config, base.config, section),
    ...wrongQueues(config, section),
    ...all.flatMap((other) => (other === checked ? [] : sharedWith(other, checked, section))),
  ];
  const add = (is: boolean, what: string, how: string): void => void (is && missing.push({ what, how }));

  for (const { database_id: id = "", database_name: name = "", binding } of config.d1_databases) {
    add(
      NO_DATABASE.test(id),
      `${binding} has no database yet.`,
      `npx wrangler d1 create ${name}, and its id as database_id into ${section}`,
    );
  }
  const signIn = said("SIGN_IN");
  const settings = signInSettings(signIn);
  add(
    settings === null || settings.unfit !== null,
    settings === null ? `SIGN_IN is ${JSON.stringify(signIn)}.` : `SIGN_IN is ${signIn}, which ${settings.unfit}.`,
    `SIGN_IN = ${FIT_SIGN_INS.map((name) => JSON.stringify(name)).join(" or ")} in ${section}`,
  );
  for (const { variable, from } of settings?.needs ?? []) {
    add(
      said(variable) === "",
      `${variable} is empty: nobody gets to the pages.`,
      `${from === undefined ? "" : `${from}, as `}${variable} in ${section}`,
    );
  }
  add(
    (said("EMAIL_FROM") !== "") !== (config.send_email ?? []).some(({ name }) => name === "EMAIL"),
    "EMAIL_FROM and the binding EMAIL belong together, and one of them is missing.",
    `both, or neither, in ${section}`,
  );
  const { logs, traces } = config.observability ?? {};
  add(
    logs?.invocation_logs !== false || traces?.enabled === true || config.logpush === true,
    "The platform would log URLs, and the API key is part of them.",
    `invocation_logs = false, traces off and no logpush in ${section}`,
  );
  add(config.name === undefined, "The Worker has no name.", `name in ${section}${flag}`);
  return missing;
}

function sectionName(environment: string | undefined): string {
  return environment === undefined ? "wrangler.toml" : `[env.${environment}] of wrangler.toml`;
}

/** Bindings that an environment lacks: it inherits none, and has its own of each. */
function missingBindings(config: DeployConfig, base: DeployConfig, section: string): Missing[] {
  const has = new Set(bindingsOf(config));
  const lacks = bindingsOf(base).filter((name) => !has.has(name));
  return lacks.map((name) => ({
    what: `${name} is missing.`,
    how: `its lines, as at the top level, under a name of its own, in ${section}`,
  }));
}

/** Settings that a binding of an environment must have as the top level has them. */
function missingSettings(config: DeployConfig, base: DeployConfig, section: string): Missing[] {
  const missing: Missing[] = [];
  const add = (what: string, line: string): void => void missing.push({ what, how: `${line} in ${section}` });
  for (const { binding, migrations_dir: wanted } of base.d1_databases) {
    const own = config.d1_databases.find((one) => one.binding === binding);
    if (own !== undefined && own.migrations_dir !== wanted) {
      add(`${binding} would get no tables: its migrations_dir is not the top level's.`, `migrations_dir = "${wanted}"`);
    }
  }
  for (const { name, class_name: wanted } of base.durable_objects.bindings) {
    const own = config.durable_objects.bindings.find((one) => one.name === name);
    if (own === undefined) continue;
    if (own.class_name !== wanted) add(`${name} is bound to another class.`, `class_name = "${wanted}"`);
    if (own.script_name !== undefined) add(`${name} is bound to another Worker's objects.`, "no script_name");
  }
  for (const consumer of base.queues.consumers ?? []) {
    const own = config.queues.consumers?.find(({ queue }) => carriedBy(queue) === carriedBy(consumer.queue));
    if (own === undefined) continue;
    for (const setting of ["max_batch_size", "max_batch_timeout", "max_retries"] as const) {
      if (consumer[setting] === undefined || own[setting] !== undefined) continue;
      add(`The consumer of the queue ${own.queue} has no ${setting}.`, `${setting} = ${consumer[setting]}`);
    }
  }
  const ids = Map.groupBy(config.ratelimits ?? [], (limiter) => limiter.namespace_id);
  for (const [id, limiters] of ids) {
    if (limiters.length < 2) continue;
    const names = limiters.map(({ name }) => name).join(" and ");
    add(`${names} would share their budget: both have the namespace_id ${id}.`, "another namespace_id");
  }
  return missing;
}

/**
 * What the environment would share with another one that is deployed: a copy that kept its names. The Workers of an account
 * share a rate limit's budget by its `namespace_id`.
 */
function sharedWith(other: Section, checked: Section, section: string): Missing[] {
  const isDeployed = other.config.d1_databases.some(({ database_id: id = "" }) => !NO_DATABASE.test(id));
  const { account_id: account } = checked.config;
  const inAnotherAccount = account !== undefined && (other.config.account_id ?? account) !== account;
  if (!isDeployed || inAnotherAccount) return [];
  const namesOf = ({ config, hosts }: Section): Map<string, string> =>
    new Map(
      [
        ...[config.name ?? []].flat().map((name) => ["The Worker's name", name] as const),
        ...hosts.map((host) => ["The host", host] as const),
        ...config.d1_databases.map(({ database_id: id = "" }) => ["The database", id] as const),
        ...config.r2_buckets.map(({ bucket_name: name = "" }) => ["The bucket", name] as const),
        ...queuesOf(config).map((name) => ["The queue", name] as const),
        ...(config.ratelimits ?? []).map((one) => ["The rate limits' namespace_id", one.namespace_id] as const),
      ].map(([kind, name]) => [`${kind} ${name}`, name]),
    );
  const taken = namesOf(other);
  const owner = other.environment === undefined ? "the top level" : `[env.${other.environment}]`;
  return [...namesOf(checked).keys()]
    .filter((name) => taken.has(name))
    .map((name) => ({ what: `${name} is also that of ${owner}.`, how: `one of its own, in ${section}` }));
}

/** Queues that nobody consumes, or of which the Worker would take what they carry for something else. */
function wrongQueues({ queues: { producers = [], consumers = [] } }: DeployConfig, section: string): Missing[] {
  const carried: { queue: string; as: Carried }[] = [
    ...producers.map(
      ({ binding, queue }) => ({ queue, as: binding === "DELIVERIES" ? "deliveries" : "signals" }) as const,
    ),
    ...consumers.flatMap(({ dead_letter_queue: queue }) =>
      queue === undefined ? [] : [{ queue, as: "dead_letters" } as const],
    ),
  ];
  const ofSignals = new Set(producers.flatMap(({ binding, queue }) => (binding === "SIGNALS" ? queue : [])));
  const wrong: Missing[] = consumers
    .filter(({ queue, dead_letter_queue: dead }) => ofSignals.has(queue) && dead === undefined)
    .map(({ queue }) => ({
      what: `The queue ${queue} has no queue for its dead letters: what cannot be recorded is lost to it.`,
      how: `dead_letter_queue of its consumer in ${section}`,
    }));
  for (const { queue, as } of carried) {
    if (!consumers.some((consumer) => consumer.queue === queue)) {
      wrong.push({
        what: `Nobody consumes the queue ${queue}.`,
        how: `a consumer with queue = "${queue}" in ${section}`,
      });
    }
    if (carriedBy(queue) !== as) {
      const word = as === "signals" ? `neither ${Object.values(QUEUE_WORDS).join(" nor ")}` : QUEUE_WORDS[as];
      wrong.push({
        what: `The queue ${queue} would be taken for one of ${carriedBy(queue).replace("_", " ")}.`,
        how: `a name with ${word} as a word, such as ${as === "signals" ? "signals-staging" : `staging-${word}`}, in ${section}`,
      });
    }
  }
  return wrong;
}

function bindingsOf(config: DeployConfig): string[] {
  return [
    ...config.d1_databases.map(({ binding }) => binding),
    ...config.r2_buckets.map(({ binding }) => binding),
    ...(config.queues.producers ?? []).map(({ binding }) => binding),
    // Queues have other names in each environment: what counts is that as many are consumed.
    ...(config.queues.consumers ?? []).map((_, index) => `queue consumer ${index + 1}`),
    ...config.durable_objects.bindings.map(({ name }) => name),
    ...(config.ratelimits ?? []).map(({ name }) => name),
    ...(config.send_email ?? []).map(({ name }) => name),
    ...Object.keys(config.vars),
  ];
}

export function queuesOf({ queues: { producers = [], consumers = [] } }: DeployConfig): string[] {
  const named = [...producers, ...consumers].map(({ queue }) => queue);
  const dead = consumers.flatMap(({ dead_letter_queue: queue }) => queue ?? []);
  return [...new Set([...named, ...dead])];
}

export function missingInAccount(
  config: DeployConfig,
  account: CloudflareAccount,
  environment: string | undefined,
): Missing[] {
  const flag = environment === undefined ? "" : ` --env ${environment}`;
  const missing: Missing[] = [];
  const notAsked: { what: string; unknown: string }[] = [];
  /** @param there whether it exists; where that could not be asked, it is listed as such. */
  const need = (what: string, there: boolean | Unknown | undefined, how: string): void => {
    if (typeof there === "object") notAsked.push({ what, ...there });
    else if (there !== true) missing.push({ what: `There is no ${what}.`, how });
  };
  for (const { database_id: id = "", database_name: name = "" } of config.d1_databases) {
    if (NO_DATABASE.test(id)) continue;
    const { databases } = account;
    const isThere = "unknown" in databases ? databases : databases.some(({ uuid }) => uuid === id);
    const other = "unknown" in databases ? undefined : databases.find((one) => one.name === name)?.uuid;
    const how = other === undefined ? `npx wrangler d1 create ${name}` : `database_id = "${other}" in wrangler.toml`;
    need(`database ${id}`, isThere, how);
  }
  for (const queue of queuesOf(config)) {
    need(`queue ${queue}`, account.queues[queue], `npx wrangler queues create ${queue}`);
  }
  for (const { bucket_name: bucket = "", jurisdiction } of config.r2_buckets) {
    const where = jurisdiction === undefined ? "" : ` --jurisdiction ${jurisdiction}`;
    need(`bucket ${bucket}`, account.buckets[bucket], `npx wrangler r2 bucket create ${bucket}${where}`);
  }
  const { secrets } = account;
  need(
    "secret OPERATOR_TOKEN, without which nobody can make a workspace",
    "unknown" in secrets ? secrets : secrets.includes("OPERATOR_TOKEN"),
    `openssl rand -base64 32 | npx wrangler secret put OPERATOR_TOKEN${flag}`,
  );
  for (const [unknown, what] of Map.groupBy(notAsked, (one) => one.unknown)) {
    missing.push({
      what: `Wrangler could not be asked for ${what.map((one) => one.what).join(", ")}: ${unknown}`,
      how: "npx wrangler login, or the variable CLOUDFLARE_API_TOKEN",
    });
  }
  return [...missing, ...account.hosts.flatMap((host) => wrongFront(config, host))];
}

function wrongFront(config: DeployConfig, { host, webhooks, pages }: CloudflareAccount["hosts"][number]): Missing[] {
  const wrong: Missing[] = [];
  if (webhooks === "access") {
    wrong.push({
      what: `Access stands in front of the webhooks at ${host}: senders get a sign-in page.`,
      how: `the Access application with the paths ${host}/w and ${host}/sign-in only`,
    });
  }
  if (pages === "worker" && signInSettings(String(config.vars["SIGN_IN"]))?.behindAccess) {
    wrong.push({
      what: `Access does not stand in front of the pages at ${host}: nobody gets to them.`,
      how: `an Access application with the paths ${host}/w and ${host}/sign-in`,
    });
  }
  return wrong;
}

/** What is missing, as text for a terminal. */
export function missingText(missing: readonly Missing[]): string {
  if (missing.length === 0) return "Nothing is missing.";
  const lines = missing.map(({ what, how }) => `  ${what}\n      ${how}`);
  return [`${missing.length === 1 ? "One thing is" : `${missing.length} things are`} missing:`, ...lines].join("\n\n");
}
