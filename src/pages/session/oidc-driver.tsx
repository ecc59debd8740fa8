/** Sign-in by an OpenID provider: out to it, and back. */
import type { Context } from "hono";
import { controlDatabase } from "../../control/database.ts";
import { keepAttempt, takeAttempt } from "../../control/sessions.ts";
import { errorText, logEvent } from "../../platform/log.ts";
import { SIGN_IN_ATTEMPT_MS } from "../../limits.ts";
import { plainPage } from "../page.tsx";
import { pages, type PagesEnv } from "../pages-env.ts";
import { limitAttempts } from "./form-limits.ts";
import { beginSignIn, finishSignIn } from "./oidc-flow.ts";
import { problemPage } from "./refusal-pages.tsx";
import { startSession, withSessions } from "./session.ts";
import type { SignInDriver } from "./sign-in-driver.ts";
import { safeTarget } from "./sign-in-target.ts";
import { dropToken, giveToken, newToken, tokenHash } from "./token-cookie.ts";

export const oidcDriver: SignInDriver = {
  ...withSessions("oidc"),
  // It leads to the provider by a link, because the content security policy lets no form lead to another origin.
  signInPage: (c, to) =>
    plainPage(
      c,
      { title: "Sign in" },
      <>
        <h1>Sign in</h1>
        <p class="quiet">You sign in with your organisation's account.</p>
        <p>
          <a class="button primary" href={`/sign-in/oidc?${new URLSearchParams({ to }).toString()}`}>
            Sign in
          </a>
        </p>
      </>,
    ),
  routes: pages
    .createApp()
    .use(limitAttempts)
    .get("/", async (c) => {
      const begun = await beginSignIn(c.env, redirectUri(c), safeTarget(c.req.query("to"))).catch(providerFault(c));
      if (begun === null) return problemPage(c, "provider_failed");
      const token = newToken();
      await keepAttempt(controlDatabase(c.env.DB), token.hash, begun.attempt, Date.now());
      giveToken(c, "sign-in", token.value, SIGN_IN_ATTEMPT_MS);
      return c.redirect(begun.url, 303);
    })
    .get("/callback", async (c) => {
      const hash = tokenHash(c, "sign-in");
      dropToken(c, "sign-in");
      const attempt = hash === null ? null : await takeAttempt(controlDatabase(c.env.DB), hash, Date.now());
      if (attempt === null) return problemPage(c, "attempt_unknown");
      const email = await finishSignIn(c.env, redirectUri(c), new URL(c.req.url), attempt).catch(providerFault(c));
      if (email === null) return problemPage(c, "provider_failed");
      if (!email.ok) return problemPage(c, email.refusal);
      if (!(await startSession(c, email.value, "oidc"))) return problemPage(c, "no_member");
      return c.redirect(attempt.target, 303);
    }),
};

/** Where the provider leads back to: the same when a sign-in begins and when it ends, because the provider compares both. */
function redirectUri(c: Context<PagesEnv>): string {
  return new URL("/sign-in/oidc/callback", c.req.url).href;
}

/** Logs that the provider failed; what the library says of it names no token and no email. */
function providerFault(c: Context<PagesEnv>) {
  return (error: unknown): null => {
    logEvent("sign_in_failed", { request_id: c.get("requestId"), error: errorText(error) });
    return null;
  };
}
