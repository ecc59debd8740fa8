/** Checks a deployment before it is made: wrangler.toml, the account, and the service's hosts. Changes nothing. */
import { parseArgs, stripVTControlCharacters } from "node:util";
import { unstable_readConfig, type Unstable_Config } from "wrangler";
import { DEPLOYABLE_SIGN_INS, signInSettings } from "../../pages/session/sign-in-settings.ts";
import { NEEDED_BINDINGS, NEEDED_SETTINGS, bindingsOf, settingsOf, type ComparedConfig } from "./needed-settings.ts";
import { CommandError, messageOf } from "../local-service.ts";
import { causeOf } from "../operator-client.ts";
import { jurisdictionProblem, queueKind, QUEUE_WORDS, type QueueKind } from "../../env.ts";

interface Arguments {
  environment: string | undefined;
  onlyCheck: boolean;
  /** The origin of a deployed service, which gets a test call. */
  origin: string | undefined;
}

/**
 * The environment from the command line, or CLOUDFLARE_ENV as in wrangler. @throws on any other argument: its effect,
 * such as `--var SIGN_IN:local`, could not be checked.
 */
export function argumentsOf(args: string[], named = process.env["CLOUDFLARE_ENV"]): Arguments {
  const check = { check: { type: "boolean", default: false }, origin: { type: "string" } } as const;
  const { values } = parseArgs({ args, options: { env: { type: "string", short: "e" }, ...check } as const });
  if (values.origin !== undefined && !values.check) throw new Error("The option --origin is one of deploy:check.");
  const origin = values.origin === undefined ? undefined : URL.parse(values.origin)?.origin;
  if (origin === "null" || (origin === undefined && values.origin !== undefined))
    throw new Error("The option --origin needs an address such as https://signals.example.com.");
  return { environment: values.env || named || undefined, onlyCheck: values.check, origin };
}

/** Arguments that select this environment, or the top level, regardless of CLOUDFLARE_ENV. */
export function environmentArguments(environment: string | undefined): string[] {
  return ["--env", environment ?? ""];
}

/** The relevant settings of wrangler.toml for one environment, as wrangler reads them. */
export type DeployConfig = ComparedConfig &
  Pick<
    Unstable_Config,
    | ("name" | "account_id" | "observability" | "logpush" | "workers_dev" | "placement")
    | ("tail_consumers" | "streaming_tail_consumers")
  >;

/** An environment's section of wrangler.toml; `environment` is undefined for the top level. */
export interface Section {
  environment: string | undefined;
  config: DeployConfig;
  /** Host names of its routes, `*.` for many. An environment without routes inherits those of the top level. */
  hosts: readonly string[];
}

/** All sections of the file, the top level first. @throws CommandError where wrangler cannot use the file. */
export function readSections(file: string): Section[] {
  try {
    return sectionsOf(file);
  } catch (error) {
    const { location } = error as { location?: { line?: number } };
    const line = location?.line === undefined ? "" : `, line ${location.line}`;
    throw new CommandError(`wrangler.toml${line} cannot be used:\n\n${messageOf(error)}`);
  }
}

function sectionsOf(file: string): Section[] {
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
  /** Present if the deployment itself corrects it. */
  byDeploy?: true;
  /** Present if wrangler could not say whether it is missing. */
  unread?: true;
}

type Problem = readonly [problem: string, setting: string];

/**
 * The problems of one section: missing settings, and resources that it shares with another section. Also the settings that other
 * sections lack.
 *
 * @param all every section of the file, the top level first.
 */
export function missingInConfig(all: readonly Section[], environment: string | undefined): Missing[] {
  const [top] = all;
  const checked = all.find((section) => section.environment === environment);
  if (top === undefined || checked === undefined) {
    const fix = `[env.${environment}] in wrangler.toml with its own bindings: without it, wrangler uses those of the top level`;
    return [{ problem: `There is no environment ${environment}.`, fix }];
  }
  const otherSections = all.filter((section) => section !== checked);
  const problems: Problem[] = [
    ...checkNeeded(checked.config, top.config),
    ...checkQueues(checked.config),
    ...checkJurisdiction(checked.config),
    ...otherSections.flatMap((section) => [...checkShared(checked, section)]),
    ...checkDatabases(checked.config),
    ...checkSignIn(checked.config),
    ...checkOtherSettings(checked),
    ...checkSecrecy(checked.config),
  ];
  return [
    ...inSection(checked, problems),
    ...otherSections.flatMap((section) =>
      inSection(section, [...checkNeeded(section.config, top.config), ...checkSecrecy(section.config)]),
    ),
  ];
}

function inSection({ environment }: Section, problems: readonly Problem[]): Missing[] {
  const file = environment === undefined ? "wrangler.toml" : `[env.${environment}] of wrangler.toml`;
  return problems.map(([problem, setting]) => ({ problem, fix: `${setting} in ${file}` }));
}

/** Bindings and variables are not inherited, so each section repeats them, those that a deployment has added at the top level too. */
function* checkNeeded(config: DeployConfig, top: DeployConfig): Iterable<Problem> {
  const bindings = bindingsOf(config);
  for (const [name, wanted] of Object.entries({ ...bindingsOf(top), ...NEEDED_BINDINGS })) {
    const settings = bindings[name];
    if (settings === undefined) {
      yield [`${name} is missing.`, "its lines, as in the repository's file, under a name of its own,"];
      continue;
    }
    for (const setting of new Set([...Object.keys(settings), ...Object.keys(wanted)])) {
      const value = wanted[setting];
      if (settings[setting] === value) continue;
      const line = value === undefined ? `no ${setting}` : `${setting} = "${value}"`;
      yield [`${setting} of ${name} is not what the Worker needs.`, line];
    }
  }
  const settings = settingsOf(config);
  for (const [name, wanted] of Object.entries(NEEDED_SETTINGS)) {
    if (JSON.stringify(settings[name]) !== JSON.stringify(wanted))
      yield [`${name} is not what the Worker needs.`, `${name} as in the repository's file, once, at the top level,`];
  }
}

const SECRET_NAME = /SECRET|TOKEN|PASSWORD|PRIVATE|CREDENTIAL|API_?KEY/i;

/** Settings that would show keys, secrets or the service's pages to strangers. */
function* checkSecrecy(config: DeployConfig): Iterable<Problem> {
  for (const name of Object.keys(config.vars)) {
    if (SECRET_NAME.test(name))
      yield [
        `${name} is a variable, which the file and the dashboard show.`,
        `no ${name}, but the secret (npx wrangler secret put ${name}),`,
      ];
  }
  const tails = [...(config.tail_consumers ?? []), ...(config.streaming_tail_consumers ?? [])];
  if (tails.length > 0)
    yield ["Another Worker would get the URLs of requests, and the API key is part of them.", "no tail_consumers"];
  const issuer = textOf(config, "OIDC_ISSUER");
  if (issuer !== "" && URL.parse(issuer)?.protocol !== "https:")
    yield [
      `OIDC_ISSUER is ${JSON.stringify(issuer)}: anybody on the way could sign in as anybody.`,
      "an https:// issuer",
    ];
  if (isForAllTenants(issuer))
    yield [
      `The issuer ${issuer} signs in people of any company, and any of them can give a person any email.`,
      "the issuer of one tenant as OIDC_ISSUER",
    ];
}

/** Issuers of vendors with which every customer's administrator chooses the emails of its people. */
const ISSUERS_FOR_ALL = new Set(["login.salesforce.com", "slack.com"]);
const MICROSOFT = /(?:^|\.)(?:microsoftonline\.(?:com|us|cn)|windows\.net)$/;
/** Microsoft's names for all tenants; the id is that of private accounts. */
const ALL_TENANTS = new Set(["common", "organizations", "consumers", "9188040d-6c67-4b5b-b112-36a304b66dad"]);

function isForAllTenants(issuer: string): boolean {
  const { hostname = "", pathname = "" } = URL.parse(issuer) ?? {};
  const [, tenant = ""] = pathname.toLowerCase().split("/");
  if (ISSUERS_FOR_ALL.has(hostname)) return true;
  // A placeholder, such as {tenantid}, or nothing.
  return MICROSOFT.test(hostname) && (ALL_TENANTS.has(tenant) || /^(?:%7b.*)?$/.test(tenant));
}

/** Queues without a single consumer, and queues whose messages the Worker would misread. */
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
    const [consumer, another] = consumers.filter((known) => known.queue === queue);
    if (another !== undefined) yield [`The queue ${queue} has two consumers.`, `one consumer with queue = "${queue}"`];
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
  if (config.placement !== undefined && config.placement.mode !== "off")
    yield ["[placement] would run the Worker far from its senders.", "no [placement]"];
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
export function isCreated({ database_id: id = "" }: Database): boolean {
  return !/^[0-]*$/.test(id);
}

function createDatabase({ database_name: name = "" }: Database, config: DeployConfig): string {
  return ["npx wrangler d1 create", name, ...jurisdictionArguments(config)].join(" ");
}

/** Arguments that create a database or a queue where the objects of the section are. */
export function jurisdictionArguments(config: DeployConfig): string[] {
  return inJurisdiction(textOf(config, "JURISDICTION"));
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
        return { name, error: messageOf(error) };
      }
    }),
  );
  const failed = answers.flatMap((answer) => ("error" in answer ? [answer] : []));
  const unread = [...Map.groupBy(failed, ({ error }) => error)].map(([error, parts]) => ({
    problem: `Wrangler could not check ${parts.map(({ name }) => name).join(", ")}: ${error}`,
    fix: "npx wrangler login, or the variable CLOUDFLARE_API_TOKEN",
    unread: true as const,
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
  const workspace = firstWorkspace(config, environment, wrangler);
  const part = (name: string, isThere: () => Promise<boolean>, fix: string): Part => ({
    name,
    check: async () => ((await isThere()) ? [] : [{ problem: `There is no ${name}.`, fix }]),
  });
  const exists = async (...args: string[]) => (await ask(wrangler, args)) !== null;
  const flag = environment === undefined ? "" : ` --env ${environment}`;
  return [
    ...config.d1_databases.filter(isCreated).map((database) => ({
      name: `database ${database.database_id}`,
      check: () => checkDatabase(database, config, wrangler),
    })),
    ...queuesOf(config).map((queue) => ({
      name: `queue ${queue}`,
      check: async () => {
        const info = await ask(wrangler, ["queues", "info", queue]);
        if (info !== null) return checkConsumer(queue, info, config, workspace);
        const fix = ["npx wrangler queues create", queue, ...jurisdictionArguments(config)].join(" ");
        return [{ problem: `There is no queue ${queue}.`, fix }];
      },
    })),
    ...config.r2_buckets.map(({ bucket_name: bucket = "", jurisdiction: place }) => {
      const fix = ["npx wrangler r2 bucket create", bucket, ...inJurisdiction(place)].join(" ");
      return part(`bucket ${bucket}`, () => exists("r2", "bucket", "info", bucket, ...inJurisdiction(place)), fix);
    }),
    { name: "the jurisdiction of the data", check: async () => checkDataJurisdiction(config, await workspace) },
    part(
      "secret OPERATOR_TOKEN, without which nobody can create a workspace",
      () => hasOperatorToken(environment, wrangler),
      // `tee` shows the token, which nobody could read later.
      `openssl rand -base64 32 | tee /dev/stderr | npx wrangler secret put OPERATOR_TOKEN${flag}`,
    ),
  ];
}

/** @throws if wrangler cannot say: a token that is there must not be replaced. */
export async function hasOperatorToken(environment: string | undefined, wrangler: Wrangler): Promise<boolean> {
  const args = ["secret", "list", "--format", "json", ...environmentArguments(environment)];
  const secrets = await list<{ name: string }>(wrangler, args);
  return secrets.some(({ name }) => name === "OPERATOR_TOKEN");
}

/** @throws CommandError if wrangler cannot list them. */
export function listDatabases(wrangler: Wrangler): Promise<{ uuid: string; name: string }[]> {
  return list(wrangler, ["d1", "list", "--json"]);
}

async function checkDatabase(database: Database, config: DeployConfig, wrangler: Wrangler): Promise<Missing[]> {
  const { database_id: id, database_name: name } = database;
  const databases = await listDatabases(wrangler);
  if (databases.some(({ uuid }) => uuid === id)) return [];
  const named = databases.find((known) => known.name === name);
  const fix = named === undefined ? createDatabase(database, config) : `database_id = "${named.uuid}" in wrangler.toml`;
  return [{ problem: `There is no database ${id}.`, fix }];
}

/**
 * A queue in the account has this Worker as its only consumer. Before the first deployment it has none.
 *
 * @param info output of `wrangler queues info`.
 */
async function checkConsumer(
  queue: string,
  info: string,
  { name = "" }: DeployConfig,
  workspace: Promise<StoredWorkspace | undefined>,
): Promise<Missing[]> {
  const consumers = (/^Consumers: *(.*)$/m.exec(info)?.[1] ?? "").split(",").filter((consumer) => consumer !== "");
  const foreign = consumers.map((consumer) => consumer.trim()).filter((consumer) => consumer !== `worker:${name}`);
  if (foreign.length > 0) {
    const problem = `The queue ${queue} has another consumer, which takes its messages: ${foreign.join(", ")}.`;
    const script = foreign[0]?.startsWith("worker:") === true ? foreign[0].slice("worker:".length) : undefined;
    const consumer = script === undefined ? "consumer http remove" : "consumer remove";
    return [{ problem, fix: ["npx wrangler queues", consumer, queue, script ?? ""].join(" ").trim() }];
  }
  const hasNone = /^Number of Consumers: 0$/m.test(info);
  if (!hasNone || (await workspace) === undefined) return [];
  return [{ problem: `The queue ${queue} has no consumer: its messages wait.`, fix: "npm run deploy", byDeploy: true }];
}

/** A row of D1. */
interface StoredWorkspace {
  jurisdiction?: string;
}

async function firstWorkspace(
  config: DeployConfig,
  environment: string | undefined,
  wrangler: Wrangler,
): Promise<StoredWorkspace | undefined> {
  const [database] = config.d1_databases;
  if (database === undefined || !isCreated(database)) return undefined;
  const query = ["--remote", "--json", "--command", "SELECT * FROM workspaces LIMIT 1"];
  const args = ["d1", "execute", database.binding, ...query, ...environmentArguments(environment)];
  const [answer] = await list<{ results: StoredWorkspace[] }>(wrangler, args);
  return answer?.results[0];
}

/** Compares JURISDICTION with that of a workspace. One of a version without jurisdictions is in none. */
function checkDataJurisdiction(config: DeployConfig, workspace: StoredWorkspace | undefined): Missing[] {
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
  throw new CommandError(lastError(out));
}

/** As `ask`, for a list in JSON; empty if the Worker or the table that has it does not exist yet. */
async function list<T>(wrangler: Wrangler, args: string[]): Promise<T[]> {
  const out = (await ask(wrangler, args)) ?? "[]";
  try {
    // The output may begin with a hint about a newer version.
    return JSON.parse(out.slice(out.search(/^[[{]/m))) as T[];
  } catch {
    throw new CommandError(`no JSON: ${out.slice(0, 200)}`);
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
  // The Worker rejects GET at a webhook path, so its answer differs from Access's sign-in page.
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

/**
 * Sends a signal with an unknown key, as a server does. Protection against bots answers such a call with a page of its own, which no
 * request of a browser and no log of the Worker shows.
 *
 * @param origin such as https://signals.example.com.
 */
export async function missingAtOrigin(origin: string, fetchUrl: Fetch): Promise<Missing[]> {
  const headers = { "content-type": "application/json" };
  const init = { method: "POST", headers, body: '{"event":"Deployment checked"}', redirect: "manual" } as const;
  let found: string;
  try {
    const signal = AbortSignal.timeout(10_000);
    const answer = await fetchUrl(`${origin}/api/signal-staging/webhook/sk_none`, { ...init, signal });
    await answer.body?.cancel();
    const type = answer.headers.get("content-type") ?? "no content-type";
    const isOurs = answer.status === 401 && type.startsWith("application/problem+json");
    if (isOurs && answer.headers.get("x-request-id")?.startsWith("req_") === true) return [];
    found = `${answer.status}, ${type}`;
  } catch (error) {
    found = causeOf(error);
  }
  const problem = `A server's call of ${origin} is not answered by the Worker (${found}): senders lose their signals.`;
  const fix = "Security, Bots in the dashboard of the zone: Bot Fight Mode off; then its rules, and Access";
  return [{ problem, fix }];
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
