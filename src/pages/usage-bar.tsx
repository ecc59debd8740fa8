/** The bar that tells on every page how much of the signal limit is used (spec §8.2–§8.4), until it is dismissed. */
import type { Context } from "hono";
import { errorText, logEvent } from "../platform/log.ts";
import type { Usage } from "../quota/protocol.ts";
import { usageOf } from "../workspace/configure-workspace.ts";
import { isDismissed } from "./dismissed.tsx";
import { pages, workspacePath, type PagesEnv } from "./pages-env.ts";
import { usageNotice, usageNoticeName } from "./views/usage-copy.ts";
import { pathOf, type Section } from "./kit/layout.tsx";
import { UsageBar } from "./views/usage-bar-view.tsx";

/**
 * Asks for the usage while the page's own reads are under way. Not for forms, which answer with a page only where they are
 * refused, not for the rows that the Live page asks for, and not for Overview and Usage, which show the usage themselves.
 */
export const askUsage = pages.createMiddleware(async (c, next) => {
  const { method, path } = c.req;
  const home = workspacePath(c);
  const isPage = method === "GET" && !path.startsWith(`${home}/live/`);
  if (isPage && path !== `${home}/usage` && path !== home && path !== `${home}/`) c.set("usage", usageOrNull(c));
  await next();
});

/**
 * The bar; empty below 80 %, where this browser has dismissed it, and where the usage cannot be read.
 *
 * @param section the sidebar's entry of the page; null: none.
 */
export async function usageBar(c: Context<PagesEnv>, section: Section | null) {
  const usage = await (c.get("usage") ?? usageOrNull(c));
  if (usage === null) return <></>;
  const [notice, state] = [usageNotice(usage), usageNoticeName(usage)];
  if (notice === null || state === null || isDismissed(c, "usage", state)) return <></>;
  return <UsageBar home={workspacePath(c)} notice={notice} state={state} back={pageToReturnTo(c, section)} />;
}

/**
 * Path and query of the page, so that a list keeps its filters. What answers a form has no address of its own: the section's
 * page stands for it. What a form has done (`?done=`) is not said again.
 */
function pageToReturnTo(c: Context<PagesEnv>, section: Section | null): string {
  if (c.req.method !== "GET" || section === null) return `${workspacePath(c)}/${pathOf(section ?? "signals")}`;
  const { pathname, searchParams } = new URL(c.req.url);
  searchParams.delete("done");
  return searchParams.size === 0 ? pathname : `${pathname}?${searchParams.toString()}`;
}

/** The usage; null where it cannot be read: a page is shown without the bar rather than not at all. */
async function usageOrNull(c: Context<PagesEnv>): Promise<Usage | null> {
  try {
    return await usageOf(c.env, c.get("db"), c.get("workspace"));
  } catch (error) {
    logEvent("error", { request_id: c.get("requestId"), error: errorText(error) });
    return null;
  }
}
