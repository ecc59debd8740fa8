/** The built service on Miniflare with a relay in front of it, and a workspace for each test. */
import path from "node:path";
import { expect } from "vitest";
import type { BuiltWorker } from "../../bench/build.ts";
import { OperatorApi } from "../../bench/operator-api.ts";
import type { BenchRule } from "../../bench/rules.ts";
import { applySql, start } from "../../bench/start.ts";
import { relay } from "./relay.ts";
import type { Call } from "./relay.ts";
import type { Sender, Vendor } from "./senders.ts";

export const ROOT = path.resolve(import.meta.dirname, "../../..");
const TOKEN = "sdk-operator";
const SIGNAL_LIMIT = 1_000_000;

export interface Service {
  newWorkspace(rules?: BenchRule[]): Promise<Workspace>;
  stop(): Promise<void>;
}

export interface Workspace {
  /** The endpoint for batches of its key. */
  url: string;
  newSender(vendor: Vendor): Sender;
  /** Calls with its key and their answers so far. */
  calls(): Call[];
  get<T>(route: string): Promise<T>;
  deactivateKey(): Promise<void>;
  /** Waits until `accepted` signals are accepted, all are processed, and the books balance. */
  settled(accepted: number): Promise<void>;
}

export async function startService(
  built: BuiltWorker,
  stateDir: string,
  vars: Record<string, string> = {},
): Promise<Service> {
  const running = await start(built, { stateDir, vars: { OPERATOR_TOKEN: TOKEN, ...vars } });
  await applySql(running, "DB", path.join(ROOT, "migrations/d1"));
  const between = await relay(running.origin);
  const operator = new OperatorApi(running.origin, TOKEN);
  let workspaces = 0;
  return {
    async newWorkspace(rules = []) {
      const { workspaceId, key } = await operator.provision(SIGNAL_LIMIT, rules, `sdk-${workspaces++}`);
      const route = `workspaces/${workspaceId}`;
      const keyPath = `/api/signal-staging/webhook/${key}/batch`;
      const get = async <T>(resource: string) => (await operator.call("GET", `${route}${resource}`)) as T;
      return {
        url: `${between.origin}${keyPath}`,
        newSender: (vendor) => vendor.newSender(between.origin, keyPath),
        calls: () => between.calls.filter((call) => call.path === keyPath),
        get,
        async deactivateKey() {
          const { items } = await get<{ items: { id: string }[] }>("/keys");
          await operator.call("POST", `${route}/keys/${items[0]?.id}/deactivate`);
        },
        async settled(accepted) {
          await expect
            .poll(() => operator.books(workspaceId))
            .toEqual({ accepted, processed: accepted, in_flight: 0, balanced: true });
        },
      };
    },
    async stop() {
      between.close();
      await running.stop();
    },
  };
}
