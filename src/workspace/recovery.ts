/**
 * A workspace whose Quota Counter was restored from a backup (design §2, §5): the Signal Store and D1 have gone on since
 * then. With its entry in the audit log.
 */
import { writeAuditEntry } from "../control/audit.ts";
import type { Change, ControlDatabase } from "../control/database.ts";
import { deactivatedKeyIds } from "../control/keys.ts";
import { quotaCounter, signalStore } from "./objects.ts";
import { configureWorkspaces } from "./quota.ts";

export interface Recovered {
  /** Outbox rows that have new numbers: with their old ones the store would refuse them. */
  renumbered: number;
  /** Deactivated keys that the counter took for active. */
  revoked: number;
}

/** Keys first: until they are known again, calls with them are accepted. Repeating it finishes what was interrupted. */
export async function recoverCounter(
  env: Env,
  db: ControlDatabase,
  workspaceId: string,
  by: Change,
): Promise<Recovered> {
  const counter = quotaCounter(env, workspaceId);
  const revoked = await counter.revokeAll(await deactivatedKeyIds(db, workspaceId), by.nowMs);
  // Plan and overages may have changed too, and a counter that has lost everything gets its ledger so.
  await configureWorkspaces(env, db, [workspaceId]);
  const renumbered = await counter.renumber(await signalStore(env, workspaceId).highestRow());
  const detail = { renumbered, revoked };
  await writeAuditEntry(db, by, { workspaceId, action: "workspace.recovered", target: workspaceId, detail });
  return detail;
}
