/**
 * `npm run deploy:setup -- --jurisdiction eu|us|none [--env NAME]`: creates what an environment needs in the account: database, bucket,
 * queues and operator token, and writes their places into wrangler.toml. Creates nothing that exists already, so it may be
 * run again.
 */
import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { CommandError, PROJECT_DIR, readOptions, reportErrors } from "../local-service.ts";
import {
  environmentArguments,
  hasOperatorToken,
  isCreated,
  jurisdictionArguments,
  listDatabases,
  missingInAccount,
  readSections,
  type Section,
} from "./deploy-checks.ts";
import { quietWrangler } from "./run-wrangler.ts";
import { createdDatabaseId, PLACES, withDatabase, withJurisdiction } from "./setup-file.ts";

const FILE = path.join(PROJECT_DIR, "wrangler.toml");
const USAGE = `Usage: npm run deploy:setup -- --jurisdiction ${PLACES.join("|")} [--env NAME]`;

await reportErrors(async () => ((await run()) ? 0 : 1));

async function run(): Promise<boolean> {
  const { values } = readOptions({ options: { env: { type: "string" }, jurisdiction: { type: "string" } } }, USAGE);
  const place = PLACES.find((known) => known === values.jurisdiction);
  if (place === undefined) {
    throw new CommandError(
      `Where will the data stay? It cannot be moved later. none: the platform chooses.\n\n${USAGE}`,
    );
  }
  const environment = values.env;
  await edit((text) => withJurisdiction(text, environment, place));
  return (
    (await makeDatabase(environment)) &&
    (await makeOthers(environment)) &&
    (await makeToken(environment)) &&
    done(environment)
  );
}

async function makeDatabase(environment: string | undefined): Promise<boolean> {
  const { config } = sectionOf(environment);
  const [database] = config.d1_databases;
  if (database?.database_name === undefined || isCreated(database)) return true;
  const there = (await listDatabases(quietWrangler)).find(({ name }) => name === database.database_name);
  if (there !== undefined) {
    const line = `database_id = "${there.uuid}"`;
    return failed(`The database ${there.name} exists, and wrangler.toml does not name it.`, `If it is yours: ${line}`);
  }
  const { out, code } = await quietWrangler(["d1", "create", database.database_name, ...jurisdictionArguments(config)]);
  const id = createdDatabaseId(out);
  if (code !== 0 || id === null) return failed(`The database ${database.database_name} was not created.`, out);
  await edit((text) => withDatabase(text, environment, id));
  console.log(`✓ database ${database.database_name}: ${id}`);
  return true;
}

/** Runs the commands that the check before a deployment would name. */
async function makeOthers(environment: string | undefined): Promise<boolean> {
  const missing = await missingInAccount(sectionOf(environment), quietWrangler, fetch);
  const unread = missing.find((part) => part.unread);
  if (unread !== undefined) return failed(unread.problem, unread.fix);
  for (const { problem, fix } of missing) {
    const [npx, name, ...args] = fix.split(" ");
    const isCreation = npx === "npx" && name === "wrangler" && args.includes("create");
    if (!isCreation) continue;
    // oxlint-disable-next-line no-await-in-loop -- one after the other, so that a failure stops the rest
    const { out, code } = await quietWrangler(args);
    if (code !== 0) return failed(problem, out);
    console.log(`✓ ${args.join(" ")}`);
  }
  return true;
}

async function makeToken(environment: string | undefined): Promise<boolean> {
  if (await hasOperatorToken(environment, quietWrangler)) return true;
  const flags = environmentArguments(environment);
  const token = randomBytes(32).toString("base64url");
  const put = await quietWrangler(["secret", "put", "OPERATOR_TOKEN", ...flags], `${token}\n`);
  if (put.code !== 0) return failed("The operator token was not stored.", put.out);
  console.log(`✓ OPERATOR_TOKEN, shown only now. Keep it in a safe place:\n\n  ${token}\n`);
  return true;
}

function done(environment: string | undefined): boolean {
  const flag = environment === undefined ? "" : ` -- --env ${environment}`;
  console.log(
    "Next: in wrangler.toml choose the domain (routes) and SIGN_IN; docs/deploy.md has both. Then:\n\n" +
      `  npm run deploy:check${flag}\n  npm run deploy${flag}`,
  );
  return true;
}

function failed(problem: string, out: string): false {
  console.log(
    `${problem}\n\n${out.trim()}\n\nRun the command again when that is corrected: what exists is left as it is.`,
  );
  return false;
}

function sectionOf(environment: string | undefined): Section {
  const found = readSections(FILE).find((section) => section.environment === environment);
  if (found === undefined) throw new CommandError(`wrangler.toml has no [env.${environment}].`);
  return found;
}

async function edit(change: (text: string) => string): Promise<void> {
  const text = await readFile(FILE, "utf8");
  const changed = change(text);
  if (changed !== text) await writeFile(FILE, changed);
}
