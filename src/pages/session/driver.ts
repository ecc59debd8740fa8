/** Which of the ways to sign in is on (design §10). */
import type { Context } from "hono";
import type { SignInDriver } from "../../control/schema.ts";
import type { PagesEnv } from "../pages-env.ts";

/** Null: sign-in is off, and so are the pages. Local sign-in asks for no proof: http/loopback.ts lets in this machine only. */
export function signInDriver(c: Context<PagesEnv>): SignInDriver | null {
  const configured: string = c.env.SIGN_IN;
  return configured === "access" || configured === "oidc" || configured === "local" ? configured : null;
}
