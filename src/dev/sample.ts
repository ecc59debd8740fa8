/** `npm run dev -- --sample`: three weeks of believable signals in the demo workspace, to look at. */
import { setTimeout as sleep } from "node:timers/promises";
import { setClock, WORKER_WITH_CLOCK } from "./clock.ts";
import { imports } from "./demo/imports.ts";
import { mistakes } from "./demo/mistakes.ts";
import { createKeys } from "./demo/provision.ts";
import { beginOf, weeks } from "./demo/weeks.ts";
import { DEMO_SLUG, seedDemoWorkspace } from "./demo-workspace.ts";
import { OperatorClient, type Books, type Workspace } from "./operator-client.ts";
import { startService } from "./service.ts";
import { Progress } from "./terminal.ts";

const SETTLE_MS = 30_000;

/**
 * Fills the state once: with the workspace there already, nothing is added.
 *
 * @returns false where it was there.
 */
export async function fillSample(stateDir: string, token: string, signal: AbortSignal): Promise<boolean> {
  const args = ["--inspector-port", "0"];
  const service = await startService({ stateDir, port: "0", args, signal, entry: WORKER_WITH_CLOCK });
  try {
    const operator = new OperatorClient(service.origin, token);
    const workspaces = await operator.list<Workspace>("workspaces");
    if (workspaces.some(({ slug }) => slug === DEMO_SLUG)) return false;
    const nowMs = Date.now();
    await setClock(service.origin, beginOf(nowMs));
    const { workspace_id: id, key } = await seedDemoWorkspace(operator, stateDir);
    const home = `workspaces/${id}`;
    const keys = { ...(await createKeys(operator, home)), campaigns: key };
    const send = async ({ path, ...call }: { path: string; body: string | Uint8Array<ArrayBuffer> }) => {
      signal.throwIfAborted();
      const answer = await fetch(service.origin + path, { method: "POST", ...call });
      await answer.body?.cancel();
    };
    const progress = new Progress();
    const hours = weeks(nowMs, keys);
    for (const [index, { atMs, calls }] of hours.entries()) {
      progress.show(`Sending three weeks of signals: ${Math.round((100 * index) / hours.length)} %`);
      await setClock(service.origin, atMs);
      for (const call of calls) await send(call);
      await settle(operator, home);
    }
    await setClock(service.origin, nowMs - 3_600_000);
    const others = [imports, mistakes].flatMap((sender) => sender(keys).deliveries);
    for (const call of others.flatMap(({ calls }) => calls)) await send(call);
    await settle(operator, home);
    progress.show("Sending three weeks of signals: done");
    progress.end();
    return true;
  } finally {
    await service.stop();
  }
}

async function settle(operator: OperatorClient, home: string): Promise<void> {
  for (const untilMs = Date.now() + SETTLE_MS; Date.now() < untilMs; await sleep(50)) {
    if ((await operator.get<Books>(`${home}/books`)).in_flight === 0) return;
  }
  throw new Error("The sample's signals are still in flight.");
}
