/**
 * Starts built Workers on Miniflare: bindings from their wrangler.toml, state in real files, load directly to the
 * Worker's own socket. Miniflare's entry Worker and wrangler's development proxy would cost more than most of the
 * measured operations.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { Miniflare, NoOpLog, convertV4MiniflareOptions, type V4WorkerOptions } from "miniflare";
import { unstable_getMiniflareWorkerOptions, unstable_splitSqlQuery } from "wrangler";
import { ROOT, type BuiltWorker } from "./build.ts";

export interface RunningWorker {
  /** The Worker's own socket, as `http://host:port`. */
  origin: string;
  /** The socket of the second Worker; the same if there is none. */
  besideOrigin: string;
  miniflare: Miniflare;
  /** Memory of the whole runtime process: Worker, consumer, Durable Objects, D1, queues. */
  pid: number | undefined;
  residentBytes(): number;
  /** The maximum since `forgetPeak`. Linux only, like the following members. */
  peakBytes(): number;
  forgetPeak(): void;
  /** CPU time of all threads so far. No other source is precise enough. */
  cpuMicroseconds(): number;
  stop(): Promise<void>;
}

export interface StartOptions {
  stateDir: string;
  vars?: Record<string, string>;
  /**
   * A second Worker that gets the Worker's queues instead of its consumer, and that calls the Worker's Durable
   * Objects.
   */
  consumer?: BuiltWorker;
  /** Whether the Worker can be inspected, see inspector.ts. */
  inspected?: boolean;
  /**
   * Simulates Cloudflare Access in front of Miniflare's own address (`miniflare.ready`), but not of the Worker's
   * socket.
   */
  access?: V4WorkerOptions["access"];
}

/** The error lines of the Worker's log. */
const FAILURE = /^\{"event":"(error|[a-z_]+_failed)"/;
/** Per instance: the first ones are enough, and more would cost time. */
const ERRORS_SHOWN = 20;

export async function start(built: BuiltWorker, options: StartOptions): Promise<RunningWorker> {
  const worker = workerOptions(built, "worker", options.vars);
  if (options.access !== undefined) worker.access = options.access;
  const workers = [worker];
  if (options.consumer !== undefined) {
    delete worker.queueConsumers;
    workers.push(beside(workerOptions(options.consumer, "consumer", options.vars)));
  }
  let errors = 0;
  const before = new Set(runtimeProcesses().map(({ pid }) => pid));
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      workers,
      resourcePersistencePath: options.stateDir,
      log: new NoOpLog(),
      logRequests: false,
      cf: false,
      ...(options.inspected === true ? { inspectorHost: "127.0.0.1", inspectorPort: 0 } : {}),
      // The Worker writes its log lines unformatted, and only errors are shown.
      handleStructuredLogs: ({ level, message }) => {
        if (level !== "error" && !FAILURE.test(message)) return;
        if (errors++ < ERRORS_SHOWN) console.error(message);
      },
    }),
  );
  const url = await miniflare.unsafeGetDirectURL("worker");
  const besideUrl = options.consumer === undefined ? url : await miniflare.unsafeGetDirectURL("consumer");
  const pid = runtimeProcesses().find((process) => !before.has(process.pid))?.pid;
  return {
    origin: url.origin,
    besideOrigin: besideUrl.origin,
    miniflare,
    pid,
    residentBytes: () => runtimeProcesses().find((process) => process.pid === pid)?.residentBytes ?? 0,
    peakBytes: () => peakBytes(pid),
    // See proc_pid_clear_refs(5).
    forgetPeak: () => writeFileSync(`/proc/${pid}/clear_refs`, "5"),
    cpuMicroseconds: () => cpuMicroseconds(pid),
    stop: () => miniflare.dispose(),
  };
}

function workerOptions(built: BuiltWorker, name: string, vars: Record<string, string> = {}): V4WorkerOptions {
  const { modulesRules: _, ...configured } = unstable_getMiniflareWorkerOptions(built.configPath).workerOptions;
  const options: V4WorkerOptions = {
    ...configured,
    name,
    modulesRoot: built.outDir,
    modules: built.modules,
    unsafeDirectSockets: [{}],
  };
  // The local runtime has no jurisdictions.
  options.bindings = { ...options.bindings, JURISDICTION: "", ...vars };
  return options;
}

/** A second Worker with the Durable Objects of the first one. */
function beside({ durableObjects = {}, ...options }: V4WorkerOptions): V4WorkerOptions {
  const objects = Object.entries(durableObjects).map(([binding, object]) => {
    const source = typeof object === "string" ? { className: object } : object;
    return [binding, { ...source, scriptName: "worker" }] as const;
  });
  return { ...options, durableObjects: Object.fromEntries(objects) };
}

const MIGRATIONS = path.join(ROOT, "migrations/d1");

/** Starts this service, or a Worker with its bindings, on an empty D1 database. */
export async function startEmpty(built: BuiltWorker, options: StartOptions): Promise<RunningWorker> {
  const running = await start(built, options);
  await createTables(running);
  return running;
}

/** Creates the tables of this service in the Worker's empty D1 database. */
export async function createTables(running: RunningWorker): Promise<void> {
  const files = readdirSync(MIGRATIONS).filter((name) => name.endsWith(".sql"));
  for (const file of files.toSorted()) await applySql(running, path.join(MIGRATIONS, file));
}

/** Posts a call to a Worker of the bench, as JSON. */
export async function ask<Answer>(url: string, call: object): Promise<Answer> {
  // A separate connection, because the runtime closes a connection that was idle during a long call.
  const response = await fetch(url, { method: "POST", body: JSON.stringify(call), headers: { connection: "close" } });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return (await response.json()) as Answer;
}

/** Applies a file of statements to the Worker's D1 database. */
export async function applySql(running: RunningWorker, file: string): Promise<void> {
  const database = await running.miniflare.getD1Database("DB", "worker");
  const statements = unstable_splitSqlQuery(await readFile(file, "utf8"));
  await database.batch(statements.map((statement) => database.prepare(statement)));
}

/** The workerd processes that this process has started. */
function runtimeProcesses(): { pid: number; residentBytes: number }[] {
  return execFileSync("ps", ["-A", "-o", "pid=,ppid=,rss=,comm="], { encoding: "utf8" })
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter(([, parent, , command]) => Number(parent) === process.pid && (command ?? "").includes("workerd"))
    .map(([pid, , residentKilobytes]) => ({ pid: Number(pid), residentBytes: Number(residentKilobytes) * 1024 }));
}

function peakBytes(pid: number | undefined): number {
  const kilobytes = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  if (kilobytes === undefined) throw new Error("the kernel shows no peak of resident memory");
  return Number(kilobytes) * 1024;
}

function cpuMicroseconds(pid: number | undefined): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const nanoseconds = threads.map(
    (thread) => readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0],
  );
  return nanoseconds.reduce((sum, value) => sum + Number(value), 0) / 1_000;
}
