/** Sessions that this service keeps itself, for the drivers that only say once who somebody is. */
import type { Context } from "hono";
import { controlDatabase } from "../../control/database.ts";
import { closeSession, openSession } from "../../control/sessions.ts";
import { SESSION_MS } from "../../limits.ts";
import type { PagesEnv } from "../pages-env.ts";
import { sessionEndedPage } from "./refusal-pages.tsx";
import { safeTarget } from "./sign-in-target.ts";
import type { SignInDriver } from "./sign-in-driver.ts";
import type { SignInName } from "./sign-in-settings.ts";
import { dropToken, giveToken, newToken, tokenHash } from "./token-cookie.ts";

/** What drivers have in common whose sessions are kept here. A session holds only while the driver is on that opened it. */
export function withSessions(name: SignInName): Pick<SignInDriver, "proofOf" | "notSignedIn" | "signedOut"> {
  return {
    proofOf: async (c) => {
      const hash = tokenHash(c, "session");
      return hash === null ? null : { tokenHash: hash, driver: name };
    },
    // A request for a page leads to sign-in and back; a form can be sent again from the page that it gets.
    notSignedIn: (c) => {
      const { pathname, search } = new URL(c.req.url);
      const asked = safeTarget(pathname + search);
      if (c.req.method !== "GET") return sessionEndedPage(c, asked);
      return c.redirect(`/sign-in?${new URLSearchParams({ to: asked }).toString()}`, 303);
    },
    signedOut: (c) => c.redirect("/sign-in", 303),
  };
}

/** Signs in with a new token, and ends the browser's earlier session. False: nobody is a member by this email. */
export async function startSession(c: Context<PagesEnv>, email: string, driver: SignInName): Promise<boolean> {
  const db = controlDatabase(c.env.DB);
  const before = tokenHash(c, "session");
  if (before !== null) await closeSession(db, before);
  const token = newToken();
  const opened = await openSession(db, { tokenHash: token.hash, email, driver }, Date.now());
  if (opened) giveToken(c, "session", token.value, SESSION_MS);
  else dropToken(c, "session");
  return opened;
}

/** Ends the browser's session, whichever driver has opened it. */
export async function endSession(c: Context<PagesEnv>): Promise<void> {
  const hash = tokenHash(c, "session");
  if (hash !== null) await closeSession(controlDatabase(c.env.DB), hash);
  dropToken(c, "session");
}
