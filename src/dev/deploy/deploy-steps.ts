/** Finds what a deployment lacks: in wrangler.toml, in the account, and at the service's hosts. Changes nothing. */
import { parseArgs, stripVTControlCharacters } from "node:util";
import { unstable_readConfig, type Unstable_Config } from "wrangler";
import { FIT_SIGN_INS, signInSettings } from "../../pages/session/sign-in-settings.ts";
import { jurisdictionProblem } from "../../domain/jurisdiction.ts";
import { queueKind, QUEUE_WORDS, type QueueKind } from "../../queue/queue-names.ts";

/**
 * The environment from the command line, or CLOUDFLARE_ENV as in wrangler. @throws on any other argument: its effect,
 * such as `--var SIGN_IN:local`, could not be checked.
 */
export function argumentsOf(
  args: string[],
  named = process.env["CLOUDFLARE_ENV"],
): { environment: string | undefined; onlyCheck: boolean } {
  const options = { env: { type: "string", short: "e" }, check: { type: "boolean", default: false } } as const;
  const { values } = parseArgs({ args, options });
  return { environment: values.env || named || undefined, onlyCheck: values.check };
}

/** Arguments that select this environment, or the top level, regardless of CLOUDFLARE_ENV. */
export function ofEnvironment(environment: string | undefined): string[] {
  return ["--env", environment ?? ""];
}

/** The relevant settings of wrangler.toml for one environment, as wrangler reads them. */
export type DeployConfig = Pick<
  Unstable_Config,
  | ("name" | "account_id" | "vars" | "d1_databases" | "r2_buckets" | "queues" | "durable_objects" | "ratelimits")
  | ("send_email" | "observability" | "logpush" | "services" | "workers_dev")
  | ("triggers" | "migrations" | "compatibility_flags" | "main")
>;

/** An environment's section of wrangler.toml; `environment` is undefined for the top level. */
export interface Section {
  environment: string | undefined;
  config: DeployConfig;
  /** Host names of its routes, `*.` for many. An environment without routes inherits those of the top level. */
  hosts: readonly string[];
}

/** All sections of the file, the top level first. @throws where wrangler cannot use the file. */
export function readSections(file: string): Section[] {
  // An empty name selects the top level, even if CLOUDFLARE_ENV names an environment.
  const read = (name = "") => unstable_readConfig({ config: file, env: name }, { hideWarnings: true });
  return [undefined, ...(read().definedEnvironments ?? [])].map((environment) => {
    const config = read(environment);
    const routes = [config.route, ...(config.routes ?? [])].filter((route) => route !== undefined);
    const hosts = routes.map((route) => (typeof route === "string" ? route : route.pattern).split("/")[0] ?? "");
    return { environment, config, hosts };
  });
}

/** A missing part, and the command that creates it or the setting to write. */
interface Missing {
  what: string;
  how: string;
}

class Findings {
  readonly missing: Missing[] = [];
  readonly section: string;

  constructor(environment: string | undefined) {
    this.section = environment === undefined ? "wrangler.toml" : `[env.${environment}] of wrangler.toml`;
  }

  /** @param setting what to write in the section. */
  addIf(isMissing: boolean, what: string, setting: string): void {
    if (isMissing) this.missing.push({ what, how: `${setting} in ${this.section}` });
  }
}

const NO_DATABASE = /^[0-]*$/;

function createDatabase(name: string, config: DeployConfig): string {
  return ["npx wrangler d1 create", name, ...inJurisdiction(textOf(config, "JURISDICTION"))].join(" ");
}

/** @param all every section of the file, the top level first. */
export function missingInConfig(all: readonly Section[], environment: string | undefined): Missing[] {
  const [base] = all;
  const checked = all.find((section) => section.environment === environment);
  if (base === undefined || checked === undefined) {
    const how = `[env.${environment}] in wrangler.toml with bindings of its own: without it, those of the top level are taken`;
    return [{ what: `There is no environment ${environment}.`, how }];
  }
  const { config } = checked;
  const found = new Findings(environment);
  // Bindings are not inherited.
  const has = new Set(bindingsOf(config));
  for (const name of bindingsOf(base.config)) {
    found.addIf(!has.has(name), `${name} is missing.`, "its lines, as at the top level, under a name of its own,");
  }
  checkSettings(config, base.config, found);
  checkInherited(config, base.config, found);
  checkQueues(config, found);
  checkJurisdiction(config, found);
  for (const section of all) if (section !== checked) checkShared(section, checked, found);
  for (const { database_id: id = "", database_name: name = "", binding } of config.d1_databases) {
    if (!NO_DATABASE.test(id)) continue;
    const how = `${createDatabase(name, config)}, and its id as database_id into ${found.section}`;
    found.missing.push({ what: `${binding} has no database yet.`, how });
  }
  checkSignIn(config, found);
  found.addIf(
    (textOf(config, "EMAIL_FROM") !== "") !== (config.send_email ?? []).some(({ name }) => name === "EMAIL"),
    "EMAIL_FROM and the binding EMAIL belong together, and one of them is missing.",
    "both, or neither,",
  );
  const { logs, traces } = config.observability ?? {};
  found.addIf(
    logs?.invocation_logs !== false || traces?.enabled === true || config.logpush === true,
    "The platform would log URLs, and the API key is part of them.",
    "invocation_logs = false, traces off and no logpush",
  );
  found.addIf(config.name === undefined, "The Worker has no name.", "name");
  found.addIf(
    config.workers_dev === false && checked.hosts.length === 0,
    "The Worker has no address.",
    "routes, or workers_dev = true,",
  );
  return found.missing;
}

function textOf({ vars }: DeployConfig, name: string): string {
  const value = vars[name];
  return typeof value === "string" ? value : "";
}

function checkSignIn(config: DeployConfig, found: Findings): void {
  const signIn = textOf(config, "SIGN_IN");
  const settings = signInSettings(signIn);
  found.addIf(
    settings === null || settings.unfit !== null,
    settings === null ? `SIGN_IN is ${JSON.stringify(signIn)}.` : `SIGN_IN is ${signIn}, which ${settings.unfit}.`,
    `SIGN_IN = ${FIT_SIGN_INS.map((name) => JSON.stringify(name)).join(" or ")}`,
  );
  for (const { variable, from } of settings?.needs ?? []) {
    found.addIf(
      textOf(config, variable) === "",
      `${variable} is empty: nobody gets to the pages.`,
      `${from === undefined ? "" : `${from}, as `}${variable}`,
    );
  }
}

/** Settings of a binding that must equal those of the top level. */
function checkSettings(config: DeployConfig, base: DeployConfig, found: Findings): void {
  for (const { binding, migrations_dir: wanted } of base.d1_databases) {
    const bound = config.d1_databases.find((database) => database.binding === binding);
    found.addIf(
      bound !== undefined && bound.migrations_dir !== wanted,
      `${binding} would get no tables: its migrations_dir is not the top level's.`,
      `migrations_dir = "${wanted}"`,
    );
  }
  for (const { name, class_name: wanted } of base.durable_objects.bindings) {
    const bound = config.durable_objects.bindings.find((object) => object.name === name);
    if (bound === undefined) continue;
    found.addIf(bound.class_name !== wanted, `${name} is bound to another class.`, `class_name = "${wanted}"`);
    found.addIf(bound.script_name !== undefined, `${name} is bound to another Worker's objects.`, "no script_name");
  }
  for (const consumer of base.queues.consumers ?? []) {
    const bound = config.queues.consumers?.find(({ queue }) => queueKind(queue) === queueKind(consumer.queue));
    if (bound === undefined) continue;
    for (const setting of ["max_batch_size", "max_batch_timeout", "max_retries"] as const) {
      found.addIf(
        consumer[setting] !== undefined && bound[setting] === undefined,
        `The consumer of the queue ${bound.queue} has no ${setting}.`,
        `${setting} = ${consumer[setting]}`,
      );
    }
  }
  for (const [id, limiters] of Map.groupBy(config.ratelimits ?? [], (limiter) => limiter.namespace_id)) {
    const names = limiters.map(({ name }) => name).join(" and ");
    found.addIf(
      limiters.length > 1,
      `${names} would share their budget: both have the namespace_id ${id}.`,
      "another namespace_id",
    );
  }
}

/** Settings that every environment inherits: its Worker would be another program than the tested one. */
function checkInherited(config: DeployConfig, base: DeployConfig, found: Findings): void {
  for (const name of ["main", "compatibility_flags", "migrations", "triggers"] as const) {
    found.addIf(
      JSON.stringify(config[name]) !== JSON.stringify(base[name]),
      `${name} differs from the top level's.`,
      `no lines of ${name}, because they are inherited,`,
    );
  }
}

/** The platform cannot move data later, so all of it must begin in the jurisdiction. */
function checkJurisdiction(config: DeployConfig, found: Findings): void {
  const jurisdiction = textOf(config, "JURISDICTION");
  const problem = jurisdictionProblem(jurisdiction, jurisdiction);
  found.addIf(problem !== null, String(problem), 'JURISDICTION = "eu", "us" or ""');
  if (jurisdiction === "" || problem !== null) return;
  for (const bucket of config.r2_buckets) {
    found.addIf(
      bucket.jurisdiction !== jurisdiction,
      `The bucket of ${bucket.binding} is not in the jurisdiction "${jurisdiction}" of the objects.`,
      `jurisdiction = "${jurisdiction}" of the bucket`,
    );
  }
}

/**
 * Resources that the environment shares with another one because a copy kept their names. Workers of an account share the
 * budget of a rate limit with the same `namespace_id`.
 */
function checkShared(other: Section, checked: Section, found: Findings): void {
  const { account_id: account } = checked.config;
  const inAnotherAccount = account !== undefined && (other.config.account_id ?? account) !== account;
  if (inAnotherAccount) return;
  const owner = other.environment === undefined ? "the top level" : `[env.${other.environment}]`;
  const taken = new Set(namesOf(other));
  for (const name of namesOf(checked)) {
    found.addIf(taken.has(name), `${name} is also that of ${owner}.`, "one of its own,");
  }
}

function namesOf({ config, hosts }: Section): string[] {
  return [
    ...(config.name === undefined ? [] : [`The Worker's name ${config.name}`]),
    ...hosts.map((host) => `The host ${host}`),
    ...config.d1_databases.flatMap(({ database_id: id = "", database_name: name }) => [
      ...(NO_DATABASE.test(id) ? [] : [`The database ${id}`]),
      `The database name ${name}`,
    ]),
    ...config.r2_buckets.map(({ bucket_name: name = "" }) => `The bucket ${name}`),
    ...queuesOf(config).map((name) => `The queue ${name}`),
    ...(config.ratelimits ?? []).map(({ namespace_id: id }) => `The rate limits' namespace_id ${id}`),
    ...(config.services ?? []).map(({ service }) => `The Worker ${service} of a service binding`),
  ];
}

/** Queues without a consumer, and queues whose messages the Worker would misread. */
function checkQueues({ queues: { producers = [], consumers = [] } }: DeployConfig, found: Findings): void {
  const carried: { queue: string; as: QueueKind }[] = [
    ...producers.map(
      ({ binding, queue = "" }) => ({ queue, as: binding === "DELIVERIES" ? "deliveries" : "signals" }) as const,
    ),
    ...consumers.flatMap(({ dead_letter_queue: queue }) =>
      queue === undefined ? [] : [{ queue, as: "dead_letters" } as const],
    ),
  ];
  const ofSignals = new Set(producers.flatMap(({ binding, queue }) => (binding === "SIGNALS" ? queue : [])));
  for (const { queue, dead_letter_queue: dead } of consumers) {
    found.addIf(
      ofSignals.has(queue) && dead === undefined,
      `The queue ${queue} has no queue for its dead letters: what cannot be recorded is lost to it.`,
      "dead_letter_queue of its consumer",
    );
  }
  for (const { queue, as } of carried) {
    found.addIf(
      !consumers.some((consumer) => consumer.queue === queue),
      `Nobody consumes the queue ${queue}.`,
      `a consumer with queue = "${queue}"`,
    );
    const word = as === "signals" ? `neither ${Object.values(QUEUE_WORDS).join(" nor ")}` : QUEUE_WORDS[as];
    const example = as === "signals" ? "signals-staging" : `staging-${word}`;
    found.addIf(
      queueKind(queue) !== as,
      `The queue ${queue} would be taken for one of ${queueKind(queue).replace("_", " ")}.`,
      `a name with ${word} as a word, such as ${example},`,
    );
  }
}

function bindingsOf(config: DeployConfig): string[] {
  return [
    ...config.d1_databases.map(({ binding }) => binding),
    ...config.r2_buckets.map(({ binding }) => binding),
    ...(config.queues.producers ?? []).map(({ binding }) => binding),
    // Queue names differ between environments, so compare the number of consumers.
    ...(config.queues.consumers ?? []).map((_, index) => `queue consumer ${index + 1}`),
    ...config.durable_objects.bindings.map(({ name }) => name),
    ...(config.ratelimits ?? []).map(({ name }) => name),
    ...(config.send_email ?? []).map(({ name }) => name),
    ...(config.services ?? []).map(({ binding }) => binding),
    ...Object.keys(config.vars),
  ];
}

function queuesOf({ queues: { producers = [], consumers = [] } }: DeployConfig): string[] {
  const named = [...producers, ...consumers].flatMap(({ queue }) => queue ?? []);
  const dead = consumers.flatMap(({ dead_letter_queue: queue }) => queue ?? []);
  return [...new Set([...named, ...dead])];
}

// --- The account ---

interface Unknown {
  unknown: string;
}

/** The system that answers first at a path, if any. */
type Front = "access" | "worker" | "nobody";

interface CloudflareAccount {
  databases: { uuid: string; name: string }[] | Unknown;
  /** Whether each queue and bucket of the configuration exists. */
  queues: Record<string, boolean | Unknown>;
  buckets: Record<string, boolean | Unknown>;
  /** Jurisdiction of the first workspace's objects; null: the database has no workspace. */
  jurisdiction: string | null | Unknown;
  /** The Worker's secrets; empty before the first deployment. */
  secrets: { name: string }[] | Unknown;
  /** Which system answers at each of the Worker's hosts, for webhook paths and page paths. */
  hosts: { host: string; webhooks: Front; pages: Front }[];
}

/** Runs wrangler and returns its exit code with all output. */
export type Wrangler = (args: string[]) => Promise<{ code: number; out: string }>;
type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export async function readAccount(
  { config, hosts, environment }: Section,
  wrangler: Wrangler,
  fetchUrl: Fetch,
): Promise<CloudflareAccount> {
  const existing = async (names: readonly string[], info: (name: string) => string[]) =>
    Object.fromEntries(
      await Promise.all(names.map(async (name) => [name, await exists(wrangler, info(name))] as const)),
    );
  const places = new Map(config.r2_buckets.map(({ bucket_name: name = "", jurisdiction }) => [name, jurisdiction]));
  const [databases, jurisdiction, secrets, queues, buckets, fronts] = await Promise.all([
    readJson(wrangler, ["d1", "list", "--json"]),
    recordedJurisdiction(config, wrangler, environment),
    // Before the first deployment there is no Worker that could have secrets.
    readJson(wrangler, ["secret", "list", "--format", "json", ...ofEnvironment(environment)], []),
    existing(queuesOf(config), (name) => ["queues", "info", name]),
    existing([...places.keys()], (name) => ["r2", "bucket", "info", name, ...inJurisdiction(places.get(name))]),
    Promise.all(hosts.filter((host) => !host.includes("*")).map((host) => readHost(host, fetchUrl))),
  ]);
  return {
    databases: databases as CloudflareAccount["databases"],
    jurisdiction,
    secrets: secrets as CloudflareAccount["secrets"],
    queues,
    buckets,
    hosts: fronts,
  };
}

const inJurisdiction = (place?: string): string[] => (place ? ["--jurisdiction", place] : []);

/** A workspace of a version without jurisdictions is in none. */
async function recordedJurisdiction(
  { d1_databases: [database] }: DeployConfig,
  wrangler: Wrangler,
  environment: string | undefined,
): Promise<CloudflareAccount["jurisdiction"]> {
  if (database === undefined || NO_DATABASE.test(database.database_id ?? "")) return null;
  const query = ["--remote", "--json", "--command", "SELECT * FROM workspaces LIMIT 1"];
  const args = ["d1", "execute", database.binding, ...query, ...ofEnvironment(environment)];
  const answer = (await readJson(wrangler, args, [])) as { results: { jurisdiction?: string }[] }[] | Unknown;
  if ("unknown" in answer) return answer;
  const [workspace] = answer[0]?.results ?? [];
  return workspace === undefined ? null : (workspace.jurisdiction ?? "");
}

/** The platform's messages about missing resources. */
const NOT_THERE = /does not exist|not found|no such table|\b(10006|10007|11000)\b/i;

async function exists(wrangler: Wrangler, args: string[]): Promise<boolean | Unknown> {
  const { code, out } = await wrangler(args);
  if (code === 0) return true;
  return NOT_THERE.test(out) ? false : { unknown: lastError(out) };
}

/** @param ifMissing the result if the platform says that what is listed does not exist. */
async function readJson(wrangler: Wrangler, args: string[], ifMissing?: unknown): Promise<unknown> {
  const { code, out } = await wrangler(args);
  if (code !== 0) return (NOT_THERE.test(out) && ifMissing) || { unknown: lastError(out) };
  try {
    // The output may begin with a hint about a newer version.
    return JSON.parse(out.slice(out.search(/^[[{]/m)));
  } catch {
    return { unknown: `no JSON: ${out.slice(0, 200)}` };
  }
}

/** The line with the error, without colours. */
function lastError(out: string): string {
  const lines = stripVTControlCharacters(out)
    .split("\n")
    .map((line) => line.trim());
  const message =
    lines.findLast((line) => line.includes("[ERROR]")) ?? lines.find((line) => line !== "") ?? "no answer";
  return message.replace(/^.*\[ERROR\] */, "");
}

/**
 * Finds out who answers at a host. A webhook path refuses GET, so an answer of the Worker differs from Access's
 * sign-in page.
 */
async function readHost(host: string, fetchUrl: Fetch): Promise<CloudflareAccount["hosts"][number]> {
  const webhooks = await front(`https://${host}/api/signal-staging/webhook/sk_none`, fetchUrl);
  return { host, webhooks, pages: await front(`https://${host}/w/none`, fetchUrl) };
}

async function front(url: string, fetchUrl: Fetch): Promise<Front> {
  try {
    const answer = await fetchUrl(url, { redirect: "manual", signal: AbortSignal.timeout(10_000) });
    await answer.body?.cancel();
    const target = answer.headers.get("location") ?? "";
    return /^https:\/\/[^/]+\.cloudflareaccess\.com\//.test(target) ? "access" : "worker";
  } catch {
    return "nobody";
  }
}

export function missingInAccount({ config, environment }: Section, account: CloudflareAccount): Missing[] {
  const { databases, jurisdiction: recorded, queues, buckets, secrets, hosts } = account;
  const jurisdiction = textOf(config, "JURISDICTION");
  const missing: Missing[] = [];
  const notAsked: { what: string; unknown: string }[] = [];
  const need = (resource: string, there: boolean | Unknown | undefined, how: string): void => {
    if (typeof there === "object") notAsked.push({ what: resource, ...there });
    else if (there !== true) missing.push({ what: `There is no ${resource}.`, how });
  };
  for (const { database_id: id = "", database_name: name = "" } of config.d1_databases) {
    if (NO_DATABASE.test(id)) continue;
    const isThere = "unknown" in databases ? databases : databases.some(({ uuid }) => uuid === id);
    const known = "unknown" in databases ? undefined : databases.find((database) => database.name === name);
    const how = known === undefined ? createDatabase(name, config) : `database_id = "${known.uuid}" in wrangler.toml`;
    need(`database ${id}`, isThere, how);
  }
  for (const queue of queuesOf(config)) {
    const how = `npx wrangler queues create ${queue}`;
    const place = `a queue ${queue} in the jurisdiction "${jurisdiction}": docs/deploy.md has the command`;
    need(`queue ${queue}`, queues[queue], jurisdiction === "" ? how : place);
  }
  for (const { bucket_name: bucket = "", jurisdiction: place } of config.r2_buckets) {
    const how = ["npx wrangler r2 bucket create", bucket, ...inJurisdiction(place)].join(" ");
    need(`bucket ${bucket}`, buckets[bucket], how);
  }
  const isUnknown = typeof recorded === "object" && recorded !== null;
  if (isUnknown) notAsked.push({ what: "the jurisdiction of the data", ...recorded });
  const problem = isUnknown || recorded === null ? null : jurisdictionProblem(jurisdiction, recorded);
  if (problem !== null) missing.push({ what: problem, how: `JURISDICTION = ${JSON.stringify(recorded)}` });
  const flag = environment === undefined ? "" : ` --env ${environment}`;
  need(
    "secret OPERATOR_TOKEN, without which nobody can make a workspace",
    "unknown" in secrets ? secrets : secrets.some(({ name }) => name === "OPERATOR_TOKEN"),
    `openssl rand -base64 32 | npx wrangler secret put OPERATOR_TOKEN${flag}`,
  );
  for (const [unknown, what] of Map.groupBy(notAsked, (entry) => entry.unknown)) {
    missing.push({
      what: `Wrangler could not be asked for ${what.map((entry) => entry.what).join(", ")}: ${unknown}`,
      how: "npx wrangler login, or the variable CLOUDFLARE_API_TOKEN",
    });
  }
  for (const { host, webhooks, pages } of hosts) {
    if (webhooks === "access") {
      missing.push({
        what: `Access stands in front of the webhooks at ${host}: senders get a sign-in page.`,
        how: `the Access application with the paths ${host}/w and ${host}/sign-in only`,
      });
    }
    if (pages === "worker" && signInSettings(textOf(config, "SIGN_IN"))?.behindAccess) {
      missing.push({
        what: `Access does not stand in front of the pages at ${host}: nobody gets to them.`,
        how: `an Access application with the paths ${host}/w and ${host}/sign-in`,
      });
    }
  }
  return missing;
}

export function missingText(missing: readonly Missing[]): string {
  if (missing.length === 0) return "Nothing is missing.";
  const lines = missing.map(({ what, how }) => `  ${what}\n      ${how}`);
  return [`${missing.length === 1 ? "One thing is" : `${missing.length} things are`} missing:`, ...lines].join("\n\n");
}
