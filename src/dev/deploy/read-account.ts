/** What is in the account, as wrangler and the service's own hosts say. Nothing here changes anything. */
import { stripVTControlCharacters } from "node:util";
import type { CloudflareAccount, DeployConfig, Front, Unknown } from "./missing.ts";
import { queuesOf } from "./missing.ts";

/** Runs wrangler: its exit code, and everything that it wrote. */
export type Wrangler = (args: string[]) => Promise<{ code: number; out: string }>;
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** @param hosts the hosts at which the Worker is to answer. */
export async function readAccount(
  config: DeployConfig,
  hosts: readonly string[],
  environment: string | undefined,
  wrangler: Wrangler,
  fetchUrl: Fetch,
): Promise<CloudflareAccount> {
  const ofEnvironment = environment === undefined ? [] : ["--env", environment];
  const [databases, secrets, queues, known, fronts] = await Promise.all([
    readDatabases(wrangler),
    readSecrets(wrangler, ofEnvironment),
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
