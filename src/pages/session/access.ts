/**
 * Sign-in by Cloudflare Access: it stands in front of the pages, keeps the sessions, and vouches for the email with each
 * request. The runtime sets `ctx.access` only on requests that have passed it.
 */
import type { Context } from "hono";
import { memberEmail } from "../../domain/signal/identity.ts";
import type { PagesEnv } from "../pages-env.ts";

/** The path at which Access ends its session. */
export const ACCESS_SIGN_OUT = "/cdn-cgi/access/logout";

/**
 * The email that Access vouches for. Null: the request did not come through the application that ACCESS_AUD names (another
 * one of the account may let anybody in), or it came by a service token, which is no person.
 */
export async function accessEmail(c: Context<PagesEnv>): Promise<string | null> {
  const { access } = c.executionCtx as ExecutionContext;
  if (access === undefined || c.env.ACCESS_AUD === "" || access.aud !== c.env.ACCESS_AUD) return null;
  const identity = await access.getIdentity();
  return memberEmail(identity?.email) ?? null;
}
