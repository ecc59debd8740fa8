/** Checks a deployment before it is made: wrangler.toml, the account, and the service's hosts. Changes nothing. */
import { parseArgs, stripVTControlCharacters } from "node:util";
import { unstable_readConfig, type Unstable_Config } from "wrangler";
import { DEPLOYABLE_SIGN_INS, signInSettings } from "../../pages/session/sign-in-settings.ts";
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
export function environmentArguments(environment: string | undefined): string[] {
  return ["--env", environment ?? ""];
}

/** Settings that every environment inherits: with others, its Worker would be another program than the tested one. */
const INHERITED = ["main", "compatibility_flags", "migrations", "triggers", "limits"] as const;

/** The relevant settings of wrangler.toml for one environment, as wrangler reads them. */
export type DeployConfig = Pick<
  Unstable_Config,
  | ("name" | "account_id" | "vars" | "d1_databases" | "r2_buckets" | "queues" | "durable_objects" | "ratelimits")
  | ("send_email" | "observability" | "logpush" | "services" | "workers_dev")
  | (typeof INHERITED)[number]
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

export interface Missing {
  problem: string;
  fix: string;
}

type Problem = readonly [problem: string, setting: string];

/** @param all every section of the file, the top level first. */
export function missingInConfig(all: readonly Section[], environment: string | undefined): Missing[] {
  const [top] = all;
  const checked = all.find((section) => section.environment === environment);
  if (top === undefined || checked === undefined) {
    const fix = `[env.${environment}] in wrangler.toml with its own bindings: without it, wrangler uses those of the top level`;
    return [{ problem: `There is no environment ${environment}.`, fix }];
  }
  const { config } = checked;
  const problems: Problem[] = [
    ...checkBindings(config, top.config),
    ...checkQueues(config),
    ...checkJurisdiction(config),
    ...all.flatMap((section) => (section === checked ? [] : [...checkShared(checked, section)])),
    ...checkDatabases(config),
    ...checkSignIn(config),
    ...checkOtherSettings(checked),
  ];
  const file = environment === undefined ? "wrangler.toml" : `[env.${environment}] of wrangler.toml`;
  return problems.map(([problem, setting]) => ({ problem, fix: `${setting} in ${file}` }));
}

/** Bindings and variables are not inherited, so each section repeats those of the top level. */
function* checkBindings(config: DeployConfig, top: DeployConfig): Iterable<Problem> {
  const bindings = bindingsOf(config);
  for (const [name, wanted] of bindingsOf(top)) {
    const settings = bindings.get(name);
    if (settings === undefined)
      yield [`${name} is missing.`, "its lines, as at the top level, under a name of its own,"];
    for (const [setting, value] of Object.entries(settings === undefined ? {} : wanted)) {
      if (settings?.[setting] === value) continue;
      const line = value === undefined ? `no ${setting}` : `${setting} = "${value}"`;
      yield [`${setting} of ${name} differs from the top level's.`, line];
    }
  }
  for (const name of INHERITED) {
    if (JSON.stringify(config[name]) !== JSON.stringify(top[name]))
      yield [`${name} differs from the top level's.`, `no lines of ${name}, because they are inherited,`];
  }
}

function bindingsOf(config: DeployConfig): Map<string, Record<string, string | undefined>> {
  const { queues, ratelimits, send_email: emails, services = [] } = config;
  const names = [
    ...config.r2_buckets.map(({ binding }) => binding),
    ...(queues.producers ?? []).map(({ binding }) => binding),
    ...ratelimits.map(({ name }) => name),
    ...emails.map(({ name }) => name),
    ...services.map(({ binding }) => binding),
    ...Object.keys(config.vars),
  ];
  return new Map<string, Record<string, string | undefined>>([
    ...config.d1_databases.map(({ binding, migrations_dir }) => [binding, { migrations_dir }] as const),
    ...config.durable_objects.bindings.map(
      ({ name, class_name, script_name }) => [name, { class_name, script_name }] as const,
    ),
    ...names.map((name) => [name, {}] as const),
  ]);
}

/** Queues without a consumer, and queues whose messages the Worker would misread. */
function* checkQueues({ queues: { producers = [], consumers = [] } }: DeployConfig): Iterable<Problem> {
  for (const consumer of consumers) {
    for (const setting of ["max_batch_size", "max_batch_timeout", "max_retries"] as const) {
      if (consumer[setting] === undefined)
        yield [`The consumer of the queue ${consumer.queue} has no ${setting}.`, `${setting}, as at the top level,`];
    }
  }
  const queues: (readonly [name: string, kind: QueueKind])[] = [
    ...producers.map(
      ({ binding, queue = "" }) => [queue, binding === "DELIVERIES" ? "deliveries" : "signals"] as const,
    ),
    ...consumers.flatMap(({ dead_letter_queue: queue = null }) =>
      queue === null ? [] : [[queue, "dead_letters"] as const],
    ),
  ];
  for (const [queue, kind] of queues) {
    const consumer = consumers.find((known) => known.queue === queue);
    if (consumer === undefined) yield [`The queue ${queue} has no consumer.`, `a consumer with queue = "${queue}"`];
    else if (kind === "signals" && consumer.dead_letter_queue === undefined)
      yield [
        `The queue ${queue} has no dead-letter queue: signals that cannot be recorded would be lost.`,
        "dead_letter_queue of its consumer",
      ];
    if (queueKind(queue) === kind) continue;
    const word = kind === "signals" ? `neither ${Object.values(QUEUE_WORDS).join(" nor ")}` : QUEUE_WORDS[kind];
    const example = kind === "signals" ? "signals-staging" : `staging-${word}`;
    yield [
      `The service would treat the queue ${queue} as a queue of ${queueKind(queue).replace("_", " ")}.`,
      `a name with ${word} as a word, such as ${example},`,
    ];
  }
}

/** The platform cannot move data later, so all of it must begin in the jurisdiction. */
function* checkJurisdiction(config: DeployConfig): Iterable<Problem> {
  const jurisdiction = textOf(config, "JURISDICTION");
  const problem = jurisdictionProblem(jurisdiction, jurisdiction);
  if (problem !== null) yield [problem, 'JURISDICTION = "eu", "us" or ""'];
  if (problem !== null || jurisdiction === "") return;
  for (const bucket of config.r2_buckets) {
    if (bucket.jurisdiction !== jurisdiction)
      yield [
        `The bucket of ${bucket.binding} is not in the jurisdiction "${jurisdiction}" of the objects.`,
        `jurisdiction = "${jurisdiction}" of the bucket`,
      ];
  }
}

/** Resources that two environments share because a copy kept their names. */
function* checkShared({ config, hosts }: Section, other: Section): Iterable<Problem> {
  const { account_id: account } = config;
  const isInOtherAccount = account !== undefined && (other.config.account_id ?? account) !== account;
  if (isInOtherAccount) return;
  const owner = other.environment === undefined ? "the top level" : `[env.${other.environment}]`;
  const taken = new Set(namesOf(other.config, other.hosts));
  for (const name of namesOf(config, hosts)) {
    if (taken.has(name)) yield [`${name} is also that of ${owner}.`, "a value of its own,"];
  }
}

/** Workers of an account share the budget of a rate limit with the same `namespace_id`. */
function namesOf(config: DeployConfig, hosts: readonly string[]): string[] {
  return [
    ...(config.name === undefined ? [] : [`The Worker's name ${config.name}`]),
    ...hosts.map((host) => `The host ${host}`),
    ...config.d1_databases.flatMap((database) => [
      ...(isCreated(database) ? [`The database ${database.database_id}`] : []),
      `The database name ${database.database_name}`,
    ]),
    ...config.r2_buckets.map(({ bucket_name: name }) => `The bucket ${name}`),
    ...queuesOf(config).map((name) => `The queue ${name}`),
    ...(config.ratelimits ?? []).map(({ namespace_id: id }) => `The rate limits' namespace_id ${id}`),
    ...(config.services ?? []).map(({ service }) => `The Worker ${service} of a service binding`),
  ];
}

function* checkDatabases(config: DeployConfig): Iterable<Problem> {
  for (const database of config.d1_databases) {
    if (!isCreated(database))
      yield [
        `${database.binding} has no database yet.`,
        `${createDatabase(database, config)}, and its id as database_id`,
      ];
  }
}

function* checkSignIn(config: DeployConfig): Iterable<Problem> {
  const signIn = textOf(config, "SIGN_IN");
  const settings = signInSettings(signIn);
  const fit = `SIGN_IN = ${DEPLOYABLE_SIGN_INS.map((name) => JSON.stringify(name)).join(" or ")}`;
  if (settings === null) yield [`SIGN_IN is ${JSON.stringify(signIn)}.`, fit];
  else if (settings.notDeployable !== null) yield [`SIGN_IN is ${signIn}, which ${settings.notDeployable}.`, fit];
  for (const { variable, from } of settings?.needs ?? []) {
    if (textOf(config, variable) === "")
      yield [
        `${variable} is empty: nobody can open the pages.`,
        from === undefined ? variable : `${from}, as ${variable}`,
      ];
  }
}

function* checkOtherSettings({ config, hosts }: Section): Iterable<Problem> {
  const { logs, traces } = config.observability ?? {};
  if (logs?.invocation_logs !== false || traces?.enabled === true || config.logpush === true)
    yield [
      "The platform would log URLs, and the API key is part of them.",
      "invocation_logs = false, traces off and no logpush",
    ];
  for (const [id, limits] of Map.groupBy(config.ratelimits ?? [], (limit) => limit.namespace_id)) {
    const names = limits.map(({ name }) => name).join(" and ");
    if (limits.length > 1)
      yield [`${names} would share their budget: they have the same namespace_id ${id}.`, "another namespace_id"];
  }
  const hasEmail = config.send_email?.some(({ name }) => name === "EMAIL") ?? false;
  if (hasEmail !== (textOf(config, "EMAIL_FROM") !== ""))
    yield ["EMAIL_FROM and the binding EMAIL belong together, and one of them is missing.", "both, or neither,"];
  if (config.name === undefined) yield ["The Worker has no name.", "name"];
  if (config.workers_dev === false && hosts.length === 0)
    yield ["The Worker has no address.", "routes, or workers_dev = true,"];
}

function textOf({ vars }: DeployConfig, name: string): string {
  const value = vars[name];
  return typeof value === "string" ? value : "";
}

function queuesOf({ queues: { producers = [], consumers = [] } }: DeployConfig): string[] {
  const named = [...producers, ...consumers].flatMap(({ queue }) => queue ?? []);
  const dead = consumers.flatMap(({ dead_letter_queue: queue }) => queue ?? []);
  return [...new Set([...named, ...dead])];
}

type Database = DeployConfig["d1_databases"][number];

/** Whether the configuration has the id of a database, in place of the zeros of an example. */
function isCreated({ database_id: id = "" }: Database): boolean {
  return !/^[0-]*$/.test(id);
}

function createDatabase({ database_name: name = "" }: Database, config: DeployConfig): string {
  return ["npx wrangler d1 create", name, ...inJurisdiction(textOf(config, "JURISDICTION"))].join(" ");
}

function inJurisdiction(place?: string): string[] {
  return place ? ["--jurisdiction", place] : [];
}

// --- The account ---

export type Wrangler = (args: string[]) => Promise<{ code: number; out: string }>;
type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Everything that the section needs in the account, and who answers at its hosts. */
export async function missingInAccount(section: Section, wrangler: Wrangler, fetchUrl: Fetch): Promise<Missing[]> {
  const answers = await Promise.all(
    partsOf(section, wrangler).map(async ({ name, check }) => {
      try {
        return { missing: await check() };
      } catch (error) {
        return { name, error: error instanceof Error ? error.message : String(error) };
      }
    }),
  );
  const failed = answers.flatMap((answer) => ("error" in answer ? [answer] : []));
  const unread = [...Map.groupBy(failed, ({ error }) => error)].map(([error, parts]) => ({
    problem: `Wrangler could not check ${parts.map(({ name }) => name).join(", ")}: ${error}`,
    fix: "npx wrangler login, or the variable CLOUDFLARE_API_TOKEN",
  }));
  const hosts = section.hosts.filter((host) => !host.includes("*"));
  const behindAccess = signInSettings(textOf(section.config, "SIGN_IN"))?.behindAccess === true;
  const missingAtHosts = await Promise.all(hosts.map((host) => missingAtHost(host, behindAccess, fetchUrl)));
  return [
    ...answers.flatMap((answer) => ("missing" in answer ? answer.missing : [])),
    ...unread,
    ...missingAtHosts.flat(),
  ];
}

interface Part {
  name: string;
  /** @throws if wrangler cannot check the part. */
  check: () => Promise<Missing[]>;
}

function partsOf({ config, environment }: Section, wrangler: Wrangler): Part[] {
  const jurisdiction = textOf(config, "JURISDICTION");
  const part = (name: string, isThere: () => Promise<boolean>, fix: string): Part => ({
    name,
    check: async () => ((await isThere()) ? [] : [{ problem: `There is no ${name}.`, fix }]),
  });
  const exists = async (...args: string[]) => (await ask(wrangler, args)) !== null;
  const secrets = () =>
    list<{ name: string }>(wrangler, ["secret", "list", "--format", "json", ...environmentArguments(environment)]);
  const flag = environment === undefined ? "" : ` --env ${environment}`;
  return [
    ...config.d1_databases.filter(isCreated).map((database) => ({
      name: `database ${database.database_id}`,
      check: () => checkDatabase(database, config, wrangler),
    })),
    ...queuesOf(config).map((queue) => {
      const fix = ["npx wrangler queues create", queue, ...inJurisdiction(jurisdiction)].join(" ");
      return part(`queue ${queue}`, () => exists("queues", "info", queue), fix);
    }),
    ...config.r2_buckets.map(({ bucket_name: bucket = "", jurisdiction: place }) => {
      const fix = ["npx wrangler r2 bucket create", bucket, ...inJurisdiction(place)].join(" ");
      return part(`bucket ${bucket}`, () => exists("r2", "bucket", "info", bucket, ...inJurisdiction(place)), fix);
    }),
    { name: "the jurisdiction of the data", check: () => checkDataJurisdiction(config, environment, wrangler) },
    part(
      "secret OPERATOR_TOKEN, without which nobody can create a workspace",
      async () => (await secrets()).some(({ name }) => name === "OPERATOR_TOKEN"),
      `openssl rand -base64 32 | npx wrangler secret put OPERATOR_TOKEN${flag}`,
    ),
  ];
}

async function checkDatabase(database: Database, config: DeployConfig, wrangler: Wrangler): Promise<Missing[]> {
  const { database_id: id, database_name: name } = database;
  const databases = await list<{ uuid: string; name: string }>(wrangler, ["d1", "list", "--json"]);
  if (databases.some(({ uuid }) => uuid === id)) return [];
  const named = databases.find((known) => known.name === name);
  const fix = named === undefined ? createDatabase(database, config) : `database_id = "${named.uuid}" in wrangler.toml`;
  return [{ problem: `There is no database ${id}.`, fix }];
}

/** Compares JURISDICTION with that of the first workspace. A workspace of a version without jurisdictions is in none. */
async function checkDataJurisdiction(
  config: DeployConfig,
  environment: string | undefined,
  wrangler: Wrangler,
): Promise<Missing[]> {
  const [database] = config.d1_databases;
  if (database === undefined || !isCreated(database)) return [];
  const query = ["--remote", "--json", "--command", "SELECT * FROM workspaces LIMIT 1"];
  const args = ["d1", "execute", database.binding, ...query, ...environmentArguments(environment)];
  const [answer] = await list<{ results: { jurisdiction?: string }[] }>(wrangler, args);
  const [workspace] = answer?.results ?? [];
  if (workspace === undefined) return [];
  const { jurisdiction: recorded = "" } = workspace;
  const problem = jurisdictionProblem(textOf(config, "JURISDICTION"), recorded);
  return problem === null ? [] : [{ problem, fix: `JURISDICTION = ${JSON.stringify(recorded)}` }];
}

/** The platform's messages about missing resources. */
const NOT_THERE = /does not exist|not found|no such table|\b(10006|10007|11000)\b/i;

/** The output of wrangler; null if the platform says that the resource does not exist. @throws on any other error. */
async function ask(wrangler: Wrangler, args: string[]): Promise<string | null> {
  const { code, out } = await wrangler(args);
  if (code === 0) return out;
  if (NOT_THERE.test(out)) return null;
  throw new Error(lastError(out));
}

/** As `ask`, for a list in JSON; empty if the Worker or the table that has it does not exist yet. */
async function list<T>(wrangler: Wrangler, args: string[]): Promise<T[]> {
  const out = (await ask(wrangler, args)) ?? "[]";
  try {
    // The output may begin with a hint about a newer version.
    return JSON.parse(out.slice(out.search(/^[[{]/m))) as T[];
  } catch {
    throw new Error(`no JSON: ${out.slice(0, 200)}`);
  }
}

function lastError(out: string): string {
  const lines = stripVTControlCharacters(out)
    .split("\n")
    .map((line) => line.trim());
  const message =
    lines.findLast((line) => line.includes("[ERROR]")) ?? lines.find((line) => line !== "") ?? "no answer";
  return message.replace(/^.*\[ERROR\] */, "");
}

/** Access must answer first for the pages, and not for the webhooks. A host without an answer is not deployed yet. */
async function missingAtHost(host: string, behindAccess: boolean, fetchUrl: Fetch): Promise<Missing[]> {
  const paths = `the paths ${host}/w and ${host}/sign-in`;
  // The Worker refuses GET at a webhook path, so its answer differs from Access's sign-in page.
  if ((await whoAnswers(`https://${host}/api/signal-staging/webhook/sk_none`, fetchUrl)) === "access") {
    const problem = `Access stands in front of the webhooks at ${host}: senders get a sign-in page.`;
    return [{ problem, fix: `the Access application with ${paths} only` }];
  }
  if (behindAccess && (await whoAnswers(`https://${host}/w/none`, fetchUrl)) === "worker") {
    const problem = `Access does not stand in front of the pages at ${host}: nobody can open them.`;
    return [{ problem, fix: `an Access application with ${paths}` }];
  }
  return [];
}

async function whoAnswers(url: string, fetchUrl: Fetch): Promise<"access" | "worker" | "nobody"> {
  try {
    const answer = await fetchUrl(url, { redirect: "manual", signal: AbortSignal.timeout(10_000) });
    await answer.body?.cancel();
    const target = answer.headers.get("location") ?? "";
    return /^https:\/\/[^/]+\.cloudflareaccess\.com\//.test(target) ? "access" : "worker";
  } catch {
    return "nobody";
  }
}

export function missingText(missing: readonly Missing[]): string {
  if (missing.length === 0) return "Nothing is missing.";
  const lines = missing.map(({ problem, fix }) => `  ${problem}\n      ${fix}`);
  return [`${missing.length === 1 ? "One thing is" : `${missing.length} things are`} missing:`, ...lines].join("\n\n");
}
