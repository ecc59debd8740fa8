/** Runs the service on this machine: `wrangler dev` as a child process, with its state in a folder. Works offline. */
import { fork, type ChildProcess } from "node:child_process";
import { constants as os } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs, stripVTControlCharacters, type ParseArgsConfig } from "node:util";
import { CLOCK_AHEAD, clockAheadMs, SHIFTED_WORKER } from "./clock-ahead.ts";

export const PROJECT_DIR = path.resolve(import.meta.dirname, "../..");

export const WRANGLER = path.join(PROJECT_DIR, "node_modules/wrangler/bin/wrangler.js");

/** Ends wrangler and the runtime with it, even if this process is killed. */
const END_WITH_PARENT = `data:text/javascript,process.once("disconnect",()=>process.exit());process.channel?.unref()`;

/** The runtime needs about two seconds to close its files. */
const STOP_MS = 8_000;
const HEALTHY_MS = 20_000;
const POLL_MS = 50;
/** Lines of wrangler's output kept for an error message. */
const LINES_KEPT = 60;

export interface Service {
  origin: string;
  /** Exit code of wrangler after it has ended or was stopped. */
  ended: Promise<number>;
  /** Wrangler's latest lines, without those of successful calls. */
  output(): string;
  /** Passes on each further line: the service's JSON log, warnings, errors. */
  follow(onLine: (line: string) => void): void;
  /** Resolves when wrangler and the runtime have ended. Idempotent. */
  stop(): Promise<void>;
}

interface StartOptions {
  stateDir: string;
  port: string;
  args: string[];
  /** Main module of the Worker, if it differs from that of wrangler.toml. */
  entry?: string;
  signal?: AbortSignal;
}

/** An error whose message says everything to the developer, such as wrangler's output. */
export class CommandError extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The options of a command. @throws CommandError with the usage, for an option that the command does not have. */
export function readOptions<T extends ParseArgsConfig>(config: T, usage: string): ReturnType<typeof parseArgs<T>> {
  try {
    return parseArgs(config);
  } catch (error) {
    throw new CommandError(`${messageOf(error)}\n\n${usage}`);
  }
}

/**
 * Runs a command that SIGINT, SIGTERM and SIGHUP abort, and sets the process's exit code.
 *
 * @param command returns the exit code.
 */
export async function runCommand(command: (signal: AbortSignal) => Promise<number>): Promise<void> {
  const interruption = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => interruption.abort(signal));
  }
  // A shell between npm and this process forwards no signals, so watch for the end of the parent process.
  const parent = process.ppid;
  const watch = setInterval(() => process.ppid !== parent && interruption.abort("SIGTERM"), 500).unref();
  if (process.env["npm_lifecycle_event"] === undefined) clearInterval(watch);
  try {
    process.exitCode = await command(interruption.signal);
  } catch (error) {
    const { aborted, reason } = interruption.signal;
    if (!aborted) printError(error);
    process.exitCode = aborted ? 128 + os.signals[reason as NodeJS.Signals] : exitCodeOf(error);
  }
}

/**
 * Runs a command that has nothing to clean up, so that Ctrl-C ends it at once, and sets the process's exit code.
 *
 * @param command returns the exit code.
 */
export async function reportErrors(command: () => Promise<number>): Promise<void> {
  try {
    process.exitCode = await command();
  } catch (error) {
    printError(error);
    process.exitCode = exitCodeOf(error);
  }
}

function printError(error: unknown): void {
  console.error(error instanceof CommandError ? error.message : error);
}

function exitCodeOf(error: unknown): number {
  return error instanceof CommandError && error.exitCode !== 0 ? error.exitCode : 1;
}

/** Creates or migrates the local D1 database in the state folder. @throws CommandError */
export async function applyMigrations(stateDir: string, signal?: AbortSignal): Promise<void> {
  const args = ["d1", "migrations", "apply", "DB", "--local", "--persist-to", stateDir];
  const wrangler = startWrangler(args, stateDir, signal);
  const exitCode = await wrangler.ended;
  signal?.throwIfAborted();
  if (exitCode !== 0) throw new CommandError(`The migrations failed:\n${wrangler.output()}`, exitCode);
}

/** Resolves when /healthz answers. @throws CommandError */
export async function startService({ stateDir, port, args, signal, entry }: StartOptions): Promise<Service> {
  const shifted = clockAheadMs === 0 ? undefined : SHIFTED_WORKER;
  const main = [entry ?? shifted].filter((file) => file !== undefined);
  // The local runtime has no jurisdictions.
  const dev = [
    "dev",
    ...main,
    "--port",
    port,
    "--persist-to",
    stateDir,
    "--var",
    "JURISDICTION:",
    "--var",
    `${CLOCK_AHEAD}:${clockAheadMs}`,
    ...args,
  ];
  const wrangler = startWrangler(dev, stateDir, signal);
  try {
    const ready = await Promise.race([wrangler.ready, wrangler.ended]);
    signal?.throwIfAborted();
    if (typeof ready === "number") throw new CommandError(startFailure(wrangler.output()), ready);
    const origin = originOf(ready, port);
    const health = await fetch(`${origin}/healthz`, { signal: AbortSignal.timeout(HEALTHY_MS) });
    if (!health.ok) throw new CommandError(`GET /healthz answers ${health.status}.`);
    return { ...wrangler, origin };
  } catch (error) {
    await wrangler.stop();
    signal?.throwIfAborted();
    throw error;
  }
}

/** For an unknown option wrangler prints its whole help, which hides the error and lacks our options. */
export function startFailure(output: string): string {
  const unknown = /Unknown arguments?: (.+)/.exec(stripVTControlCharacters(output))?.[1];
  return unknown === undefined
    ? `The service did not start:\n${output}`
    : `The service did not start: unknown option ${unknown}. \`npm run dev -- --help\` lists the options.`;
}

/** Resolves when `signal` aborts. @throws CommandError if the service ends before. */
export async function untilInterrupted(service: Service, signal: AbortSignal): Promise<void> {
  const interrupted = new Promise<null>((resolve) => signal.addEventListener("abort", () => resolve(null)));
  const exitCode = await Promise.race([service.ended, interrupted]);
  if (exitCode !== null) throw new CommandError(`The service has ended with code ${exitCode}.`, exitCode);
}

/** Where wrangler says that it listens. */
interface Ready {
  ip: string;
  /** Null for port 80. */
  port: number | null;
}

export function originOf({ ip, port }: Ready, askedPort: string): string {
  const host = ip === "0.0.0.0" || ip === "::" || ip === "[::]" ? "localhost" : ip;
  return `http://${host}:${port ?? askedPort}`;
}

interface Wrangler extends Omit<Service, "origin"> {
  ready: Promise<Ready>;
}

function startWrangler(args: string[], stateDir: string, abort?: AbortSignal): Wrangler {
  const child = fork(WRANGLER, args, {
    cwd: PROJECT_DIR,
    execArgv: ["--import", END_WITH_PARENT],
    // A separate process group: Ctrl-C does not reach wrangler directly, and the whole group can be stopped.
    detached: true,
    silent: true,
    env: wranglerVariables(stateDir),
  });
  const lines: string[] = [];
  let follower: ((line: string) => void) | undefined;
  const handleLine = (line: string): void => {
    if (REQUEST_LINE.test(line)) return;
    const masked = line.replaceAll(API_KEY, "sk_…");
    follower?.(masked);
    if (UNEVENTFUL.test(line)) return;
    lines.push(masked);
    if (lines.length > LINES_KEPT) lines.shift();
  };
  readLines(child, handleLine);
  child.stdin?.end();

  const ended = new Promise<number>((resolve) => {
    child.once("error", () => resolve(1));
    child.once("close", (code) => resolve(code ?? 1));
  });
  const ready = readyMessage(child);
  // Output of a successful start does not explain a later failure.
  void ready.then(() => (lines.length = 0));
  let stopping: Promise<void> | undefined;
  const stop = (): Promise<void> => (stopping ??= endGroup(child));
  abort?.addEventListener("abort", () => void stop());
  return {
    ready,
    ended,
    output: () => lines.join("\n").trim(),
    follow: (onLine) => void (follower = onLine),
    stop,
  };
}

/** Wrangler's request lines contain the URL with the key. The service's JSON log says the same without it. */
const REQUEST_LINE = /^\[wrangler:info\] [A-Z]+ \/\S* \d{3} /;
/** Log line of an answered or rejected call, which does not explain a failure. */
const UNEVENTFUL = /^\{"event":"request",.*"status":[1-4]\d\d/;
const API_KEY = /sk_[0-9A-Za-z]{5,}/g;

function wranglerVariables(stateDir: string): NodeJS.ProcessEnv {
  return {
    ...process.env,
    // Keep wrangler from using the network.
    WRANGLER_SEND_METRICS: "false",
    WRANGLER_SEND_ERROR_REPORTS: "false",
    WRANGLER_HIDE_BANNER: "true",
    CLOUDFLARE_CF_FETCH_ENABLED: "false",
    // Keep wrangler from writing URLs, which contain keys, to a file.
    WRANGLER_WRITE_LOGS: "false",
    X_LOCAL_OBSERVABILITY: "false",
    // Instances on one machine do not know each other.
    WRANGLER_REGISTRY_PATH: path.join(stateDir, "registry"),
    NO_COLOR: "1",
    FORCE_COLOR: "0",
  };
}

/** Wrangler informs its parent process when it is ready, with its address. */
function readyMessage(child: ChildProcess): Promise<Ready> {
  return new Promise((resolve) => {
    child.on("message", (message) => {
      if (typeof message !== "string") return;
      const { event, ip, port } = JSON.parse(message) as Ready & { event: string };
      if (event === "DEV_SERVER_READY") resolve({ ip, port });
    });
  });
}

function readLines(child: ChildProcess, handleLine: (line: string) => void): void {
  for (const stream of [child.stdout, child.stderr]) {
    let rest = "";
    stream?.setEncoding("utf8").on("data", (text: string) => {
      const parts = (rest + text).split("\n");
      rest = parts.pop() ?? "";
      for (const line of parts) handleLine(line);
    });
    stream?.on("end", () => {
      if (rest !== "") handleLine(rest);
    });
  }
}

/** Ends a process group. Wrangler ends at once and the runtime a little later: waits for both. */
async function endGroup({ pid }: ChildProcess): Promise<void> {
  if (pid === undefined) return;
  signalGroup(pid, "SIGTERM");
  for (const untilMs = Date.now() + STOP_MS; signalGroup(pid, 0); await sleep(POLL_MS)) {
    if (Date.now() > untilMs) signalGroup(pid, "SIGKILL");
  }
}

/** Sends a signal to a process group. False: it has no process left. */
function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-pid, signal);
  } catch {
    return false;
  }
}

/** Entry point of the Worker with a settable clock, for `wrangler dev` and for builds. */
export const WORKER_WITH_CLOCK = path.join(PROJECT_DIR, "src/dev/worker/with-clock.ts");

/** Sets the clock of that Worker to a time in milliseconds since 1970, or back to the real time. The clock then runs on. */
export async function setClock(origin: string, at: number | "now"): Promise<void> {
  await fetch(`${origin}/healthz`, { headers: { "x-clock": String(at) } });
}
