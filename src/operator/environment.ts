/** The context of operator handlers. */
import type { Context } from "hono";
import { createFactory } from "hono/factory";
import type { Change, ControlDatabase } from "../control/database.ts";
import type { Workspace } from "../control/workspaces.ts";
import type { AppEnv } from "../env.ts";
import { signalStore, type WorkspaceContext } from "../workspace/objects.ts";

export interface OperatorEnv extends AppEnv {
  Variables: AppEnv["Variables"] & {
    db: ControlDatabase;
    /** The actor and time of this call, for the audit log. */
    by: Change;
    /** Set on every path below /workspaces/{workspace_id}. */
    workspace: Workspace;
  };
}

export const operator = createFactory<OperatorEnv>();

export function contextOf(c: Context<OperatorEnv>): WorkspaceContext {
  const { db, workspace, by } = c.var;
  return { env: c.env, db, workspaceId: workspace.id, by };
}

/** The Signal Store of the workspace of the path. */
export function storeOf(c: Context<OperatorEnv>) {
  return signalStore(c.env, c.var.workspace.id);
}
