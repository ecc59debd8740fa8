/**
 * `npm run deploy [-- --env NAME]`: checks, migrates D1, and deploys the Worker. Changes nothing while a part is
 * missing. `npm run deploy:check` only reports missing parts and the commands that create them.
 */
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { PROJECT_DIR, WRANGLER } from "../local-service.ts";
import {
  argumentsOf,
  missingInAccount,
  missingInConfig,
  missingText,
  environmentArguments,
  readSections,
  type Section,
} from "./deploy-checks.ts";

process.exitCode = (await run()) ? 0 : 1;

/** @returns whether everything succeeded. */
async function run(): Promise<boolean> {
  let asked: ReturnType<typeof argumentsOf>;
  try {
    asked = argumentsOf(process.argv.slice(2));
  } catch (error) {
    console.log(`${messageOf(error)}\n`);
    console.log("Only --env NAME is taken here. Write every other setting in wrangler.toml.");
    return false;
  }
  const { environment, onlyCheck } = asked;
  const here = environmentArguments(environment);
  return (
    (await check(environment)) &&
    (onlyCheck ||
      ((await runWrangler(["d1", "migrations", "apply", "DB", "--remote", ...here])) &&
        (await runWrangler(["deploy", ...here]))))
  );
}

/** Prints the missing parts. @returns whether nothing is missing. */
async function check(environment: string | undefined): Promise<boolean> {
  let all: Section[];
  try {
    all = readSections(path.join(PROJECT_DIR, "wrangler.toml"));
  } catch (error) {
    console.log(`wrangler.toml cannot be used:\n\n${messageOf(error)}`);
    return false;
  }
  const missing = missingInConfig(all, environment);
  const checked = all.find((section) => section.environment === environment);
  if (checked !== undefined) missing.push(...(await missingInAccount(checked, quietWrangler, fetch)));
  console.log(missingText(missing));
  return missing.length === 0 && (await dryRun(environment));
}

/** Builds the bundle as for a deployment, and lets wrangler check its configuration. */
async function dryRun(environment: string | undefined): Promise<boolean> {
  const outDir = await mkdtemp(path.join(os.tmpdir(), "signal-ingestion-deploy-"));
  try {
    const dry = ["deploy", "--dry-run", "--outdir", outDir, ...environmentArguments(environment)];
    const { code, out } = await quietWrangler(dry);
    if (code !== 0) console.log(`The Worker cannot be built:\n${out}`);
    return code === 0;
  } finally {
    await rm(outDir, { recursive: true, force: true });
  }
}

/** Runs wrangler in the terminal, where it may ask questions. @returns whether it succeeded. */
async function runWrangler(args: string[]): Promise<boolean> {
  return (await ended(spawn(process.execPath, [WRANGLER, ...args], { cwd: PROJECT_DIR, stdio: "inherit" }))) === 0;
}

async function quietWrangler(args: string[]): Promise<{ code: number; out: string }> {
  const child = spawn(process.execPath, [WRANGLER, ...args], { cwd: PROJECT_DIR, stdio: ["ignore", "pipe", "pipe"] });
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

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
