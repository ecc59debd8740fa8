/** Prepares `npm run dev`: the operator token, the checks for a free port and an unused state folder, the welcome text. */
import path from "node:path";
import { randomBytes } from "node:crypto";
import { readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { parseEnv } from "node:util";
import { DEMO_MEMBERS, SEED_RULES, DEMO_SLUG, type DemoWorkspace } from "./demo-workspace.ts";
import { CommandError, PROJECT_DIR } from "./local-service.ts";

const TOKEN_BYTES = 24;
const TOKEN_LINE = /^[ \t]*(?:export[ \t]+)?OPERATOR_TOKEN[ \t]*=.*$/m;
/** Tokens that were published as examples. */
const PUBLISHED_TOKENS = new Set(["local-operator", ""]);
/** Characters that are safe in an `Authorization` header and unquoted in a shell, as in the printed commands. */
const USABLE_TOKEN = /^[\w.+/=-]+$/;

/**
 * Reads the operator token from the file. A missing or published token is replaced by a new one; other lines are
 * kept.
 *
 * @throws CommandError if the token cannot be used in a call.
 */
export async function operatorToken(varsFile: string): Promise<string> {
  const vars = await readFile(varsFile, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  const known = parseEnv(vars)["OPERATOR_TOKEN"] ?? "";
  if (!PUBLISHED_TOKENS.has(known)) {
    if (USABLE_TOKEN.test(known)) return known;
    throw new CommandError(
      `OPERATOR_TOKEN in ${varsFile} has other characters than letters, digits and . _ + / = -, or a quotation mark that is not closed.\n` +
        "Delete its line, and npm run dev makes a token.",
    );
  }
  const token = randomBytes(TOKEN_BYTES).toString("base64url");
  const line = `OPERATOR_TOKEN=${token}`;
  const kept = vars === "" || vars.endsWith("\n") ? vars : `${vars}\n`;
  const text = TOKEN_LINE.test(vars) ? vars.replace(TOKEN_LINE, line) : `${kept}${line}\n`;
  await writeFile(varsFile, text, { mode: 0o600 });
  return token;
}

/** @throws CommandError when nothing can listen on the port, on either loopback address. */
export async function requireFreePort(port: string): Promise<void> {
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) throw new CommandError(`--port ${port}: a port is 0 to 65535.`);
  for (const host of ["127.0.0.1", "::1"]) {
    const code = await tryListen(Number(port), host);
    if (code === "EADDRINUSE") {
      throw new CommandError(
        `Port ${port} is taken.\nStop that, or take another port: npm run dev -- --port ${Number(port) + 1}`,
      );
    }
    if (code === "EACCES") throw new CommandError(`Port ${port} needs more rights than you have. Take one above 1023.`);
  }
}

/**
 * Tries to listen; returns the error's code, or null on success. A machine without IPv6 returns an irrelevant code.
 */
function tryListen(port: number, host: string): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? "unknown"));
    server.listen(port, host, () => server.close(() => resolve(null)));
  });
}

/**
 * Claims a state folder, because two runtimes would not see each other's writes. @throws CommandError if another process
 * uses it.
 */
export async function claimState(stateDir: string, port: string): Promise<AsyncDisposable> {
  const file = path.join(stateDir, "running.json");
  const running = await readClaim(file);
  if (running !== undefined && isRunning(running.pid)) {
    const freePort = port === running.port ? Number(port) + 1 : port;
    throw new CommandError(
      `The service is running already on the state in ${stateDir}: port ${running.port}, process ${running.pid}.\n` +
        `Stop that, or run another one beside it: npm run dev -- --port ${freePort} --persist-to .wrangler/other\n` +
        `(If process ${running.pid} is something else, delete ${file}.)`,
    );
  }
  await writeFile(file, JSON.stringify({ pid: process.pid, port }));
  return { [Symbol.asyncDispose]: () => rm(file, { force: true }) };
}

async function readClaim(file: string): Promise<{ pid: number; port: string } | undefined> {
  try {
    return JSON.parse(await readFile(file, "utf8")) as { pid: number; port: string };
  } catch {
    return undefined;
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

interface StartedService {
  origin: string;
  token: string;
  demo: DemoWorkspace;
  stateDir: string;
  keyFile: string;
}

export function welcome({ origin, token, demo, stateDir, keyFile }: StartedService): string {
  const members = DEMO_MEMBERS.map(({ email, role }) => `${email} (${role})`).join(", ");
  const rules = SEED_RULES.map(({ name, points, points_last_days: days }) => {
    const lapse = days === undefined ? "" : ` for ${days} days`;
    return `${name} (${points > 0 ? "+" : ""}${points}${lapse})`;
  }).join(", ");
  return `
The service is running at ${origin}

  The pages       ${origin}/w/${DEMO_SLUG}
  Demo workspace  ${demo.workspace_id}
  Members         ${members}
  Mapping rules   ${rules}

Send a signal:

curl -X POST '${origin}/api/signal-staging/webhook/${demo.key}' \\
  -H 'Content-Type: application/json' \\
  -d '{"email":"jane@example.com","event":"Filled Out Form","source":"website","properties":{"form_name":"Demo request"}}' \\
  -w '\\n'

For a second terminal, and for the README's tour:

ORIGIN=${origin} WORKSPACE=${demo.workspace_id}
KEY=${demo.key} KEY_ID=${demo.key_id}
TOKEN=${token}
operator() { curl -s -H "Authorization: Bearer $TOKEN" "$ORIGIN/operator/workspaces/$WORKSPACE/$1"; echo; }

Then see the person's score, and where every accepted signal is:

operator 'people?email=jane@example.com'
operator books

  The API         ${origin}/docs
  The key         ${displayPath(keyFile)}
  State           ${displayPath(stateDir)} (delete it to start afresh)
  Stop            Ctrl-C

The service's log, one line per request and batch:
`;
}

function displayPath(file: string): string {
  const relative = path.relative(PROJECT_DIR, file);
  return relative.startsWith("..") ? file : relative;
}
