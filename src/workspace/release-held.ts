/** Release of held signals (design §6), with its entry in the audit log. */
import { auditEntry } from "../control/audit.ts";
import type { Change, ControlDatabase } from "../control/database.ts";
import { releaseHeld, type Released } from "../queue/release-and-replay.ts";
import { configureCounter } from "./configure-workspace.ts";

/** Releases as many held signals as now fit, and logs it if there were any. The next release finishes an interrupted one. */
export async function releaseForWorkspace(
  env: Env,
  db: ControlDatabase,
  workspaceId: string,
  by: Change,
): Promise<Released> {
  // A plan that was changed a moment ago may not have reached the counter.
  await configureCounter(env, db, workspaceId);
  const result = await releaseHeld(env, workspaceId);
  if (result.released > 0) {
    const detail = { released: result.released, still_held: result.stillHeld };
    await auditEntry(db, by, { workspaceId, action: "held.released", target: workspaceId, detail });
  }
  return result;
}
