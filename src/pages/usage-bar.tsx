/**
 * One line about the signal limit at the top of every page (spec §8.2 to §8.4), until it is dismissed. A cookie
 * remembers the dismissed line, per workspace and browser.
 */
import type { Context } from "hono";
import { getCookie, setCookie } from "hono/cookie";
import { errorText, logEvent } from "../platform/log.ts";
import type { Usage } from "../quota/protocol.ts";
import { usageOf } from "../workspace/configure-workspace.ts";
import { PostButton } from "./kit/actions.tsx";
import { pathOf, type Section } from "./kit/layout.tsx";
import { formText, pages, workspacePath, type PagesEnv } from "./pages-env.ts";
import { safeTarget } from "./safe-target.ts";
import { usageNotice, usageNoticeName } from "./usage-notices.tsx";

/**
 * Reads the usage in parallel with the page's reads. Exceptions: forms, because they answer with a page only if they are
 * refused; the rows of the Live page; Overview and Usage, because they show the usage themselves.
 */
export const askUsage = pages.createMiddleware(async (c, next) => {
  const { method, path } = c.req;
  const home = workspacePath(c);
  const isPage = method === "GET" && !path.startsWith(`${home}/live/`);
  const showsUsage = [home, `${home}/`, `${home}/usage`].includes(path) || path.startsWith(`${home}/usage/`);
  if (isPage && !showsUsage) c.set("usage", usageOrNull(c));
  await next();
});

/**
 * Empty below 80 %, if this browser has dismissed it, and if the usage cannot be read.
 *
 * @param section the sidebar's entry of the page; null: none.
 */
export async function usageBar(c: Context<PagesEnv>, section: Section | null) {
  const usage = await (c.get("usage") ?? usageOrNull(c));
  if (usage === null) return <></>;
  const [notice, state] = [usageNotice(usage), usageNoticeName(usage)];
  if (notice === null || state === null || isDismissed(c, "usage", state)) return <></>;
  const home = workspacePath(c);
  return (
    <section class={`notice bar ${notice.tone}`} aria-label="Usage">
      <span>
        <strong>{notice.title}</strong> <a href={`${home}/usage`}>View usage</a>
      </span>
      <Dismiss home={home} what="usage" state={state} back={pageToReturnTo(c, section)} label="Dismiss usage notice" />
    </section>
  );
}

/**
 * Path and query of the page without `?done=`, so that a list keeps its filters. The answer to a form has no address, so
 * the section's page replaces it.
 */
function pageToReturnTo(c: Context<PagesEnv>, section: Section | null): string {
  if (c.req.method !== "GET" || section === null) return `${workspacePath(c)}/${pathOf(section ?? "signals")}`;
  const { pathname, searchParams } = new URL(c.req.url);
  searchParams.delete("done");
  return searchParams.size === 0 ? pathname : `${pathname}?${searchParams.toString()}`;
}

/** Null if it cannot be read: the page is then shown without the bar. */
async function usageOrNull(c: Context<PagesEnv>): Promise<Usage | null> {
  try {
    return await usageOf(c.env, c.get("db"), c.get("workspace"));
  } catch (error) {
    logEvent("error", { request_id: c.get("requestId"), error: errorText(error) });
    return null;
  }
}

const DISMISSIBLE = ["usage", "first-steps"] as const;
type Dismissible = (typeof DISMISSIBLE)[number];

/** A billing period and a little more. */
const REMEMBERED_S = 32 * 24 * 3_600;

/** @param state names the state of the notice. In another state it is shown again. */
export function isDismissed(c: Context<PagesEnv>, what: Dismissible, state: string): boolean {
  return getCookie(c, `dismissed-${what}`) === state;
}

/** @param props.home the workspace's path. @param props.back path of the page to return to. */
export function Dismiss({
  home,
  label,
  ...fields
}: {
  home: string;
  what: Dismissible;
  state: string;
  back: string;
  label: string;
}) {
  return (
    <PostButton action={`${home}/dismiss`} look="link" fields={fields} label={label}>
      Dismiss
    </PostButton>
  );
}

/** Answers the form of Dismiss. */
export function dismissNotice(c: Context<PagesEnv>): Response {
  const form = c.get("form");
  const [what, state] = [formText(form, "what"), formText(form, "state")];
  const home = workspacePath(c);
  if (DISMISSIBLE.some((notice) => notice === what) && /^[\w-]{1,60}$/.test(state)) {
    const secure = new URL(c.req.url).protocol === "https:";
    setCookie(c, `dismissed-${what}`, state, {
      path: home,
      httpOnly: true,
      sameSite: "Lax",
      secure,
      maxAge: REMEMBERED_S,
    });
  }
  const target = safeTarget(formText(form, "back"));
  return c.redirect(target.startsWith(`${home}/`) ? target : `${home}/signals`, 303);
}
