/** The check with the real wrangler: its configuration, what it says of the account, and a dry run of the deployment. */
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { parseArgs, stripVTControlCharacters } from "node:util";
import { unstable_readConfig } from "wrangler";
import { PROJECT_DIR } from "../local-service.ts";
import {
  type CloudflareAccount,
  type DeployConfig,
  type Front,
  missingInAccount,
  missingInConfig,
  missingText,
  queuesOf,
  type Section,
  type Unknown,
} from "./missing.ts";

const WRANGLER = path.join(PROJECT_DIR, "node_modules/wrangler/bin/wrangler.js");

/** Whether nothing is missing; what is missing is written to the terminal. */
export async function checkDeploy(environment: string | undefined): Promise<boolean> {
  const all = tryToRead();
  if (all === null) return false;
  const missing = missingInConfig(all, environment);
  const checked = all.find((one) => one.environment === environment);
  if (checked !== undefined) {
    const { config, hosts } = checked;
    const account = await readAccount(config, hosts, environment, quietWrangler, fetch);
    missing.push(...missingInAccount(config, account, environment));
  }
  console.log(missingText(missing));
  return missing.length === 0 && (await dryRun(environment));
}

/**
 * The environment that the command line names, or CLOUDFLARE_ENV as for wrangler. @throws on any other argument: what it would
 * change, such as `--var SIGN_IN:local`, is not checked.
 */
export function environmentOf(args: string[], named = process.env["CLOUDFLARE_ENV"]): string | undefined {
  const { values } = parseArgs({ args, options: { env: { type: "string", short: "e" } } });
  return values.env || named || undefined;
}

/** The environment of this command; null where the command line says more: why is written to the terminal. */
export function environmentAsked(): { environment: string | undefined } | null {
  try {
    return { environment: environmentOf(process.argv.slice(2)) };
  } catch (error) {
    console.log(`${error instanceof Error ? error.message : String(error)}\n`);
    console.log("Only --env NAME is taken here. Whatever else is to be different belongs into wrangler.toml.");
    return null;
  }
}

/** Arguments by which wrangler takes this environment, or the top level, whatever CLOUDFLARE_ENV says. */
export function ofEnvironment(environment: string | undefined): string[] {
  return ["--env", environment ?? ""];
}

/** All sections of wrangler.toml; null where wrangler cannot use its configuration: why is written to the terminal. */
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
  // An empty name is the top level, also where CLOUDFLARE_ENV names an environment.
  const config = unstable_readConfig({ config: file, env: environment ?? "" }, { hideWarnings: true });
  const routes = [config.route, ...(config.routes ?? [])].filter((route) => route !== undefined);
  const hosts = routes.map((route) => (typeof route === "string" ? route : route.pattern).split("/")[0] ?? "");
  return { environment, config, hosts: hosts.filter((host) => !host.includes("*")) };
}

/** The bundle is built as it would be deployed, and wrangler looks over its configuration. */
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

/** Runs wrangler on the terminal, where it may ask. Whether it went well. */
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

// What is in the account, as wrangler and the service's own hosts say. Nothing here changes anything.

/** Runs wrangler: its exit code, and everything that it wrote. */
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

/** What the platform says of what is not there. */
const NOT_THERE = /does not exist|not found|\b(10006|10007|11000)\b/i;

async function exists(wrangler: Wrangler, args: string[]): Promise<boolean | Unknown> {
  const { code, out } = await wrangler(args);
  if (code === 0) return true;
  return NOT_THERE.test(out) ? false : { unknown: lastError(out) };
}

/** The Worker's secrets; one that is not deployed yet has none. */
async function readSecrets(wrangler: Wrangler, args: string[]): Promise<{ name: string }[] | Unknown> {
  const { code, out } = await wrangler(["secret", "list", "--format", "json", ...args]);
  if (code !== 0) return NOT_THERE.test(out) ? [] : { unknown: lastError(out) };
  return parse(out) as { name: string }[] | Unknown;
}

async function readDatabases(wrangler: Wrangler): Promise<{ uuid: string; name: string }[] | Unknown> {
  const { code, out } = await wrangler(["d1", "list", "--json"]);
  return code === 0 ? (parse(out) as { uuid: string; name: string }[] | Unknown) : { unknown: lastError(out) };
}

/** The JSON in an output. Wrangler may say something before it, such as that there is a newer version. */
function parse(out: string): unknown {
  try {
    return JSON.parse(out.slice(out.search(/^[[{]/m)));
  } catch {
    return { unknown: `no JSON: ${out.slice(0, 200)}` };
  }
}

/** The line that says what is wrong, without colours. */
function lastError(out: string): string {
  const lines = stripVTControlCharacters(out)
    .split("\n")
    .map((line) => line.trim());
  const said = lines.findLast((line) => line.includes("[ERROR]")) ?? lines.find((line) => line !== "") ?? "no answer";
  return said.replace(/^.*\[ERROR\] */, "");
}

/** What answers at a host. A webhook takes no GET: the Worker says so, where Access leads to a sign-in page. */
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
