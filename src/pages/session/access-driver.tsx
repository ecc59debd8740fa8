/**
 * Sign-in by Cloudflare Access: it stands in front of the pages, keeps the sessions, and vouches for the email with each
 * request. The runtime sets `ctx.access` only on requests that have passed it.
 */
import type { Context } from "hono";
import { memberEmail } from "../../domain/signal/identity.ts";
import { plainPage } from "../page.tsx";
import type { PagesEnv } from "../pages-env.ts";
import type { SignInDriver } from "./sign-in-driver.ts";

/** The path at which Access ends its session. */
const ACCESS_SIGN_OUT = "/cdn-cgi/access/logout";

export const accessDriver: SignInDriver = {
  proofOf: async (c) => {
    const email = await accessEmail(c);
    return email === null ? null : { email };
  },
  signInPage: async (c, to) => ((await accessEmail(c)) === null ? accessMissingPage(c) : c.redirect(to, 303)),
  notSignedIn: accessMissingPage,
  signedOut: (c) => {
    // A redirect would fail: Access leads on to its own host, and the content security policy lets no form end there.
    c.header("refresh", `0; url=${ACCESS_SIGN_OUT}`);
    return plainPage(
      c,
      { title: "Signing out" },
      <>
        <h1>Signing out …</h1>
        <p>
          If nothing happens, <a href={ACCESS_SIGN_OUT}>sign out here</a>.
        </p>
      </>,
    );
  },
};

/**
 * The email that Access vouches for. Null: the request did not come through the application that ACCESS_AUD names (another
 * one of the account may let anybody in), or it came by a service token, which is no person.
 */
async function accessEmail(c: Context<PagesEnv>): Promise<string | null> {
  const { access } = c.executionCtx as ExecutionContext;
  if (access === undefined || c.env.ACCESS_AUD === "" || access.aud !== c.env.ACCESS_AUD) return null;
  const identity = await access.getIdentity();
  return memberEmail(identity?.email) ?? null;
}

/** Said where Access is configured and missing: the deployment's fault, so the text speaks to whoever deploys. */
function accessMissingPage(c: Context<PagesEnv>): Response | Promise<Response> {
  return plainPage(
    c,
    { title: "Sign-in is not set up", status: 401 },
    <>
      <h1>Sign-in is not set up</h1>
      <p>
        These pages expect Cloudflare Access in front of <code>/w</code> and <code>/sign-in</code>, and this request did
        not come through the application whose audience is <code>ACCESS_AUD</code>. Protect both paths in Access and set
        that variable, or choose another way with the variable <code>SIGN_IN</code>.
      </p>
    </>,
  );
}
