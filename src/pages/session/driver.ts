/** Which of the ways to sign in is on (design §10), and whether a request comes from this machine. */
import type { Context } from "hono";
import type { SignInDriver } from "../../control/schema.ts";
import type { PagesEnv } from "../environment.ts";

/** Null: none, so that there are no pages. Local sign-in asks nobody for a proof: it never exists beyond this machine. */
export function signInDriver(c: Context<PagesEnv>): SignInDriver | null {
  const configured: string = c.env.SIGN_IN;
  switch (configured) {
    case "access":
    case "oidc":
      return configured;
    case "local":
      return isLoopback(c.req.url) ? configured : null;
    default:
      return null;
  }
}

/** The parser has read the host as browsers do; anything but these three, such as `localhost.`, is somewhere else. */
const LOOPBACK_HOSTS = new Set(["localhost", "127.0.0.1", "[::1]"]);

export function isLoopback(url: string): boolean {
  return LOOPBACK_HOSTS.has(new URL(url).hostname);
}
