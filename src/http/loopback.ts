/**
 * With local sign-in nobody is asked for a proof, so nobody but this machine is answered, on no route: not who reaches its
 * port from elsewhere, and no page of another site in a developer's browser, by whatever name that has made of this
 * machine (DNS rebinding).
 */
import type { Context, MiddlewareHandler } from "hono";
import type { AppEnv } from "../env.ts";
import { problem } from "./problem.ts";

export const onlyFromHere: MiddlewareHandler<AppEnv> = async (c, next) => refuseElsewhere(c) ?? (await next());

/** The refusal of a request from elsewhere; null: the request may go on. */
export function refuseElsewhere(c: Context<AppEnv>): Response | null {
  if (c.env.SIGN_IN !== "local") return null;
  const [host, origin] = [c.req.header("host"), c.req.header("origin")];
  const said = [c.req.url, host === undefined ? [] : `http://${host}`, origin ?? []].flat();
  if (said.every(isLoopback)) return null;
  return problem(c, {
    status: 403,
    code: "loopback_only",
    title: "Only for this machine",
    detail: "Local sign-in is on: calls and pages are answered at localhost, 127.0.0.1 and [::1] only.",
  });
}

/** Hosts of this machine, as the URL parser writes them; anything else, such as `localhost.`, is somewhere else. */
const LOOPBACK_HOSTS = new Set(["localhost", "127.0.0.1", "[::1]"]);

export function isLoopback(url: string): boolean {
  return LOOPBACK_HOSTS.has(URL.parse(url)?.hostname ?? "");
}
