/** `npm run dev -- --sample`: three weeks of believable signals in the demo workspace, to look at. */
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { setClock, WORKER_WITH_CLOCK } from "./worker-clock.ts";
import { createKeys } from "./demo/provision.ts";
import { sendThreeWeeks } from "./demo/three-weeks.ts";
import { beginOf } from "./demo/weeks.ts";
import { DEMO_SLUG, seedDemoWorkspace } from "./demo-workspace.ts";
import { OperatorClient, type WorkspaceAnswer } from "./operator-client.ts";
import { PROJECT_DIR, startService } from "./local-service.ts";
import { Progress } from "./terminal.ts";

/**
 * Fills the state once: where the workspace is there already, nothing is added.
 *
 * @returns false where the workspace was there.
 */
export async function fillSample(stateDir: string, token: string, signal: AbortSignal): Promise<boolean> {
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
