/** The context of operator handlers. */
import { createFactory } from "hono/factory";
import type { Change, ControlDatabase } from "../control/database.ts";
import type { Workspace } from "../control/workspaces.ts";
import type { AppEnv } from "../env.ts";

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
