/** Checks a deployment with wrangler: its configuration, the account's resources, and a dry run. */
import os from "node:os";
import path from "node:path";
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { parseArgs, stripVTControlCharacters } from "node:util";
import { unstable_readConfig } from "wrangler";
import { FIT_SIGN_INS, signInSettings } from "../../pages/session/sign-in-settings.ts";
import { carriedBy, QUEUE_WORDS, type Carried } from "../../queue/queue-names.ts";
import { PROJECT_DIR } from "../local-service.ts";

const WRANGLER = path.join(PROJECT_DIR, "node_modules/wrangler/bin/wrangler.js");

/** Prints the missing parts. @returns whether nothing is missing. */
export async function checkDeploy(environment: string | undefined): Promise<boolean> {
  const all = tryToRead();
  if (all === null) return false;
  const missing = missingInConfig(all, environment);
  const checked = all.find((section) => section.environment === environment);
  if (checked !== undefined) {
    const { config, hosts } = checked;
    const account = await readAccount(config, hosts, environment, quietWrangler, fetch);
    missing.push(...missingInAccount(config, account, environment));
  }
  console.log(missingText(missing));
  return missing.length === 0 && (await dryRun(environment));
}

/**
 * The environment from the command line, or CLOUDFLARE_ENV as in wrangler. @throws on any other argument: its effect,
 * such as `--var SIGN_IN:local`, could not be checked.
 */
export function environmentOf(args: string[], named = process.env["CLOUDFLARE_ENV"]): string | undefined {
  const { values } = parseArgs({ args, options: { env: { type: "string", short: "e" } } });
  return values.env || named || undefined;
}

/** The environment of this command; null after printing an error about further arguments. */
export function environmentAsked(): { environment: string | undefined } | null {
  try {
    return { environment: environmentOf(process.argv.slice(2)) };
  } catch (error) {
    console.log(`${error instanceof Error ? error.message : String(error)}\n`);
    console.log("Only --env NAME is taken here. Whatever else is to be different belongs into wrangler.toml.");
    return null;
  }
}

/** Arguments that select this environment, or the top level, regardless of CLOUDFLARE_ENV. */
export function ofEnvironment(environment: string | undefined): string[] {
  return ["--env", environment ?? ""];
}

/** All sections of wrangler.toml; null after printing why wrangler cannot use its configuration. */
function tryToRead(): Section[] | null {
  try {
    const base = readSection(undefined);
    return [base, ...(base.config.definedEnvironments ?? []).map((name) => readSection(name))];
  } catch (error) {
    console.log(`wrangler.toml cannot be used:\n\n${error instanceof Error ? error.message : String(error)}`);
    return null;
  }
}

export function readSection(environment: string | undefined, file = path.join(PROJECT_DIR, "wrangler.toml")): Section {
  // An empty name selects the top level, even if CLOUDFLARE_ENV names an environment.
  const config = unstable_readConfig({ config: file, env: environment ?? "" }, { hideWarnings: true });
  const routes = [config.route, ...(config.routes ?? [])].filter((route) => route !== undefined);
  const hosts = routes.map((route) => (typeof route === "string" ? route : route.pattern).split("/")[0] ?? "");
  return { environment, config, hosts: hosts.filter((host) => !host.includes("*")) };
}

/** Builds the bundle as for a deployment, and lets wrangler check its configuration. */
async function dryRun(environment: string | undefined): Promise<boolean> {
  const outDir = await mkdtemp(path.join(os.tmpdir(), "signal-ingestion-deploy-"));
  try {
    const dry = ["deploy", "--dry-run", "--outdir", outDir, ...ofEnvironment(environment)];
    const { code, out } = await quietWrangler(dry);
    if (code !== 0) console.log(`The Worker cannot be built:\n${out}`);
    return code === 0;
  } finally {
    await rm(outDir, { recursive: true, force: true });
  }
}

/** Runs wrangler in the terminal, where it may ask questions. @returns whether it succeeded. */
export async function runWrangler(args: string[]): Promise<boolean> {
  const child = spawn(process.execPath, [WRANGLER, ...args], { cwd: PROJECT_DIR, stdio: "inherit" });
  return (await ended(child)) === 0;
}

async function quietWrangler(args: string[]): Promise<{ code: number; out: string }> {
  const stdio: ["ignore", "pipe", "pipe"] = ["ignore", "pipe", "pipe"];
  const child = spawn(process.execPath, [WRANGLER, ...args], { cwd: PROJECT_DIR, stdio });
  let out = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (out += String(chunk)));
  return { code: await ended(child), out };
}

function ended(child: ReturnType<typeof spawn>): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve(code ?? 1));
  });
}

// Reads the account's resources with wrangler, and the answers of the service's hosts. Changes nothing.

/** Runs wrangler and returns its exit code with all output. */
export type Wrangler = (args: string[]) => Promise<{ code: number; out: string }>;
type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** @param hosts the hosts at which the Worker is to answer. */
export async function readAccount(
  config: DeployConfig,
  hosts: readonly string[],
  environment: string | undefined,
  wrangler: Wrangler,
  fetchUrl: Fetch,
): Promise<CloudflareAccount> {
  const [databases, secrets, queues, known, fronts] = await Promise.all([
    readDatabases(wrangler),
    readSecrets(wrangler, ofEnvironment(environment)),
    Promise.all(
      queuesOf(config).map(async (name) => [name, await exists(wrangler, ["queues", "info", name])] as const),
    ),
    Promise.all(
      config.r2_buckets.map(async ({ bucket_name: name = "", jurisdiction }) => {
        const where = jurisdiction === undefined ? [] : ["--jurisdiction", jurisdiction];
        return [name, await exists(wrangler, ["r2", "bucket", "info", name, ...where])] as const;
      }),
    ),
    Promise.all(hosts.map((host) => readHost(host, fetchUrl))),
  ]);
  return {
    databases,
    secrets: "unknown" in secrets ? secrets : secrets.map(({ name }) => name),
    queues: Object.fromEntries(queues),
    buckets: Object.fromEntries(known),
    hosts: fronts,
  };
}

/** The platform's messages about missing resources. */
const NOT_THERE = /does not exist|not found|\b(10006|10007|11000)\b/i;

async function exists(wrangler: Wrangler, args: string[]): Promise<boolean | Unknown> {
  const { code, out } = await wrangler(args);
  if (code === 0) return true;
  return NOT_THERE.test(out) ? false : { unknown: lastError(out) };
}

/** Names of the Worker's secrets; empty before the first deployment. */
async function readSecrets(wrangler: Wrangler, args: string[]): Promise<{ name: string }[] | Unknown> {
  const { code, out } = await wrangler(["secret", "list", "--format", "json", ...args]);
  if (code !== 0) return NOT_THERE.test(out) ? [] : { unknown: lastError(out) };
  return parse(out) as { name: string }[] | Unknown;
}

async function readDatabases(wrangler: Wrangler): Promise<{ uuid: string; name: string }[] | Unknown> {
  const { code, out } = await wrangler(["d1", "list", "--json"]);
  return code === 0 ? (parse(out) as { uuid: string; name: string }[] | Unknown) : { unknown: lastError(out) };
}

/** Extracts the JSON from wrangler's output, which may begin with a hint about a newer version. */
function parse(out: string): unknown {
  try {
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
  const [webhooks, pages] = await Promise.all([
    front(`https://${host}/api/signal-staging/webhook/sk_none`, fetchUrl),
    front(`https://${host}/w/none`, fetchUrl),
  ]);
  return { host, webhooks, pages };
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

/** The relevant settings of wrangler.toml for one environment, as wrangler reads them. */
export interface DeployConfig {
  name: string | undefined;
  account_id?: string | undefined;
  /** Environments of the file. For an unknown one wrangler uses the top level. */
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

/** Absent numbers mean the platform's defaults. */
interface QueueConsumer {
  queue: string;
  dead_letter_queue?: string | undefined;
  max_batch_size?: number | undefined;
  max_batch_timeout?: number | undefined;
  max_retries?: number | undefined;
}

/** An environment's section of wrangler.toml; `environment` is undefined for the top level. */
export interface Section {
  environment: string | undefined;
  config: DeployConfig;
  /** Host names of its routes. An environment without routes inherits those of the top level. */
  hosts: readonly string[];
}

export interface Missing {
  what: string;
  /** The command that creates the missing part, or the setting to write. */
  how: string;
}

/** Resources of the account; `unknown` explains why they could not be read. */
export interface CloudflareAccount {
  databases: { uuid: string; name: string }[] | Unknown;
  /** Whether each queue of the configuration exists. */
  queues: Record<string, boolean | Unknown>;
  buckets: Record<string, boolean | Unknown>;
  /** Names of the Worker's secrets; empty before the first deployment. */
  secrets: string[] | Unknown;
  /** What answers at each of the Worker's hosts, for webhook paths and page paths. */
  hosts: { host: string; webhooks: Front; pages: Front }[];
}

export interface Unknown {
  unknown: string;
}

/** First to answer at a path; `nobody`: no answer yet. */
export type Front = "access" | "worker" | "nobody";

const NO_DATABASE = /^[0-]*$/;

/** @param all every section of the file, the top level first. */
export function missingInConfig(all: readonly Section[], environment: string | undefined): Missing[] {
  const [base] = all;
  const checked = all.find((section) => section.environment === environment);
  if (base === undefined || checked === undefined) {
    const how = `[env.${environment}] in wrangler.toml with bindings of its own: without it, those of the top level are taken`;
    return [{ what: `There is no environment ${environment}.`, how }];
  }
  const { config } = checked;
  const section = sectionName(environment);
  const flag = environment === undefined ? "" : ` --env ${environment}`;
  const textOf = (name: string): string => {
    const value = config.vars[name];
    return typeof value === "string" ? value : "";
  };
  const missing: Missing[] = [
    ...missingBindings(config, base.config, section),
    ...missingSettings(config, base.config, section),
    ...wrongQueues(config, section),
    ...all.flatMap((another) => (another === checked ? [] : sharedWith(another, checked, section))),
  ];
  const add = (is: boolean, what: string, how: string): void => void (is && missing.push({ what, how }));

  for (const { database_id: id = "", database_name: name = "", binding } of config.d1_databases) {
    add(
      NO_DATABASE.test(id),
      `${binding} has no database yet.`,
      `npx wrangler d1 create ${name}, and its id as database_id into ${section}`,
    );
  }
  const signIn = textOf("SIGN_IN");
  const settings = signInSettings(signIn);
  add(
    settings === null || settings.unfit !== null,
    settings === null ? `SIGN_IN is ${JSON.stringify(signIn)}.` : `SIGN_IN is ${signIn}, which ${settings.unfit}.`,
    `SIGN_IN = ${FIT_SIGN_INS.map((name) => JSON.stringify(name)).join(" or ")} in ${section}`,
  );
  for (const { variable, from } of settings?.needs ?? []) {
    add(
      textOf(variable) === "",
      `${variable} is empty: nobody gets to the pages.`,
      `${from === undefined ? "" : `${from}, as `}${variable} in ${section}`,
    );
  }
  add(
    (textOf("EMAIL_FROM") !== "") !== (config.send_email ?? []).some(({ name }) => name === "EMAIL"),
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

/** Missing bindings of an environment: bindings are not inherited. */
function missingBindings(config: DeployConfig, base: DeployConfig, section: string): Missing[] {
  const has = new Set(bindingsOf(config));
  const lacks = bindingsOf(base).filter((name) => !has.has(name));
  return lacks.map((name) => ({
    what: `${name} is missing.`,
    how: `its lines, as at the top level, under a name of its own, in ${section}`,
  }));
}

/** Settings of a binding that must equal those of the top level. */
function missingSettings(config: DeployConfig, base: DeployConfig, section: string): Missing[] {
  const missing: Missing[] = [];
  const add = (what: string, line: string): void => void missing.push({ what, how: `${line} in ${section}` });
  for (const { binding, migrations_dir: wanted } of base.d1_databases) {
    const bound = config.d1_databases.find((database) => database.binding === binding);
    if (bound !== undefined && bound.migrations_dir !== wanted) {
      add(`${binding} would get no tables: its migrations_dir is not the top level's.`, `migrations_dir = "${wanted}"`);
    }
  }
  for (const { name, class_name: wanted } of base.durable_objects.bindings) {
    const bound = config.durable_objects.bindings.find((object) => object.name === name);
    if (bound === undefined) continue;
    if (bound.class_name !== wanted) add(`${name} is bound to another class.`, `class_name = "${wanted}"`);
    if (bound.script_name !== undefined) add(`${name} is bound to another Worker's objects.`, "no script_name");
  }
  for (const consumer of base.queues.consumers ?? []) {
    const bound = config.queues.consumers?.find(({ queue }) => carriedBy(queue) === carriedBy(consumer.queue));
    if (bound === undefined) continue;
    for (const setting of ["max_batch_size", "max_batch_timeout", "max_retries"] as const) {
      if (consumer[setting] === undefined || bound[setting] !== undefined) continue;
      add(`The consumer of the queue ${bound.queue} has no ${setting}.`, `${setting} = ${consumer[setting]}`);
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
 * Resources that the environment shares with another deployed one because a copy kept their names. Workers of an
 * account share the budget of a rate limit with the same `namespace_id`.
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

/** Queues without a consumer, and queues whose messages the Worker would misread. */
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
    // Queue names differ between environments, so compare the number of consumers.
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
    const existingId = "unknown" in databases ? undefined : databases.find((one) => one.name === name)?.uuid;
    const how =
      existingId === undefined ? `npx wrangler d1 create ${name}` : `database_id = "${existingId}" in wrangler.toml`;
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
  for (const [unknown, what] of Map.groupBy(notAsked, (entry) => entry.unknown)) {
    missing.push({
      what: `Wrangler could not be asked for ${what.map((entry) => entry.what).join(", ")}: ${unknown}`,
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

/** The missing parts as text for a terminal. */
export function missingText(missing: readonly Missing[]): string {
  if (missing.length === 0) return "Nothing is missing.";
  const lines = missing.map(({ what, how }) => `  ${what}\n      ${how}`);
  return [`${missing.length === 1 ? "One thing is" : `${missing.length} things are`} missing:`, ...lines].join("\n\n");
}
