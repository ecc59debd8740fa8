/**
 * `npm run dev`: the service on this machine, with a demo workspace, until Ctrl-C. `--sample` fills the workspace with
 * three weeks of signals. Other arguments go on to `wrangler dev`, such as `--port 8788 --persist-to DIR`.
 */
import { randomBytes } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { constants as os } from "node:os";
import path from "node:path";
import { parseArgs, parseEnv } from "node:util";
import {
  DEMO_MEMBERS,
  DEMO_RULES,
  DEMO_SLUG,
  type DemoWorkspace,
  demoWorkspaceFile,
  seedDemoWorkspace,
} from "./demo-workspace.ts";
import { createKeys } from "./demo/provision.ts";
import { sendThreeWeeks } from "./demo/three-weeks.ts";
import { beginOf } from "./demo/weeks.ts";
import { applyMigrations, PROJECT_DIR, startService, WranglerError } from "./local-service.ts";
import { OperatorClient, type WorkspaceAnswer } from "./operator-client.ts";
import { claimState, Misuse, requireFreePort } from "./single-instance.ts";
import { Progress } from "./terminal.ts";
import { setClock, WORKER_WITH_CLOCK } from "./worker-clock.ts";

const DEFAULT_PORT = "8787";

const interruption = new AbortController();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => interruption.abort(signal));
}
// A shell between npm and this process passes no signal on: that it is gone is the only message.
const parent = process.ppid;
const watch = setInterval(() => process.ppid !== parent && interruption.abort("SIGTERM"), 500).unref();
if (process.env["npm_lifecycle_event"] === undefined) clearInterval(watch);

try {
  process.exitCode = await run(process.argv.slice(2), interruption.signal);
} catch (error) {
  if (interruption.signal.aborted) process.exitCode = 128 + os.signals[interruption.signal.reason as NodeJS.Signals];
  else {
    console.error(error instanceof WranglerError || error instanceof Misuse ? error.message : error);
    process.exitCode = error instanceof WranglerError && error.exitCode !== 0 ? error.exitCode : 1;
  }
}

async function run(args: string[], signal: AbortSignal): Promise<number> {
  const options = { port: { type: "string" }, "persist-to": { type: "string" }, sample: { type: "boolean" } } as const;
  const { values, tokens } = parseArgs({ args, options, strict: false, allowPositionals: true, tokens: true });
  const port = String(values.port ?? DEFAULT_PORT);
  const stateDir = path.resolve(PROJECT_DIR, String(values["persist-to"] ?? ".wrangler/state"));
  const known = tokens.filter((token) => token.kind === "option" && token.name in options);
  const rest = args.filter((_, at) => !known.some((token) => at === token.index || at === valueIndex(token)));

  const token = await operatorToken(path.join(PROJECT_DIR, ".dev.vars"));
  await mkdir(stateDir, { recursive: true });
  // Asked before the port: where both are in use, another port alone would not help.
  await using _claim = await claimState(stateDir, port);
  await requireFreePort(port);

  console.log("Applying the migrations …");
  await applyMigrations(stateDir, signal);
  if (values.sample === true && !(await fillSample(stateDir, token, signal))) {
    console.log("The demo workspace is there already: no sample was added. Delete the state folder to have one.");
  }
  console.log("Starting the service …");
  // Local sign-in comes before the other arguments, which may choose another way to sign in.
  const service = await startService({ stateDir, port, args: [...localSignIn(rest), ...rest], signal });
  try {
    const demo = await seedDemoWorkspace(new OperatorClient(service.origin, token), stateDir);
    signal.throwIfAborted();
    console.log(welcome({ origin: service.origin, token, demo, stateDir, keyFile: demoWorkspaceFile(stateDir) }));
    service.follow((line) => console.log(line));
    const interrupted = new Promise<null>((resolve) => signal.addEventListener("abort", () => resolve(null)));
    const exitCode = await Promise.race([service.ended, interrupted]);
    if (exitCode !== null) throw new WranglerError(`The service has ended with code ${exitCode}.`, exitCode);
    console.log("\nStopping …");
    return 0;
  } finally {
    await service.stop();
  }
}

/** Arguments for local sign-in, where anybody is anybody: only where nobody but this machine reaches the service. */
function localSignIn(args: string[]): string[] {
  const { values } = parseArgs({ args, options: { ip: { type: "string" } }, strict: false });
  if (["localhost", "127.0.0.1", "::1", undefined].includes(values.ip as string | undefined)) {
    return ["--var", "SIGN_IN:local"];
  }
  console.log(`Others may reach ${values.ip}, so local sign-in is off and the pages are closed.`);
  return [];
}

/** The index of an option's last argument: its value stands after it, unless it is written as `--port=8788`. */
function valueIndex(token: { index: number; inlineValue?: boolean | undefined }): number {
  return token.inlineValue === false ? token.index + 1 : token.index;
}

// The operator token of the service on this machine: random, made at the first start, kept in .dev.vars. One that everybody
// knows would open the operator API to any page in a developer's browser.

const TOKEN_BYTES = 24;
const LINE = /^[ \t]*(?:export[ \t]+)?OPERATOR_TOKEN[ \t]*=.*$/m;
/** Tokens that have been published as examples. */
const PUBLISHED = new Set(["local-operator", ""]);
/** What a request's `Authorization` can carry and a shell takes as it stands, as in the lines that are printed to be pasted. */
const USABLE = /^[\w.+/=-]+$/;

/**
 * The token that stands in the file, which is made where it is missing. A missing or published token is replaced; whatever
 * else the file says stays.
 *
 * @throws Misuse when the token is none that a call can be made with.
 */
export async function operatorToken(varsFile: string): Promise<string> {
  const vars = await readFile(varsFile, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  const known = parseEnv(vars)["OPERATOR_TOKEN"] ?? "";
  if (!PUBLISHED.has(known)) {
    if (USABLE.test(known)) return known;
    throw new Misuse(
      `OPERATOR_TOKEN in ${varsFile} has other characters than letters, digits and . _ + / = -, or a quotation mark that is not closed.\n` +
        "Delete its line, and npm run dev makes a token.",
    );
  }
  const token = randomBytes(TOKEN_BYTES).toString("base64url");
  const line = `OPERATOR_TOKEN=${token}`;
  const kept = vars === "" || vars.endsWith("\n") ? vars : `${vars}\n`;
  await writeFile(varsFile, LINE.test(vars) ? vars.replace(LINE, line) : `${kept}${line}\n`, { mode: 0o600 });
  return token;
}

// `npm run dev -- --sample`: three weeks of believable signals in the demo workspace, to look at.

/**
 * Fills the state once: where the workspace is there already, nothing is added.
 *
 * @returns false where the workspace was there.
 */
async function fillSample(stateDir: string, token: string, signal: AbortSignal): Promise<boolean> {
  const args = ["--inspector-port", "0", ...(await withoutWaiting(stateDir))];
  const service = await startService({ stateDir, port: "0", args, signal, entry: WORKER_WITH_CLOCK });
  try {
    const operator = new OperatorClient(service.origin, token);
    const workspaces = await operator.list<WorkspaceAnswer>("workspaces");
    if (workspaces.some(({ slug }) => slug === DEMO_SLUG)) return false;
    const nowMs = Date.now();
    await setClock(service.origin, beginOf(nowMs));
    const { workspace_id: id, key } = await seedDemoWorkspace(operator, stateDir);
    const home = `workspaces/${id}`;
    const keys = { ...(await createKeys(operator, home)), campaigns: key };
    const progress = new Progress();
    await sendThreeWeeks({ origin: service.origin, operator, home, keys }, nowMs, {
      signal,
      onProgress: (share) => progress.show(`Sending three weeks of signals: ${Math.round(100 * share)} %`),
    });
    progress.show("Sending three weeks of signals: done");
    progress.end();
    return true;
  } finally {
    await service.stop();
  }
}

/**
 * Arguments of `wrangler dev` with which each hour's signals are processed at once: neither the drain nor the queue gathers
 * any for a while. With the times of production the sample takes five times as long.
 */
async function withoutWaiting(stateDir: string): Promise<string[]> {
  const config = path.join(stateDir, "sample.toml");
  const text = await readFile(path.join(PROJECT_DIR, "wrangler.toml"), "utf8");
  await writeFile(config, text.replaceAll(/^max_batch_timeout = .*$/gm, "max_batch_timeout = 0"));
  // Wrangler looks for the secrets beside the configuration.
  const secrets = path.join(PROJECT_DIR, ".dev.vars");
  return ["--config", config, "--env-file", secrets, "--var", "DRAIN_PACE_MS:0"];
}

// What `npm run dev` says when the service runs: calls that work as they are.

interface Running {
  origin: string;
  token: string;
  demo: DemoWorkspace;
  stateDir: string;
  keyFile: string;
}

function welcome({ origin, token, demo, stateDir, keyFile }: Running): string {
  const members = DEMO_MEMBERS.map(({ email, role }) => `${email} (${role})`).join(", ");
  const rules = DEMO_RULES.map(({ name, points }) => `${name} (${points > 0 ? "+" : ""}${points})`).join(", ");
  return `
The service is running at ${origin}

  The pages       ${origin}/w/${DEMO_SLUG}
  Demo workspace  ${demo.workspace_id}
  Members         ${members}
  Mapping rules   ${rules}

Send a signal:

curl -X POST '${origin}/api/signal-staging/webhook/${demo.key}' \\
  -H 'Content-Type: application/json' \\
  -d '{"email":"jane@example.com","event":"Filled Out Form","source":"website","properties":{"form_name":"Demo request"}}'

For a second terminal, and for the README's tour:

ORIGIN=${origin} WORKSPACE=${demo.workspace_id}
KEY=${demo.key} KEY_ID=${demo.key_id}
TOKEN=${token}
operator() { curl -s -H "Authorization: Bearer $TOKEN" "$ORIGIN/operator/workspaces/$WORKSPACE/$1"; echo; }

Then see the person's score, and where every accepted signal is:

operator 'people?email=jane@example.com'
operator books

  The API         ${origin}/docs
  The key         ${shown(keyFile)}
  State           ${shown(stateDir)} (delete it to start afresh)
  Stop            Ctrl-C

The service's log, one line per request and batch:
`;
}

function shown(file: string): string {
  const relative = path.relative(PROJECT_DIR, file);
  return relative.startsWith("..") ? file : relative;
}
