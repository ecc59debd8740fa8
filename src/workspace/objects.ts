/** The three Durable Objects of a workspace, as the operator API and the pages call them. Their name is the workspace's id. */
import type { DurableObject } from "cloudflare:workers";
import { errorText, logEvent } from "../platform/log.ts";
import { WATCHER_HEADER } from "../platform/watchers.ts";
import { hashAtOnce } from "../platform/hashes.ts";
import type { Destinations } from "../destinations/destinations.ts";
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

/**
 * A WebSocket on which the object tells what happens (see platform/watchers.ts): `signals` as they are recorded, or
 * `rejections`. The caller has made sure that whoever asks may watch this workspace.
 *
 * @param watcher their email.
 */
export function watchWorkspace(
  env: Env,
  workspaceId: string,
  what: "signals" | "rejections",
  watcher: string,
): Promise<Response> {
  const object = what === "signals" ? env.SIGNAL_STORE : env.QUOTA_COUNTER;
  // A request of our own: nothing of the caller's goes along.
  const headers = { upgrade: "websocket", [WATCHER_HEADER]: watcherOf(watcher) };
  return object.getByName(workspaceId).fetch("https://object/live", { headers });
}

/**
 * Ends what somebody watches who has been removed, or has signed out. Never throws: what cannot be reached ends the
 * connection by itself, after LIVE_SOCKET_MS.
 */
export async function endWatching(env: Env, workspaceIds: readonly string[], watcher: string): Promise<void> {
  const objects = workspaceIds.flatMap((id) => [env.SIGNAL_STORE.getByName(id), env.QUOTA_COUNTER.getByName(id)]);
  const ended = await Promise.allSettled(objects.map((object) => object.endWatching(watcherOf(watcher))));
  for (const one of ended) {
    if (one.status === "rejected") logEvent("live_failed", { error: errorText(one.reason) });
  }
}

/** A connection is found by a short text of plain characters, which an email need not be. */
function watcherOf(email: string): string {
  return hashAtOnce(email).digest("hex");
}
