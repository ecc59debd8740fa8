/** The built service on Miniflare, with one workspace and its members. */
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { buildOnce } from "../../bench/build.ts";
import { OperatorApi } from "../../bench/operator-api.ts";
import { applySql, start } from "../../bench/start.ts";
import type { RunningWorker, StartOptions } from "../../bench/start.ts";

const ROOT = path.resolve(import.meta.dirname, "../../..");
const TOKEN = "sign-in-operator";
const scratch = mkdtempSync(path.join(os.tmpdir(), "signal-ingestion-sign-in-"));
let started = 0;

export interface Service extends RunningWorker {
  operator: OperatorApi;
  workspaceId: string;
}

/** Its workspace is `/w/acme`. */
export async function startService(options: Omit<StartOptions, "stateDir">): Promise<Service> {
  const built = await buildOnce(path.join(ROOT, "wrangler.toml"));
  const stateDir = path.join(scratch, `state-${started++}`);
  const vars = { OPERATOR_TOKEN: TOKEN, ...options.vars };
  const running = await start(built, { ...options, stateDir, vars });
  await applySql(running, "DB", path.join(ROOT, "migrations/d1"));
  const operator = new OperatorApi(running.origin, TOKEN);
  const { workspaceId } = await operator.provision(1_000, [], "acme");
  for (const [email, role] of [
    ["owner@acme.example", "owner"],
    ["member@acme.example", "member"],
  ]) {
    await operator.call("POST", `workspaces/${workspaceId}/members`, { email, role });
  }
  return { ...running, operator, workspaceId };
}

export function removeScratch(): void {
  rmSync(scratch, { recursive: true, force: true });
}
