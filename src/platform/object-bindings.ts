/** The Durable Objects of one jurisdiction. */

/**
 * Returns `env` with only the Durable Objects of one jurisdiction; empty: `env` itself. The Worker uses JURISDICTION. An
 * object uses its own jurisdiction, so that it finds the other objects of its workspace whatever JURISDICTION is.
 */
export function inJurisdiction(env: Env, jurisdiction: string): Env {
  if (jurisdiction === "") return env;
  const restricted = <T extends Rpc.DurableObjectBranded>(all: DurableObjectNamespace<T>): PropertyDescriptor => ({
    // Only on use: the platform throws if it does not have the jurisdiction, and most requests use one class.
    get: () => all.jurisdiction(jurisdiction as DurableObjectJurisdiction),
    enumerable: true,
  });
  return Object.create(env, {
    QUOTA_COUNTER: restricted(env.QUOTA_COUNTER),
    SIGNAL_STORE: restricted(env.SIGNAL_STORE),
    DESTINATIONS: restricted(env.DESTINATIONS),
  }) as Env;
}
