/**
 * `npm run demo`: the main job on real input. Starts the service with its own state, sends some hundred signals as real
 * senders do, waits until all are processed, and shows what came of them and what a receiver was told of it. Exit code 0
 * only if everything is as expected. `--keep` leaves the service running afterwards, to look at its pages.
 */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { constants as os, tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";
import { customerDataPlatforms } from "./demo/cdp.ts";
import { imports } from "./demo/imports.ts";
import { BEYOND_LIMIT, beyondTheLimit, crmWorkflows, marketing } from "./demo/marketing.ts";
import { mistakes } from "./demo/mistakes.ts";
import { provision } from "./demo/provision.ts";
import { startReceiver, reportCrossings } from "./demo/receiver.ts";
import { report } from "./demo/report.ts";
import { send } from "./demo/send.ts";
import { OperatorClient, type BooksAnswer } from "./operator-client.ts";
import { applyMigrations, startService, WranglerError, type Service } from "./local-service.ts";
import { bold, dim, Progress, red } from "./terminal.ts";

const SETTLE_MS = 60_000;

const interruption = new AbortController();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => interruption.abort(signal));
}

const { keep } = parseArgs({ options: { keep: { type: "boolean", default: false } } }).values;
const stateDir = await mkdtemp(path.join(tmpdir(), "signal-demo-"));
let service: Service | undefined;
try {
  const token = randomBytes(24).toString("base64url");
  console.log(bold("Starting the service with a state of its own …"));
  const vars = path.join(stateDir, "demo.vars");
  await writeFile(vars, `OPERATOR_TOKEN=${token}\n`);
  await applyMigrations(stateDir, interruption.signal);
  // With local sign-in the service takes this machine for a developer's, and tells a receiver on it, too.
  const args = ["--inspector-port", "0", "--env-file", vars, "--var", "SIGN_IN:local"];
  service = await startService({ stateDir, port: "0", args, signal: interruption.signal });
  console.log(`It runs at ${service.origin}.`);
  const interrupted = new Promise<never>((_, reject) => {
    interruption.signal.addEventListener("abort", () => reject(new Error("Interrupted.")));
  });
  const good = await Promise.race([demonstrate(service.origin, token), died(service), interrupted]);
  process.exitCode = good ? 0 : 1;
  if (keep) {
    console.log(`\nThe pages: ${service.origin}/w/demo (choose a member, no password). Ctrl-C ends it.`);
    await Promise.race([died(service), interrupted.catch(() => undefined)]);
  }
  if (!good) console.log(dim(`\nWhat the service said:\n${service.output()}`));
} catch (error) {
  process.exitCode = 1;
  if (interruption.signal.aborted) process.exitCode = 128 + os.signals[interruption.signal.reason as NodeJS.Signals];
  else {
    console.error(error instanceof WranglerError ? error.message : error);
    if (service !== undefined) console.error(`\nWhat the service said:\n${service.output()}`);
  }
} finally {
  await service?.stop();
  await rm(stateDir, { recursive: true, force: true });
}
// Calls may still wait for an answer that nobody needs any more.
process.exit();

async function died(running: Service): Promise<never> {
  const exitCode = await running.ended;
  throw new WranglerError(`The service has ended with code ${exitCode}.`, exitCode);
}

async function demonstrate(origin: string, token: string): Promise<boolean> {
  const startedMs = Date.now();
  const operator = new OperatorClient(origin, token);
  const { workspace, keys, rules } = await provision(operator);
  console.log(`Workspace ${workspace.id}: 4 keys (one of them deactivated), ${rules} mapping rules.`);
  const home = `workspaces/${workspace.id}`;

  const senders = [marketing, crmWorkflows, customerDataPlatforms, imports, mistakes].map((sender) => sender(keys));
  const last = beyondTheLimit(keys);
  // The plan's limit leaves room for all kept signals but the last BEYOND_LIMIT ones.
  const kept = [...senders, last].flatMap(({ deliveries }) => deliveries).reduce((sum, one) => sum + one.kept, 0);
  await operator.call("PUT", "plans/demo", { name: "Demo", signal_limit: kept - BEYOND_LIMIT, paid: true });

  await using receiver = await startReceiver(operator, home);
  const sent = await send(origin, [...senders, last]);
  const settled = await waitUntilProcessed(operator, home);
  const good = await report(operator, home, { ...sent, settled, signalLimit: kept - BEYOND_LIMIT, startedMs });
  return (await reportCrossings(operator, home, receiver)) && good;
}

/** Waits until nothing is in flight any more, and gives the books. Null when that takes too long. */
async function waitUntilProcessed(operator: OperatorClient, home: string): Promise<BooksAnswer | null> {
  console.log(`\n${bold("Waiting until all are processed")}`);
  const progress = new Progress();
  for (const untilMs = Date.now() + SETTLE_MS; Date.now() < untilMs; await sleep(200)) {
    const books = await operator.get<BooksAnswer>(`${home}/books`);
    const done = books.accepted - books.in_flight;
    const bar = "█".repeat(Math.round((done / books.accepted) * 40)).padEnd(40, "░");
    progress.show(`  ${bar} ${done} of ${books.accepted}`);
    if (books.in_flight === 0) {
      progress.end();
      return books;
    }
  }
  progress.end();
  console.log(red(`  Not all are processed after ${SETTLE_MS / 1_000} s.`));
  return null;
}
