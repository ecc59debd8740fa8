/**
 * `npm run deploy [-- --env NAME]`: checks, migrates D1, and deploys the Worker. Changes nothing while a part is
 * missing. `npm run deploy:check` only reports missing parts and the commands that create them; with `--origin URL` it also sends
 * a signal to the deployed service, as a server does.
 */
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { messageOf, PROJECT_DIR, WRANGLER } from "../local-service.ts";
import {
  argumentsOf,
  missingAtOrigin,
  missingInAccount,
  missingInConfig,
  missingText,
  environmentArguments,
  readSections,
  type Section,
} from "./deploy-checks.ts";
import { ended, quietWrangler } from "./run-wrangler.ts";

process.exitCode = (await run()) ? 0 : 1;

/** @returns whether everything succeeded. */
async function run(): Promise<boolean> {
  let asked: ReturnType<typeof argumentsOf>;
  try {
    asked = argumentsOf(process.argv.slice(2));
  } catch (error) {
    console.log(`${messageOf(error)}\n`);
    console.log(
      "Only --env NAME, and --origin URL with deploy:check, are taken here. Write every other setting in wrangler.toml.",
    );
    return false;
  }
  const { environment, onlyCheck, origin } = asked;
  const here = environmentArguments(environment);
  return (
    (await check(environment, { onlyCheck, origin })) &&
    (onlyCheck ||
      ((await runWrangler(["d1", "migrations", "apply", "DB", "--remote", ...here])) &&
        (await runWrangler(["deploy", ...here]))))
  );
}

/** Prints the missing parts. @returns whether nothing is missing. */
async function check(
  environment: string | undefined,
  { onlyCheck, origin }: { onlyCheck: boolean; origin: string | undefined },
): Promise<boolean> {
  let all: Section[];
  try {
    all = readSections(path.join(PROJECT_DIR, "wrangler.toml"));
  } catch (error) {
    console.log(messageOf(error));
    return false;
  }
  const missing = missingInConfig(all, environment);
  const checked = all.find((section) => section.environment === environment);
  if (checked !== undefined) missing.push(...(await missingInAccount(checked, quietWrangler, fetch)));
  if (origin !== undefined) missing.push(...(await missingAtOrigin(origin, fetch)));
  const blocking = missing.filter(({ byDeploy = false }) => onlyCheck || !byDeploy);
  console.log(missingText(blocking));
  return blocking.length === 0 && (await dryRun(environment));
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
