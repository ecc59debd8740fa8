/**
 * The two cookies of sign-in: a random token each, of which the database has the SHA-256. `__Host-` makes the browser
 * refuse them without HTTPS and from other hosts of the domain; over plain HTTP, so on loopback only, they go without.
 */
import type { Context } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import type { CookieOptions } from "hono/utils/cookie";
import { isLoopback } from "../../http/loopback.ts";
import { hashAtOnce } from "../../platform/hashes.ts";
import type { PagesEnv } from "../pages-env.ts";

type TokenCookie = "session" | "sign-in";

const TOKEN_BYTES = 32;

/** SHA-256 of the cookie's token; null where there is no such cookie. */
export function tokenHash(c: Context<PagesEnv>, cookie: TokenCookie): string | null {
  const token = getCookie(c, nameOf(c, cookie));
  return token === undefined || token === "" ? null : hashed(token);
}

/** A random token: `value` goes to the browser, `hash` to the database. */
export function newToken(): { value: string; hash: string } {
  const value = Buffer.from(crypto.getRandomValues(new Uint8Array(TOKEN_BYTES))).toString("base64url");
  return { value, hash: hashed(value) };
}

export function giveToken(c: Context<PagesEnv>, cookie: TokenCookie, value: string, lifetimeMs: number): void {
  setCookie(c, nameOf(c, cookie), value, { ...attributes(c), maxAge: lifetimeMs / 1_000 });
}

export function dropToken(c: Context<PagesEnv>, cookie: TokenCookie): void {
  deleteCookie(c, nameOf(c, cookie), attributes(c));
}

/** SameSite is Lax: links from elsewhere and the provider's answer bring the cookie along; a foreign site's form does not. */
function attributes(c: Context<PagesEnv>): CookieOptions {
  return { path: "/", httpOnly: true, sameSite: "Lax", secure: !isPlainLoopback(c) };
}

function nameOf(c: Context<PagesEnv>, cookie: TokenCookie): string {
  return isPlainLoopback(c) ? cookie : `__Host-${cookie}`;
}

function isPlainLoopback(c: Context<PagesEnv>): boolean {
  return c.req.url.startsWith("http://") && isLoopback(c.req.url);
}

function hashed(token: string): string {
  return hashAtOnce(token).digest("hex");
}
