/** What the notifications' handlers hand to the use cases. */
import type { Context } from "hono";
import type { DestinationProblem, DestinationsCall } from "../../workspace/manage-destinations.ts";
import { byMember, type PagesEnv, workspacePath } from "../pages-env.ts";
import { isTargetProblem, problemSaid } from "./notification-copy.ts";
import type { DestinationErrors } from "./notification-form.ts";

export function destinationsCall(c: Context<PagesEnv>): DestinationsCall {
  const { origin } = new URL(c.req.url);
  return { env: c.env, db: c.get("db"), workspace: c.get("workspace"), origin, by: byMember(c) };
}

/** Path of the notifications, `/w/{slug}/settings/notifications`. */
export function notificationsPath(c: Context<PagesEnv>): string {
  return `${workspacePath(c)}/settings/notifications`;
}

/** The problem as an error at the field that it is about. */
export function toErrors(problem: DestinationProblem): DestinationErrors {
  return { [isTargetProblem(problem) ? "target" : "form"]: problemSaid(problem) };
}
