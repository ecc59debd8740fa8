/**
 * `npm run dev`: runs the service on this machine, with a demo workspace, until Ctrl-C. `--sample` fills the
 * workspace with three weeks of signals. Other arguments are passed to `wrangler dev`, such as `--port 8788
 * --persist-to DIR`.
 */
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { parseArgs } from "node:util";
import { demoWorkspaceFile, seedDemoWorkspace } from "./demo-workspace.ts";
import {
  applyMigrations,
  CommandError,
  messageOf,
  PROJECT_DIR,
  runCommand,
  startService,
  untilInterrupted,
} from "./local-service.ts";
import { claimState, operatorToken, requireFreePort, welcome } from "./local-setup.ts";
import { OperatorClient } from "./operator-client.ts";
import { fillSample } from "./sample.ts";

const DEFAULT_PORT = "8787";

const HELP = `npm run dev -- [options]

Runs the service on this machine, with a demo workspace, until Ctrl-C. Works offline.

  --port 8788        the port (default ${DEFAULT_PORT})
  --persist-to DIR   the folder with the data (default .wrangler/state); delete it to begin anew
  --sample           fills the demo workspace with three weeks of signals
  --help             this text

Other options go to wrangler dev, such as --ip or --var NAME:VALUE.`;

/** A deployment logs a line a second; a developer wants to see each call. */
const EACH_REQUEST = ["--var", "LOG_REQUESTS:all"];

await runCommand((signal) => run(process.argv.slice(2), signal));

async function run(args: string[], signal: AbortSignal): Promise<number> {
  const options = {
    port: { type: "string" },
    "persist-to": { type: "string" },
    sample: { type: "boolean" },
    help: { type: "boolean", short: "h" },
  } as const;
  const { values, tokens } = parseArgs({ args, options, strict: false, allowPositionals: true, tokens: true });
  if (values.help === true) {
    console.log(HELP);
    return 0;
  }
  for (const name of ["port", "persist-to"] as const)
    if (values[name] === true) throw new CommandError(`--${name} needs a value.\n\n${HELP}`);
  const port = String(values.port ?? DEFAULT_PORT);
  const stateDir = path.resolve(PROJECT_DIR, String(values["persist-to"] ?? ".wrangler/state"));
  const known = tokens.filter((token) => token.kind === "option" && token.name in options);
  const rest = args.filter((_, at) => !known.some((token) => at === token.index || at === valueIndex(token)));

  await mkdir(stateDir, { recursive: true }).catch((error: unknown) => {
    throw new CommandError(`--persist-to ${stateDir}: ${messageOf(error)}`);
  });
  const token = await operatorToken(path.join(PROJECT_DIR, ".dev.vars"));
  // Check the state folder before the port: if both are in use, another port would not be enough.
  await using _claim = await claimState(stateDir, port);
  await requireFreePort(port);

  console.log("Applying the migrations …");
  await applyMigrations(stateDir, signal);
  if (values.sample === true && !(await fillSample(stateDir, token, signal))) {
    console.log("The demo workspace is there already: no sample was added. Delete the state folder to have one.");
  }
  console.log("Starting the service …");
  // Local sign-in precedes the other arguments, which may choose another way to sign in.
  const service = await startService({
    stateDir,
    port,
    args: [...localSignIn(rest), ...EACH_REQUEST, ...rest],
    signal,
  });
  try {
    const demo = await seedDemoWorkspace(new OperatorClient(service.origin, token), stateDir);
    signal.throwIfAborted();
    console.log(welcome({ origin: service.origin, token, demo, stateDir, keyFile: demoWorkspaceFile(stateDir) }));
    service.follow((line) => console.log(line));
    await untilInterrupted(service, signal);
    console.log("\nStopping …");
    return 0;
  } finally {
    await service.stop();
  }
}

/** Arguments for local sign-in, where visitors choose any identity. Only if the service listens on loopback. */
function localSignIn(args: string[]): string[] {
  const { values } = parseArgs({ args, options: { ip: { type: "string" } }, strict: false });
  if (["localhost", "127.0.0.1", "::1", undefined].includes(values.ip as string | undefined)) {
    return ["--var", "SIGN_IN:local"];
  }
  console.log(`Others may reach ${values.ip}, so local sign-in is off and the pages are closed.`);
  return [];
}

/** Index of an option's last argument: the value follows the option, except in the form `--port=8788`. */
function valueIndex(token: { index: number; inlineValue?: boolean | undefined }): number {
  return token.inlineValue === false ? token.index + 1 : token.index;
}
