/** What operator handlers find in their context besides the request: the control plane and the workspace of the path. */
import type { Context } from "hono";
import { createFactory } from "hono/factory";
import type { ControlDatabase } from "../control/database.ts";
import type { Workspace } from "../control/workspaces.ts";
import type { AppEnv } from "../env.ts";
import { problem, type Problem } from "../http/problem.ts";

export interface OperatorEnv extends AppEnv {
  Variables: AppEnv["Variables"] & {
    db: ControlDatabase;
    /** Set on every path below /workspaces/{workspace_id}. */
    workspace: Workspace;
  };
}

export const operator = createFactory<OperatorEnv>();

/** `problem` for operator handlers: their context has all that it needs, but no two context types are compatible. */
export function refused(c: Context<OperatorEnv>, details: Problem): Response {
  return problem(c as unknown as Context<AppEnv>, details);
}

/** Who the audit log says it was. */
export function byOperator(): { actor: string; nowMs: number } {
  return { actor: "operator", nowMs: Date.now() };
}
