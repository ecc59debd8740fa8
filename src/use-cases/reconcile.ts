/**
 * Makes D1, the objects and R2 of a workspace agree again. Operators call it after D1 was restored to an earlier moment, or an
 * object or the bucket was lost (docs/operate.md, "What survives what"). A healthy workspace does not change. Every step may be
 * repeated.
 */
import { deactivatedKeyIds, deactivateCountersKeys } from "../d1/api-keys.ts";
import { auditEntry } from "../d1/audit.ts";
import { raiseVersionsAbove } from "../d1/rule-changes.ts";
import { raiseConfigVersion } from "../d1/workspaces.ts";
import { configureCounter } from "./configure-workspace.ts";
import { quotaCounter, signalStore, type WorkspaceContext } from "./objects.ts";

interface Reconciled {
  /** Keys that the Quota Counter knew as deactivated, and D1 as active; and the reverse. */
  keysDeactivated: number;
  /** Whether D1 had an older configuration than the counter, and received a later version. */
  configVersionRaised: boolean;
  /** Whether D1's rules were older than rules that the store has seen, and received later versions. */
  ruleVersionsRaised: boolean;
  /** Signals whose payload is missing in R2, and is now marked as lost. */
  payloadsLost: number;
}

/** @throws if an object, D1 or R2 does not answer; the call can be repeated. */
export async function reconcile(context: WorkspaceContext): Promise<Reconciled> {
  const { env, db, workspaceId, by } = context;
  const [counter, store] = [quotaCounter(env, workspaceId), signalStore(env, workspaceId)];
  // Deactivated keys come first: until the counter knows them, it accepts calls with them.
  const counterKeys = await counter.deactivateAll(await deactivatedKeyIds(db, workspaceId));
  const deactivated = await deactivateCountersKeys(db, workspaceId, counterKeys.keys);
  const seen = await counter.configVersion();
  const configVersionRaised = await raiseConfigVersion(db, workspaceId, seen);
  await configureCounter(env, db, workspaceId, seen);
  const ruleVersionsRaised = await raiseVersionsAbove(db, workspaceId, await store.ruleVersions());
  const payloadsLost = await store.markLostPayloads();
  const keysDeactivated = counterKeys.added + deactivated;
  const result: Reconciled = { keysDeactivated, configVersionRaised, ruleVersionsRaised, payloadsLost };
  const isChange = keysDeactivated + payloadsLost > 0 || configVersionRaised || ruleVersionsRaised;
  if (isChange) {
    const detail = { ...result };
    await auditEntry(db, by, { workspaceId, action: "workspace.reconciled", target: workspaceId, detail });
  }
  return result;
}
