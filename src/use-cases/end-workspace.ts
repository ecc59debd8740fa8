/** Ends a workspace. The Quota Counter comes first, and then does the rest alone (quota/end-of-workspace.ts). */
import type { EndCounts } from "../d1/database.ts";
import { type EndReceipt, findEnd } from "../d1/ended-workspaces.ts";
import type { Workspace } from "../d1/workspaces.ts";
import { ok, reject, type Result } from "../domain/result.ts";
import { quotaCounter, type WorkspaceContext } from "./objects.ts";

type ShownEnd = Omit<EndReceipt, "counts"> & EndCounts & { complete: boolean };

/**
 * When it returns, no call is accepted with a key of the workspace. Idempotent.
 *
 * @param slug of the workspace, so that nobody ends another one by mistake.
 * @throws if D1 could not note the end yet. It goes on, and the call can be repeated.
 */
export async function requestEnd(
  context: WorkspaceContext,
  slug: string,
  workspace: Workspace,
): Promise<Result<ShownEnd, "slug_differs" | "not_found">> {
  const { env, workspaceId, by } = context;
  const before = await endOfWorkspace(context);
  if (slug !== (before ?? workspace).slug)
    return reject(workspace.state === "ended" && before === null ? "not_found" : "slug_differs");
  if (before?.complete === true) return ok(before);
  await quotaCounter(env, workspaceId).end({ requestedAtMs: by.nowMs, actor: by.actor });
  const receipt = await endOfWorkspace(context);
  if (receipt === null) throw new Error("the end of the workspace has begun, but D1 did not note it yet");
  return ok(receipt);
}

/** The receipt, also while the end is in progress; null: there is none, or not any more. */
export async function endOfWorkspace({ db, workspaceId, by }: WorkspaceContext): Promise<ShownEnd | null> {
  const found = await findEnd(db, workspaceId, by.nowMs);
  if (found === null) return null;
  const { counts, ...receipt } = found;
  return { ...receipt, ...counts, complete: receipt.finishedAt !== null };
}
