/** The ways to sign in, and sessions for the ways that keep none themselves. */
import type { Hono } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import type { CookieOptions } from "hono/utils/cookie";
import { controlDatabase } from "../../d1/database.ts";
import { closeSession, openSession, type SignInProof } from "../../d1/sessions.ts";
import { countMiss } from "../../http/auth-failures.ts";
import { isLoopback } from "../../domain/loopback.ts";
import { SESSION_MS } from "../../limits.ts";
import { hashAtOnce } from "../../platform/hashes.ts";
import { Lru } from "../../platform/lru.ts";
import type { Answer, Ctx, PagesEnv } from "../pages-env.ts";
import { mayAskForStranger, mayAttempt, sessionEndedPage } from "./form-guard.tsx";
import type { SignInName } from "./sign-in-settings.ts";
import { safeTarget } from "../safe-target.ts";

export interface SignInDriver {
  /** Null: the request has no proof of a sign-in. */
  proofOf(c: Ctx): Promise<SignInProof | null>;
  /** The page `/sign-in`. @param to path of the page to open after sign-in. */
  signInPage(c: Ctx, to: string): Answer;
  /** Below `/sign-in/{name of the driver}`. */
  routes?: Hono<PagesEnv>;
  notSignedIn(c: Ctx): Answer;
  signedOut(c: Ctx): Answer;
}

/** The common part of drivers without sessions of their own. A session is valid only while the driver that opened it is on. */
export function withSessions(name: SignInName): Pick<SignInDriver, "proofOf" | "notSignedIn" | "signedOut"> {
  return {
    proofOf: async (c) => {
      const hash = tokenHash(c, "session");
      return hash === null ? null : { tokenHash: hash, driver: name };
    },
    notSignedIn: (c) => {
      const { pathname, search } = new URL(c.req.url);
      const asked = safeTarget(pathname + search);
      if (c.req.method !== "GET") return sessionEndedPage(c, asked);
      return c.redirect(`/sign-in?${new URLSearchParams({ to: asked }).toString()}`, 303);
    },
    signedOut: (c) => c.redirect("/sign-in", 303),
  };
}

/** Sessions that an isolate remembers, of some 300 bytes each. */
const KNOWN_SESSIONS = 10_000;

/**
 * The email of each session that this isolate has found, by hash. Signed-in members do not wait while others send invented
 * sessions. No entry makes an ended session valid, because each request reads the session.
 */
export const knownSessions = new Lru<string, string>(KNOWN_SESSIONS);

/** Opens a session with a new token and ends the browser's earlier one. False: no member has this email. */
export async function startSession(c: Ctx, email: string, driver: SignInName): Promise<boolean> {
  const db = controlDatabase(c.env.DB);
  const before = tokenHash(c, "session");
  if (before !== null) {
    await closeSession(db, before);
    knownSessions.delete(before);
  }
  const token = newToken();
  const opened = await openSession(db, { tokenHash: token.hash, email, driver }, Date.now());
  if (opened) setTokenCookie(c, "session", token.value, SESSION_MS);
  else deleteTokenCookie(c, "session");
  return opened;
}

/**
 * Ends the session of the request, and its cookie. False: the session is unknown here, and the limits of strangers are reached.
 * Then the cookie stays, because the session may be valid: a person must not believe that it has ended.
 */
export async function endSession(c: Ctx): Promise<boolean> {
  const hash = tokenHash(c, "session");
  if (hash !== null) {
    if (!knownSessions.has(hash) && !(mayAskForStranger(c) && (await mayAttempt(c)))) return false;
    if (!(await closeSession(controlDatabase(c.env.DB), hash))) countMiss(Date.now());
    knownSessions.delete(hash);
  }
  deleteTokenCookie(c, "session");
  return true;
}

/** The two cookies of sign-in: a random token each. The database stores only its SHA-256. */
type TokenCookie = "session" | "sign-in";

const TOKEN_BYTES = 32;

export function tokenHash(c: Ctx, cookie: TokenCookie): string | null {
  const token = getCookie(c, cookieName(c, cookie));
  return token === undefined || token === "" ? null : hashed(token);
}

/** A random token: `value` goes to the browser, `hash` to the database. */
export function newToken(): { value: string; hash: string } {
  const value = Buffer.from(crypto.getRandomValues(new Uint8Array(TOKEN_BYTES))).toString("base64url");
  return { value, hash: hashed(value) };
}

export function setTokenCookie(c: Ctx, cookie: TokenCookie, value: string, lifetimeMs: number): void {
  setCookie(c, cookieName(c, cookie), value, { ...cookieAttributes(c), maxAge: lifetimeMs / 1_000 });
}

export function deleteTokenCookie(c: Ctx, cookie: TokenCookie): void {
  deleteCookie(c, cookieName(c, cookie), cookieAttributes(c));
}

/** SameSite is Lax: links from elsewhere and the provider's answer bring the cookie along; a foreign site's form does not. */
function cookieAttributes(c: Ctx): CookieOptions {
  return { path: "/", httpOnly: true, sameSite: "Lax", secure: !isPlainLoopback(c) };
}

/** `__Host-` makes the browser reject the cookie without HTTPS and from other hosts of the domain. */
function cookieName(c: Ctx, cookie: TokenCookie): string {
  return isPlainLoopback(c) ? cookie : `__Host-${cookie}`;
}

function isPlainLoopback(c: Ctx): boolean {
  return c.req.url.startsWith("http://") && isLoopback(c.req.url);
}

function hashed(token: string): string {
  return hashAtOnce(token).digest("hex");
}
