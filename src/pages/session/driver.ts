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
      return isHere(c) ? configured : null;
    default:
      return null;
  }
}

/**
 * By the address and by the header, which a local proxy may tell apart. Whoever reaches this machine's port chooses both;
 * so `npm run dev` turns local sign-in on only where nobody else reaches it, and no other site's page gets past guard.ts.
 */
function isHere(c: Context<PagesEnv>): boolean {
  const host = c.req.header("host");
  return isLoopback(c.req.url) && (host === undefined || isLoopback(`http://${host}`));
}

/** The parser has read the host as browsers do; anything but these three, such as `localhost.`, is somewhere else. */
const LOOPBACK_HOSTS = new Set(["localhost", "127.0.0.1", "[::1]"]);

export function isLoopback(url: string): boolean {
  return LOOPBACK_HOSTS.has(URL.parse(url)?.hostname ?? "");
}
