/** Stubs of a workspace's three Durable Objects. The workspace's id is their name. */
import type { DurableObject } from "cloudflare:workers";
import type { ControlContext } from "../d1/database.ts";
import type { Destinations } from "../notifications/destinations.ts";
import type { QuotaCounter } from "../quota/quota-counter.ts";
import type { SignalStore } from "../store/signal-store.ts";

/** A `ControlContext` with the bindings, for changes that concern Durable Objects too. */
export interface WorkspaceContext extends ControlContext {
  env: Env;
}

/**
 * Methods of an object as remote calls. The platform's own types turn payloads, which are `unknown`, into `never`.
 * The methods themselves must return plain data only.
 */
type Calls<T> = {
  [Name in Exclude<keyof T, keyof DurableObject>]: T[Name] extends (...args: infer Args) => infer Result
    ? (...args: Args) => Promise<Awaited<Result>>
    : never;
};

function callsOf<T extends Rpc.DurableObjectBranded>(
  objects: DurableObjectNamespace<T>,
  workspaceId: string,
): Calls<T> {
  const stub: object = objects.getByName(workspaceId);
  return stub as Calls<T>;
}

export function quotaCounter(env: Env, workspaceId: string): Calls<QuotaCounter> {
  return callsOf(env.QUOTA_COUNTER, workspaceId);
}

export function destinationsOf(env: Env, workspaceId: string): Calls<Destinations> {
  return callsOf(env.DESTINATIONS, workspaceId);
}

export function signalStore(env: Env, workspaceId: string): Calls<SignalStore> {
  return callsOf(env.SIGNAL_STORE, workspaceId);
}
