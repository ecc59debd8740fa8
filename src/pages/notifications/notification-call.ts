/** What the notifications' handlers hand to the use cases. */
import type { Context } from "hono";
import type { DestinationProblem, DestinationsContext } from "../../workspace/manage-destinations.ts";
import { contextOf, type PagesEnv, workspacePath } from "../pages-env.ts";
import { isTargetProblem, problemSaid } from "./notification-copy.ts";
import type { DestinationErrors } from "./notification-form.ts";

export function destinationsCall(c: Context<PagesEnv>): DestinationsContext {
  return { ...contextOf(c), slug: c.get("workspace").slug, origin: new URL(c.req.url).origin };
}

/** Path of the notifications, `/w/{slug}/settings/notifications`. */
export function notificationsPath(c: Context<PagesEnv>): string {
  return `${workspacePath(c)}/settings/notifications`;
}

/** The problem as an error at the field that it is about. */
export function toErrors(problem: DestinationProblem): DestinationErrors {
  return { [isTargetProblem(problem) ? "target" : "form"]: problemSaid(problem) };
}
