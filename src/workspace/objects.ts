/** The three Durable Objects of a workspace, as the operator API and the pages call them. Their name is the workspace's id. */
import type { DurableObject } from "cloudflare:workers";
import type { Destinations } from "../notifications/destinations.ts";
import type { QuotaCounter } from "../quota/quota-counter.ts";
import type { SignalStore } from "../store/signal-store.ts";

/**
 * The methods of an object as remote calls. The platform's own types of them turn payloads, which are `unknown`, into
 * `never`; it is left to the methods to return nothing but plain data.
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
