/** What a browser has put away, such as a notice: a cookie of the workspace's pages remembers it. */
import type { Context } from "hono";
import { getCookie, setCookie } from "hono/cookie";
import type { PagesEnv } from "./pages-env.ts";
import { workspacePath } from "./pages-env.ts";

export const DISMISSIBLE = ["usage", "first-steps"] as const;
export type Dismissible = (typeof DISMISSIBLE)[number];

/** A dismissal is remembered for a billing period and a little more. */
const REMEMBERED_S = 32 * 24 * 3_600;

/** @param state names what was shown; a notice in another state is shown again. */
export function isDismissed(c: Context<PagesEnv>, what: Dismissible, state: string): boolean {
  return getCookie(c, `dismissed-${what}`) === state;
}

export function dismiss(c: Context<PagesEnv>, what: Dismissible, state: string): void {
  setCookie(c, `dismissed-${what}`, state, {
    path: workspacePath(c),
    httpOnly: true,
    sameSite: "Lax",
    secure: new URL(c.req.url).protocol === "https:",
    maxAge: REMEMBERED_S,
  });
}
