/**
 * Local sign-in has no passwords, so the Worker answers only this machine, on every route: no requests from elsewhere,
 * no pages of other sites, no DNS rebinding.
 */
import type { Context, MiddlewareHandler } from "hono";
import { type AppEnv, isLocal } from "../env.ts";
import { problem } from "./problem.ts";

export const onlyFromThisMachine: MiddlewareHandler<AppEnv> = async (c, next) => refuseIfRemote(c) ?? (await next());

/** Null: the request is local. */
export function refuseIfRemote(c: Context<AppEnv>): Response | null {
  if (!isLocal(c.env)) return null;
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

/** Written as the URL parser writes them. Other notations, such as `localhost.`, count as elsewhere. */
const LOOPBACK_HOSTS = new Set(["localhost", "127.0.0.1", "[::1]"]);

export function isLoopback(url: string): boolean {
  return LOOPBACK_HOSTS.has(URL.parse(url)?.hostname ?? "");
}
