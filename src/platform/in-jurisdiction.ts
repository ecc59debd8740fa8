import { DurableObject } from "cloudflare:workers";

/**
 * Empty: no restriction. An object uses its own jurisdiction instead of JURISDICTION, so it finds its workspace's
 * objects.
 */
export function inJurisdiction(env: Env, jurisdiction: string): Env {
  if (jurisdiction === "") return env;
  const restricted = <T extends Rpc.DurableObjectBranded>(all: DurableObjectNamespace<T>): PropertyDescriptor => ({
    // Only on use: the platform throws if it does not have the jurisdiction.
    get: () => all.jurisdiction(jurisdiction as DurableObjectJurisdiction),
    enumerable: true,
  });
  return Object.create(env, {
    QUOTA_COUNTER: restricted(env.QUOTA_COUNTER),
    SIGNAL_STORE: restricted(env.SIGNAL_STORE),
    DESTINATIONS: restricted(env.DESTINATIONS),
  }) as Env;
}

/** The base class of a workspace's objects. They use `this.env`, which is in the object's own jurisdiction. */
export class WorkspaceObject extends DurableObject<Env> {
  constructor(ctx: DurableObjectState, bindings: Env) {
    super(ctx, inJurisdiction(bindings, ctx.id.jurisdiction ?? ""));
  }
}
