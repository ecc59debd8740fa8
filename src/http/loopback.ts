/**
 * With local sign-in (`isLocal`), which has no passwords, the Worker answers only this machine, on every route: no requests from
 * elsewhere, no pages of other sites, no DNS rebinding.
 */
import type { Context } from "hono";
import { isLoopback } from "../domain/loopback.ts";
import type { AppEnv } from "../env.ts";
import { problem } from "./problem.ts";

/** Null: the request is local. */
export function rejectIfRemote(c: Context<AppEnv>): Response | null {
  const [host, origin] = [c.req.header("host"), c.req.header("origin")];
  const urls = [c.req.url, host === undefined ? [] : `http://${host}`, origin ?? []].flat();
  if (urls.every(isLoopback)) return null;
  return problem(c, {
    status: 403,
    code: "loopback_only",
    title: "Only for this machine",
    detail: "Local sign-in is on: calls and pages are answered at localhost, 127.0.0.1 and [::1] only.",
  });
}
