/** Who makes a request of the pages, and what they may do, read anew with each request. */
import type { Context } from "hono";
import { controlDatabase } from "../../control/database.ts";
import type { SignInDriver } from "../../control/schema.ts";
import { closeSession, findSignedIn, openSession, type SignInProof } from "../../control/sessions.ts";
import { canManage } from "../../domain/keys/role.ts";
import { SESSION_MS } from "../../limits.ts";
import { pages, type PagesEnv } from "../pages-env.ts";
import { managersOnlyPage, notFoundPage } from "../page.tsx";
import { accessEmail } from "./access.ts";
import { dropToken, giveToken, newToken, tokenHash } from "./token-cookie.ts";
import { signInDriver } from "./driver.ts";
import { accessMissingPage, sessionEndedPage } from "./refusal-pages.tsx";

/** Sets `user`, `workspaces`, `db`, and `workspace` and `role` where the path names one of theirs; else leads to sign-in. */
export const requireSignIn = pages.createMiddleware(async (c, next) => {
  const driver = signInDriver(c);
  if (driver === null) return notFoundPage(c);
  const claim = await claimOf(c, driver);
  const db = controlDatabase(c.env.DB);
  const slug = c.req.param("slug") ?? null;
  const visitor = claim === null ? null : await findSignedIn(db, claim, slug, Date.now());
  if (visitor === null) return askToSignIn(c, driver);
  c.set("db", db);
  c.set("user", { email: visitor.email });
  c.set("workspaces", visitor.workspaces);
  if (visitor.here !== null) {
    c.set("workspace", visitor.here.workspace);
    c.set("role", visitor.here.role);
    c.get("logFields")["workspace"] = visitor.here.workspace.id;
  }
  await next();
});

/** Stands behind requireSignIn. A workspace of others gets the same answer as one that is nowhere. */
export const requireMember = pages.createMiddleware(async (c, next) => {
  if (c.get("workspace") === undefined) return notFoundPage(c);
  await next();
});

/** Refuses members who are not owner or admin. */
export const requireManager = pages.createMiddleware(async (c, next) => {
  if (!canManage(c.get("role"))) return managersOnlyPage(c, null, "Not allowed", "change anything here");
  await next();
});

/** Signs in with a new token, and ends the browser's earlier session. False: nobody is a member by this email. */
export async function startSession(c: Context<PagesEnv>, email: string, driver: SignInDriver): Promise<boolean> {
  const db = controlDatabase(c.env.DB);
  const before = tokenHash(c, "session");
  if (before !== null) await closeSession(db, before);
  const token = newToken();
  const opened = await openSession(db, { tokenHash: token.hash, email, driver }, Date.now());
  if (opened) giveToken(c, "session", token.value, SESSION_MS);
  else dropToken(c, "session");
  return opened;
}

async function claimOf(c: Context<PagesEnv>, driver: SignInDriver): Promise<SignInProof | null> {
  if (driver === "access") {
    const email = await accessEmail(c);
    return email === null ? null : { email };
  }
  const hash = tokenHash(c, "session");
  return hash === null ? null : { tokenHash: hash, driver };
}

/** A request for a page leads to sign-in and back. Scripts, sockets and forms get a 401; a form can be sent again from it. */
function askToSignIn(c: Context<PagesEnv>, driver: SignInDriver): Response | Promise<Response> {
  const mode = c.req.header("sec-fetch-mode") ?? "navigate";
  if (mode !== "navigate" || c.req.header("upgrade") !== undefined) return c.text("Not signed in", 401);
  if (driver === "access") return accessMissingPage(c);
  if (c.req.method !== "GET") return sessionEndedPage(c);
  const { pathname, search } = new URL(c.req.url);
  return c.redirect(`/sign-in?${new URLSearchParams({ to: pathname + search }).toString()}`, 303);
}
