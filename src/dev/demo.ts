/**
 * `npm run demo`: the main use on real input. It starts the service with a fresh state and sends some hundred signals
 * like real senders. After their processing it prints the scores and the notifications that a receiver got. The exit
 * code is 0 only if everything is as expected. `--keep` leaves the service running, to look at its pages. `--origin URL` proves the
 * promises at a running deployment instead (demo/proof.ts).
 */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  customerDataPlatforms,
  history,
  imports,
  BEYOND_LIMIT,
  beyondTheLimit,
  crmWorkflows,
  marketing,
  mistakes,
  LEADS,
  send,
} from "./demo/senders.ts";
import { excludePerson } from "./demo/exclusion.ts";
import { proveDeployment } from "./demo/proof.ts";
import { startReceiver, report } from "./demo/report.ts";
import { createDemoWorkspace } from "./demo-workspace.ts";
import { deploymentAt } from "./deployment.ts";
import { untilProcessed, OperatorClient } from "./operator-client.ts";
import {
  applyMigrations,
  readOptions,
  runCommand,
  startService,
  untilInterrupted,
  type Service,
} from "./local-service.ts";
import { bold, dim } from "./terminal.ts";

const USAGE = `Usage: npm run demo [-- --keep]           on this machine; --keep leaves the service running
       npm run demo -- --origin URL      at a deployment, with its operator token in OPERATOR_TOKEN`;

await runCommand(run);
// Calls may still be waiting for answers, which are no longer needed.
process.exit();

async function run(signal: AbortSignal): Promise<number> {
  const options = { keep: { type: "boolean", default: false }, origin: { type: "string" } } as const;
  const { keep, origin } = readOptions({ options }, USAGE).values;
  if (origin !== undefined) return (await proveDeployment(deploymentAt(origin), signal)) ? 0 : 1;
  const stateDir = await mkdtemp(path.join(tmpdir(), "signal-demo-"));
  let service: Service | undefined;
  let succeeded = false;
  try {
    const token = randomBytes(24).toString("base64url");
    console.log(bold("Starting the service with an empty state …"));
    const vars = path.join(stateDir, "demo.vars");
    await writeFile(vars, `OPERATOR_TOKEN=${token}\n`);
    await applyMigrations(stateDir, signal);
    // With local sign-in the service treats this machine as a developer's, and sends to a receiver on it.
    const args = ["--inspector-port", "0", "--env-file", vars, "--var", "SIGN_IN:local"];
    service = await startService({ stateDir, port: "0", args, signal });
    console.log(`It runs at ${service.origin}.`);
    const ended = untilInterrupted(service, signal).then(() => false);
    succeeded = await Promise.race([sendAndReport(service.origin, token), ended]);
    signal.throwIfAborted();
    if (keep) {
      console.log(`\nThe pages: ${service.origin}/w/demo (choose a member, no password). Ctrl-C ends it.`);
      await ended;
    }
    return succeeded ? 0 : 1;
  } finally {
    if (!succeeded && !signal.aborted && service !== undefined) {
      console.log(dim(`\nOutput of the service:\n${service.output()}`));
    }
    await service?.stop();
    await rm(stateDir, { recursive: true, force: true });
  }
}

async function sendAndReport(origin: string, token: string): Promise<boolean> {
  const startedMs = Date.now();
  const operator = new OperatorClient(origin, token);
  const { workspace, keys, rules } = await createDemoWorkspace(operator);
  console.log(`Workspace ${workspace.id}: 4 keys (one of them deactivated), ${rules} mapping rules.`);
  const home = `workspaces/${workspace.id}`;

  const senders = [marketing, crmWorkflows, customerDataPlatforms, history, imports, mistakes].map((sender) =>
    sender(keys),
  );
  const last = beyondTheLimit(keys);
  // The plan's limit fits all kept signals except the last BEYOND_LIMIT.
  const kept = [...senders, last]
    .flatMap(({ deliveries }) => deliveries)
    .reduce((sum, delivery) => sum + delivery.kept, 0);
  await operator.call("PUT", "plans/demo", { name: "Demo", signal_limit: kept - BEYOND_LIMIT, paid: true });

  await using receiver = await startReceiver(operator, home);
  const sent = await send(origin, [...senders, last]);
  console.log(`\n${bold("Waiting until all are processed …")}`);
  await untilProcessed(operator, home);
  // Somebody who crosses no threshold.
  const isGood = await excludePerson(operator, home, LEADS[2]?.email ?? "");
  return (await report(operator, home, { ...sent, signalLimit: kept - BEYOND_LIMIT, startedMs }, receiver)) && isGood;
}
