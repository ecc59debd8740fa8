/** Notices that somebody has dismissed in this browser. A cookie of the workspace's pages remembers them. */
import type { Context } from "hono";
import { getCookie, setCookie } from "hono/cookie";
import { PostButton } from "./kit/actions.tsx";
import { type PagesEnv, workspacePath } from "./pages-env.ts";

export const DISMISSIBLE = ["usage", "first-steps"] as const;
export type Dismissible = (typeof DISMISSIBLE)[number];

/** A dismissal is remembered for a billing period and a little more. */
const REMEMBERED_S = 32 * 24 * 3_600;

/** @param state names the state of the notice. In another state it is shown again. */
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

interface DismissProps {
  /** The workspace's path, `/w/{slug}`. */
  home: string;
  what: Dismissible;
  state: string;
  /** Path of the page to return to. */
  back: string;
  /** Name of the button for screen readers. */
  label: string;
}

export function Dismiss({ home, what, state, back, label }: DismissProps) {
  return (
    <PostButton action={`${home}/dismiss`} look="link" fields={{ what, state, back }} label={label}>
      Dismiss
    </PostButton>
  );
}
