/** The context of operator handlers: the control plane, and the workspace of the path. */
import { createFactory } from "hono/factory";
import type { ControlDatabase } from "../control/database.ts";
import type { Workspace } from "../control/workspaces.ts";
import type { AppEnv } from "../env.ts";

export interface OperatorEnv extends AppEnv {
  Variables: AppEnv["Variables"] & {
    db: ControlDatabase;
    /** Set on every path below /workspaces/{workspace_id}. */
    workspace: Workspace;
  };
}

export const operator = createFactory<OperatorEnv>();

/** Actor in the audit log. */
export function byOperator(): { actor: string; nowMs: number } {
  return { actor: "operator", nowMs: Date.now() };
}
