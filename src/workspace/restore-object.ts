/** Takes one of a workspace's two objects back to how it was; docs/operate.md has what the books say afterwards. */
import { writeAuditEntry } from "../control/audit.ts";
import type { Change, ControlDatabase } from "../control/database.ts";
import { ok, refuse, type Result } from "../domain/result.ts";
import { errorText, logEvent } from "../platform/log.ts";
import type { PointInTime } from "../platform/point-in-time.ts";
import { quotaCounter, signalStore } from "./objects.ts";

export const RESTORABLE = ["quota_counter", "signal_store"] as const;
export type Restorable = (typeof RESTORABLE)[number];

/** @returns a bookmark by which the restoration is undone, or why the platform cannot restore. */
export async function restoreObject(
  env: Env,
  db: ControlDatabase,
  workspaceId: string,
  which: Restorable,
  point: PointInTime,
  by: Change,
): Promise<Result<{ undo: string }, string>> {
  const object = which === "quota_counter" ? quotaCounter(env, workspaceId) : signalStore(env, workspaceId);
  let undo: string;
  try {
    undo = await object.restoreAtNextStart(point);
  } catch (error) {
    return refuse(error instanceof Error ? error.message : String(error));
  }
  await writeAuditEntry(db, by, {
    workspaceId,
    action: "workspace.restored",
    target: which,
    detail: { ...point, undo },
  });
  // It ends this very call: that it fails is what shows that the object starts anew.
  await object
    .startAnew()
    .catch((error: unknown) =>
      logEvent("restored", { workspace: workspaceId, object: which, error: errorText(error) }),
    );
  return ok({ undo });
}
