/**
 * Sign-in by Cloudflare Access: it stands in front of the pages, keeps the sessions, and vouches for the email with each
 * request. The runtime sets `ctx.access` only on requests that have passed it.
 */
import type { Context } from "hono";
import { memberEmail } from "../../domain/signal/identity.ts";
import type { PagesEnv } from "../environment.ts";

/** Where Access ends its session. */
export const ACCESS_SIGN_OUT = "/cdn-cgi/access/logout";

/**
 * Null: the request did not come through the Access application that ACCESS_AUD names, or by a service token, which is no
 * person. Another application of the account may let anybody in.
 */
export async function accessEmail(c: Context<PagesEnv>): Promise<string | null> {
  const { access } = c.executionCtx as ExecutionContext;
  if (access === undefined || c.env.ACCESS_AUD === "" || access.aud !== c.env.ACCESS_AUD) return null;
  const identity = await access.getIdentity();
  return memberEmail(identity?.email) ?? null;
}
