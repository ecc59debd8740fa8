/**
 * The jurisdiction in which a deployment's Durable Objects run and store their data (docs/deploy.md). In another
 * jurisdiction the same name means another, empty object. So D1 records the jurisdiction of each workspace, and a
 * deployment with another value refuses to use the workspace.
 */
const JURISDICTIONS = ["eu", "us"] as const;

/** The deployment's variable does not fit its data. Nothing was read, stored or changed. */
export class JurisdictionError extends Error {}

function isJurisdiction(value: string): value is (typeof JURISDICTIONS)[number] {
  return (JURISDICTIONS as readonly string[]).includes(value);
}

/**
 * Why a deployment must not use a workspace; null: it may.
 *
 * @param configured the variable JURISDICTION. Empty: the platform chooses the place of each object.
 * @param recorded the jurisdiction of the workspace's objects, from D1. Empty: none.
 */
export function jurisdictionProblem(configured: string, recorded: string): string | null {
  if (configured === recorded && (configured === "" || isJurisdiction(configured))) return null;
  const named = JSON.stringify(configured);
  if (configured !== "" && !isJurisdiction(configured)) {
    return `JURISDICTION is ${named}, which is none of "eu", "us" and "". Correct it.`;
  }
  const data = recorded === "" ? "in no jurisdiction" : `in "${recorded}"`;
  return (
    `JURISDICTION is ${named}, but this deployment's data is ${data}. Set JURISDICTION = ${JSON.stringify(recorded)} ` +
    "again: with another value the service would find other, empty objects."
  );
}

/** @throws JurisdictionError if the deployment must not use a workspace with this jurisdiction. */
export function requireJurisdiction(configured: string, recorded: string): void {
  const problem = jurisdictionProblem(configured, recorded);
  if (problem !== null) throw new JurisdictionError(problem);
}

/**
 * Returns `env` with the Durable Objects of this jurisdiction only. The Worker uses JURISDICTION. An object uses its own
 * jurisdiction, so that it finds the other objects of its workspace whatever JURISDICTION is.
 */
export function inJurisdiction(env: Env, jurisdiction: string): Env {
  if (jurisdiction === "") return env;
  const restricted = <T extends Rpc.DurableObjectBranded>(
    name: string,
    all: DurableObjectNamespace<T>,
  ): PropertyDescriptorMap => ({
    // Only on use: the platform throws on a jurisdiction that it does not have, and most requests use one class.
    [name]: { get: () => all.jurisdiction(supported(jurisdiction)), enumerable: true },
  });
  return Object.create(env, {
    ...restricted("QUOTA_COUNTER", env.QUOTA_COUNTER),
    ...restricted("SIGNAL_STORE", env.SIGNAL_STORE),
    ...restricted("DESTINATIONS", env.DESTINATIONS),
  }) as Env;
}

function supported(jurisdiction: string): (typeof JURISDICTIONS)[number] {
  if (isJurisdiction(jurisdiction)) return jurisdiction;
  throw new JurisdictionError(jurisdictionProblem(jurisdiction, "") ?? "");
}
