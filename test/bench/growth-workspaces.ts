/** Workspaces of a given size, made and filled before anything is measured. */
import path from "node:path";
import { OperatorApi } from "./operator-api.ts";
import type { BuiltWorker } from "./build.ts";
import { rulesOf } from "./growth-traffic.ts";
import type { FillOrder, WorkspaceSize } from "./growth-traffic.ts";
import { applySql, start } from "./start.ts";

export interface FilledWorkspace {
  size: WorkspaceSize;
  id: string;
  slug: string;
  key: string;
  order: FillOrder;
  /** Signals so far: the number of the next one. */
  sent: number;
}

/** The request rate must not end the bench; everything else is as deployed. */
export const VARS = {
  REQUEST_RATE_PER_SECOND: "1000000",
  REQUEST_BURST: "1000000",
  OPERATOR_TOKEN: "bench",
  SIGN_IN: "local",
};
const SIGNAL_LIMIT = 1_000_000_000;
const DAY_MS = 24 * 3_600_000;
/** The billing period, and the signals, began so long ago. */
const AGE_MS = 20 * DAY_MS;
/** In one call of the filler. */
const FILL_SIGNALS = 50_000;

/** In the state folder, for a service that is started on it afterwards. */
export async function fillWorkspaces(
  service: BuiltWorker,
  filler: BuiltWorker,
  stateDir: string,
  sizes: readonly WorkspaceSize[],
): Promise<FilledWorkspace[]> {
  const workspaces = await provision(service, stateDir, sizes);
  const running = await start({ ...filler, configPath: service.configPath }, { stateDir });
  try {
    for (const { order } of workspaces) {
      const { size } = order;
      for (let from = 0; from < size.signals; from += FILL_SIGNALS) {
        const body = JSON.stringify({ ...order, from, to: Math.min(from + FILL_SIGNALS, size.signals) });
        // A connection of its own: the runtime closes one that was idle for as long as a call takes.
        const response = await fetch(running.origin, { method: "POST", body, headers: { connection: "close" } });
        if (!response.ok) throw new Error(`the filler: ${response.status} ${await response.text()}`);
      }
    }
  } finally {
    await running.stop();
  }
  return workspaces;
}

async function provision(
  service: BuiltWorker,
  stateDir: string,
  sizes: readonly WorkspaceSize[],
): Promise<FilledWorkspace[]> {
  const running = await start(service, { stateDir, vars: VARS });
  try {
    await applySql(running, "DB", path.join(path.dirname(service.configPath), "migrations/d1"));
    const api = new OperatorApi(running.origin, VARS.OPERATOR_TOKEN);
    const endMs = Date.now();
    const startMs = endMs - AGE_MS;
    const anchor = new Date(startMs).toISOString();
    const workspaces: FilledWorkspace[] = [];
    for (const [index, size] of sizes.entries()) {
      const slug = `growth-${index}`;
      const made = await api.provision(SIGNAL_LIMIT, rulesOf(size.rules), slug, anchor);
      const { workspaceId, keyId, key } = made;
      const order = { workspaceId, keyId, size, from: 0, to: size.signals, startMs, endMs };
      workspaces.push({ size, id: workspaceId, slug, key, order, sent: size.signals });
    }
    return workspaces;
  } finally {
    await running.stop();
  }
}
