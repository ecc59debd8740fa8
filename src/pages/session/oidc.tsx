/**
 * Sign-in by any OpenID provider: the authorization code flow with PKCE (S256), state and nonce, through oauth4webapi. Its
 * result is an email. Nothing else is kept: no token of the provider outlives the sign-in.
 */
import * as oauth from "oauth4webapi";
import { controlDatabase } from "../../d1/database.ts";
import { storeAttempt, type SignInAttempt, takeAttempt } from "../../d1/sessions.ts";
import { ok, reject, type Result } from "../../domain/result.ts";
import { memberEmail } from "../../domain/signal/identity.ts";
import { isLoopback } from "../../domain/loopback.ts";
import type { AppEnv } from "../../env.ts";
import { countMiss } from "../../http/auth-failures.ts";
import { SIGN_IN_ATTEMPT_MS } from "../../limits.ts";
import { errorText, logEvent } from "../../platform/log.ts";
import { messagePage } from "../page.tsx";
import { pages, type Ctx } from "../pages-env.ts";
import { limitAttempts, mayAskForStranger, problemPage, type SignInProblem } from "./form-guard.tsx";
import {
  deleteTokenCookie,
  setTokenCookie,
  newToken,
  type SignInDriver,
  startSession,
  tokenHash,
  withSessions,
} from "./session.ts";
import { safeTarget } from "../safe-target.ts";

export const oidcDriver: SignInDriver = {
  ...withSessions("oidc"),
  // A link, because the content security policy lets no form lead to another origin.
  signInPage: (c, to) =>
    messagePage(c, {
      title: "Sign in",
      text: "Sign in with your organisation's account.",
      link: ["Sign in", `/sign-in/oidc?${new URLSearchParams({ to }).toString()}`],
    }),
  routes: pages
    .createApp()
    .use(limitAttempts)
    .get("/", async (c) => {
      // Anybody may begin, and each attempt is a row.
      if (!mayAskForStranger(c)) return problemPage(c, "too_many");
      countMiss(Date.now());
      const begun = await beginSignIn(c.env, callbackUrl(c), safeTarget(c.req.query("to"))).catch(providerFault(c));
      if (begun === null) return problemPage(c, "provider_failed");
      const token = newToken();
      await storeAttempt(controlDatabase(c.env.DB), token.hash, begun.attempt, Date.now());
      setTokenCookie(c, "sign-in", token.value, SIGN_IN_ATTEMPT_MS);
      return c.redirect(begun.url, 303);
    })
    .get("/callback", async (c) => {
      const hash = tokenHash(c, "sign-in");
      // The cookie stays, so that the person can load this address again.
      if (hash !== null && !mayAskForStranger(c)) return problemPage(c, "too_many");
      deleteTokenCookie(c, "sign-in");
      const attempt = hash === null ? null : await takeAttempt(controlDatabase(c.env.DB), hash, Date.now());
      if (hash !== null && attempt === null) countMiss(Date.now());
      if (attempt === null) return problemPage(c, "attempt_unknown");
      const email = await finishSignIn(c.env, callbackUrl(c), new URL(c.req.url), attempt).catch(providerFault(c));
      if (email === null) return problemPage(c, "provider_failed");
      if (!email.ok) return problemPage(c, email.rejection);
      if (!(await startSession(c, email.value, "oidc"))) return problemPage(c, "no_member");
      return c.redirect(attempt.target, 303);
    }),
};

/** The redirect URI. The provider compares it at both steps of a sign-in. */
function callbackUrl(c: Ctx): string {
  return new URL("/sign-in/oidc/callback", c.req.url).href;
}

/** The library's messages contain no token and no email, so they may be logged. */
function providerFault(c: Ctx) {
  return (error: unknown): null => {
    logEvent("sign_in_failed", { request_id: c.get("requestId"), error: errorText(error) });
    return null;
  };
}

/** Lifetime of a provider's discovery document in an isolate. */
const OIDC_DISCOVERY_MS = 3_600_000;
/** Timeout of one call to the provider. */
const OIDC_CALL_MS = 10_000;

/** Discovery documents by issuer. Plain data: promises must not be shared between requests. */
const discovered = new Map<string, { server: oauth.AuthorizationServer; readAtMs: number }>();

/** The address to send the browser to, and the values that its return must match. @throws if the provider fails. */
async function beginSignIn(
  env: AppEnv["Bindings"],
  redirectUri: string,
  target: string,
): Promise<{ url: string; attempt: SignInAttempt }> {
  const server = await discover(env.OIDC_ISSUER);
  if (server.authorization_endpoint === undefined) throw new Error("the provider has no authorization endpoint");
  const attempt = {
    state: oauth.generateRandomState(),
    nonce: oauth.generateRandomNonce(),
    codeVerifier: oauth.generateRandomCodeVerifier(),
    target,
  };
  const url = new URL(server.authorization_endpoint);
  const parameters = {
    client_id: env.OIDC_CLIENT_ID,
    redirect_uri: redirectUri,
    response_type: "code",
    scope: "openid email",
    state: attempt.state,
    nonce: attempt.nonce,
    code_challenge: await oauth.calculatePKCECodeChallenge(attempt.codeVerifier),
    code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return { url: url.href, attempt };
}

/** The email that the provider vouches for, in lower case. @throws if the provider fails. */
async function finishSignIn(
  env: AppEnv["Bindings"],
  redirectUri: string,
  returned: URL,
  attempt: SignInAttempt,
): Promise<Result<string, SignInProblem>> {
  const server = await discover(env.OIDC_ISSUER);
  const client: oauth.Client = { client_id: env.OIDC_CLIENT_ID };
  const options = callOptions(env.OIDC_ISSUER);
  let parameters: URLSearchParams;
  try {
    parameters = oauth.validateAuthResponse(server, client, returned, attempt.state);
  } catch (error) {
    // Either the provider says no (access_denied), or this is not its answer to this attempt.
    return reject(error instanceof oauth.AuthorizationResponseError ? "rejected" : "attempt_unknown");
  }
  const answer = await oauth.authorizationCodeGrantRequest(
    server,
    client,
    clientAuthentication(env, server),
    parameters,
    redirectUri,
    attempt.codeVerifier,
    options,
  );
  // Checks issuer, audience, times and nonce. The token comes directly from the provider over TLS, which replaces
  // the check of its signature (OpenID Connect Core 3.1.3.7, step 6).
  const tokens = await oauth.processAuthorizationCodeResponse(server, client, answer, {
    expectedNonce: attempt.nonce,
    requireIdToken: true,
  });
  const claims = oauth.getValidatedIdTokenClaims(tokens);
  if (claims === undefined) throw new Error("the provider sent no ID token");
  const { userinfo_endpoint: endpoint } = server;
  const inToken: EmailClaims = { email: claims["email"], verified: claims["email_verified"] };
  if (endpoint === undefined || isVerified(inToken)) return verifiedEmail([inToken]);
  // Providers may keep the email out of the token, or whether it is verified (OpenID Connect Core 5.4).
  const asked = await oauth.userInfoRequest(server, client, tokens.access_token, options);
  const userInfo = await oauth.processUserInfoResponse(server, client, claims.sub, asked);
  return verifiedEmail([inToken, { email: userInfo.email, verified: userInfo.email_verified }]);
}

interface EmailClaims {
  email: unknown;
  /** `email_verified`, which is about the email of the same answer. */
  verified: unknown;
}

/**
 * The first email that is verified, else the first email. The claim `email_verified` is optional: a company's own provider,
 * which has assigned the addresses, often leaves it out. But if it is present and not true, it rejects the email of the same
 * answer. If no email is verified, it rejects the email of the other answer too.
 */
function verifiedEmail(answers: readonly EmailClaims[]): Result<string, SignInProblem> {
  const named = answers.filter(({ email }) => email !== undefined);
  const chosen = named.find(isVerified) ?? named[0];
  if (chosen === undefined) return reject("email_missing");
  const email = memberEmail(chosen.email);
  if (email === undefined) return reject("email_unusable");
  const isRejected = answers.some(
    (answer) =>
      answer.verified !== undefined &&
      !isTrue(answer.verified) &&
      (!isVerified(chosen) || answer.email === undefined || memberEmail(answer.email) === email),
  );
  return isRejected ? reject("email_unverified") : ok(email);
}

function isVerified({ email, verified }: EmailClaims): boolean {
  return email !== undefined && isTrue(verified);
}

/** Some providers send it as text. */
function isTrue(verified: unknown): boolean {
  return verified === true || verified === "true";
}

function clientAuthentication(env: AppEnv["Bindings"], server: oauth.AuthorizationServer): oauth.ClientAuth {
  const secret = env.OIDC_CLIENT_SECRET;
  if (secret === undefined || secret === "") return oauth.None();
  // A provider that names no methods takes the Authorization header (OpenID Connect Discovery 3).
  const methods = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
  return methods.includes("client_secret_basic") ? oauth.ClientSecretBasic(secret) : oauth.ClientSecretPost(secret);
}

async function discover(issuer: string): Promise<oauth.AuthorizationServer> {
  const known = discovered.get(issuer);
  if (known !== undefined && Date.now() - known.readAtMs < OIDC_DISCOVERY_MS) return known.server;
  const url = new URL(issuer);
  const server = await oauth.processDiscoveryResponse(url, await oauth.discoveryRequest(url, callOptions(issuer)));
  discovered.set(issuer, { server, readAtMs: Date.now() });
  return server;
}

/** Calls are made over HTTPS only, except to a provider on this machine. */
function callOptions(issuer: string) {
  return { signal: () => AbortSignal.timeout(OIDC_CALL_MS), [oauth.allowInsecureRequests]: isLoopback(issuer) };
}
