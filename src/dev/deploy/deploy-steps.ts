/** The check with the real wrangler: its configuration, what it says of the account, and a dry run of the deployment. */
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { unstable_readConfig } from "wrangler";
import { PROJECT_DIR } from "../local-service.ts";
import { readAccount } from "./read-account.ts";
import type { DeployConfig } from "./missing.ts";
import { missingInAccount, missingInConfig, missingText } from "./missing.ts";

const WRANGLER = path.join(PROJECT_DIR, "node_modules/wrangler/bin/wrangler.js");

/** Whether nothing is missing; what is missing is written to the terminal. */
export async function checkDeploy(args: string[]): Promise<boolean> {
  const environment = environmentOf(args);
  const read = tryToRead(environment);
  if (read === null) return false;
  const { config, hosts } = read;
  const account = await readAccount(config, hosts, environment, quietWrangler, fetch);
  const missing = [
    ...missingInConfig(config, readConfig(undefined).config, environment),
    ...missingInAccount(config, account, environment),
  ];
  console.log(missingText(missing));
  return missing.length === 0 && (await dryRun(environment));
}

export function environmentOf(args: string[]): string | undefined {
  return parseArgs({ args, options: { env: { type: "string", short: "e" } }, strict: false }).values.env as
    | string
    | undefined;
}

/** Null where wrangler cannot use its configuration; why is written to the terminal. */
function tryToRead(environment: string | undefined): ReturnType<typeof readConfig> | null {
  try {
    return readConfig(environment);
  } catch (error) {
    console.log(`wrangler.toml cannot be used:\n\n${error instanceof Error ? error.message : String(error)}`);
    return null;
  }
}

function readConfig(environment: string | undefined): { config: DeployConfig; hosts: string[] } {
  const config = unstable_readConfig({
    config: path.join(PROJECT_DIR, "wrangler.toml"),
    ...(environment !== undefined && { env: environment }),
  });
  const routes = [config.route, ...(config.routes ?? [])].filter((route) => route !== undefined);
  const hosts = routes.map((route) => (typeof route === "string" ? route : route.pattern).split("/")[0] ?? "");
  return { config, hosts: hosts.filter((host) => !host.includes("*")) };
}

/** The bundle is built as it would be deployed, and wrangler looks over its configuration. */
async function dryRun(environment: string | undefined): Promise<boolean> {
  const outDir = await mkdtemp(path.join(os.tmpdir(), "signal-ingestion-deploy-"));
  try {
    const ofEnvironment = environment === undefined ? [] : ["--env", environment];
    const { code, out } = await quietWrangler(["deploy", "--dry-run", "--outdir", outDir, ...ofEnvironment]);
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
