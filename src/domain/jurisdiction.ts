/**
 * The jurisdiction in which a deployment's Durable Objects run and store their data (docs/deploy.md). In another
 * jurisdiction the same name means another, empty object. So D1 records the jurisdiction of each workspace, and a
 * deployment with another value refuses to use the workspace.
 */
const JURISDICTIONS: readonly string[] = ["eu", "us"];

/** The deployment's variable does not fit its data. Nothing was read, stored or changed. */
export class JurisdictionError extends Error {}

/**
 * Why a deployment must not use a workspace; null: it may.
 *
 * @param configured the variable JURISDICTION. Empty: the platform chooses the place of each object.
 * @param recorded the jurisdiction of the workspace's objects, from D1. Empty: none.
 */
export function jurisdictionProblem(configured: string, recorded: string): string | null {
  const isSupported = configured === "" || JURISDICTIONS.includes(configured);
  if (configured === recorded && isSupported) return null;
  const named = JSON.stringify(configured);
  if (!isSupported) return `JURISDICTION is ${named}, which is none of "eu", "us" and "". Correct it.`;
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
