/** One line about the signal limit at the top of every page (spec §8.2 to §8.4), until it is dismissed. */
import type { Context } from "hono";
import { errorText, logEvent } from "../platform/log.ts";
import type { Usage } from "../quota/protocol.ts";
import { usageOf } from "../workspace/configure-workspace.ts";
import { Dismiss, isDismissed } from "./dismissed.tsx";
import { pathOf, type Section } from "./kit/layout.tsx";
import { pages, workspacePath, type PagesEnv } from "./pages-env.ts";
import { usageNotice, usageNoticeName } from "./usage/usage-notices.tsx";

/**
 * Reads the usage in parallel with the page's reads. Not for forms, which answer with a page only if they are refused, not
 * for the rows of the Live page, and not for Overview and Usage, which show the usage themselves.
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
