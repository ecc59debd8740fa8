/** Sign-in, sign-out, and the way to one's workspaces (design §10). */
import type { Context } from "hono";
import { controlDatabase } from "../../control/database.ts";
import { closeSession, listEmails } from "../../control/sessions.ts";
import { memberEmail } from "../../domain/signal/identity.ts";
import { LOCAL_MEMBERS_SHOWN } from "../../limits.ts";
import { endWatching } from "../../workspace/objects.ts";
import { pages, type PagesEnv } from "../pages-env.ts";
import { notFoundPage, plainPage } from "../page.tsx";
import { Chooser, LocalSignIn, NoWorkspace, OidcSignIn, SigningOut } from "./sign-in-views.tsx";
import { ACCESS_SIGN_OUT, accessEmail } from "./access.ts";
import { SIGN_IN_COPY } from "./sign-in-copy.ts";
import { dropToken, tokenHash } from "./token-cookie.ts";
import { signInDriver } from "./driver.ts";
import { oidcRoutes } from "./oidc-routes.ts";
import { accessMissingPage, problemPage } from "./refusal-pages.tsx";
import { requireSignIn, startSession } from "./session.ts";
import { FIRST_PAGE, safeTarget } from "./sign-in-target.ts";

const { title } = SIGN_IN_COPY;

export const sessionRoutes = pages
  .createApp()
  .get("/", (c) => c.redirect(FIRST_PAGE, 303))
  .get("/w", requireSignIn, (c) => {
    const workspaces = c.get("workspaces");
    const [first, second] = workspaces;
    if (first === undefined) {
      return plainPage(c, { title: "No workspace", status: 403 }, <NoWorkspace email={c.get("user").email} />);
    }
    if (second === undefined) return c.redirect(`/w/${first.slug}`, 303);
    return plainPage(c, { title: "Your workspaces" }, <Chooser workspaces={workspaces} />);
  })
  .get("/sign-in", async (c) => {
    const to = safeTarget(c.req.query("to"));
    switch (signInDriver(c)) {
      case "access":
        return (await accessEmail(c)) === null ? accessMissingPage(c) : c.redirect(to, 303);
      case "oidc":
        return plainPage(c, { title }, <OidcSignIn to={to} />);
      case "local": {
        const members = seenHere(c) ? await listEmails(controlDatabase(c.env.DB), LOCAL_MEMBERS_SHOWN) : null;
        return plainPage(c, { title }, <LocalSignIn members={members} to={to} />);
      }
      case null:
        return notFoundPage(c);
    }
  })
  .route("/sign-in/oidc", oidcRoutes)
  .post("/sign-in/local", async (c) => {
    if (signInDriver(c) !== "local") return notFoundPage(c);
    const { email: typed, to } = await c.req.parseBody();
    const email = memberEmail(typed);
    if (email === undefined || !(await startSession(c, email, "local"))) return problemPage(c, "no_member");
    return c.redirect(safeTarget(typeof to === "string" ? to : undefined), 303);
  })
  .post("/sign-out", async (c) => {
    const hash = tokenHash(c, "session");
    const closed = hash === null ? null : await closeSession(controlDatabase(c.env.DB), hash);
    if (closed !== null) await endWatching(c.env, closed.workspaceIds, closed.email);
    dropToken(c, "session");
    if (signInDriver(c) !== "access") return c.redirect("/sign-in", 303);
    // A redirect would fail: Access leads on to its own host, and the content security policy lets no form end there.
    c.header("refresh", `0; url=${ACCESS_SIGN_OUT}`);
    return plainPage(c, { title: "Signing out" }, <SigningOut address={ACCESS_SIGN_OUT} />);
  });

/**
 * Whether a browser asks that knows this machine by its own name: it says where a request comes from to no plain-HTTP
 * host but loopback, and no script can say it in its place. Behind the development proxy nothing else tells: a header
 * there sets address and Host, which no script can elsewhere.
 */
function seenHere(c: Context<PagesEnv>): boolean {
  return c.req.header("sec-fetch-site") !== undefined;
}
