/** Live: the latest signals and refused calls, and the connections on which the page's script hears of more. */
import type { Context } from "hono";
import { keyNames } from "../../control/stored-keys.ts";
import { canManageKeys } from "../../domain/keys/role.ts";
import { quotaCounter, signalStore, watchWorkspace } from "../../workspace/objects.ts";
import { pages, type PagesEnv, workspacePath } from "../pages-env.ts";
import { isShown, rejectionItem, signalItem } from "./live-item.ts";
import { page } from "../page.tsx";
import { LiveView } from "./live-view.tsx";

/** Rows that the live page begins with. */
const LIVE_FIRST_ROWS = 50;

export const livePages = pages
  .createApp()
  .get("/", async (c) => {
    const { id } = c.get("workspace");
    const [signals, rejections, names] = await Promise.all([
      signalStore(c.env, id).latest(LIVE_FIRST_ROWS),
      quotaCounter(c.env, id).rejections(LIVE_FIRST_ROWS),
      // Spec §1: only owners and admins may see keys; others get their ids, to ask by.
      canManageKeys(c.get("role")) ? keyNames(c.get("db"), id) : new Map<string, string>(),
    ]);
    const { status = "", text = "" } = c.req.query();
    const filter = { status, text };
    const named = Object.fromEntries(names);
    const items = [...signals.map(signalItem), ...rejections.map((one) => rejectionItem(one, named))]
      .sort((a, b) => b.atMs - a.atMs)
      .filter((item) => isShown(item, filter))
      .slice(0, LIVE_FIRST_ROWS);
    const data = { path: workspacePath(c), items, filter, keyNames: named, nowMs: Date.now() };
    return page(c, { title: "Live", section: "live" }, <LiveView {...data} />);
  })
  .get("/signals", (c) => watch(c, "signals"))
  .get("/rejections", (c) => watch(c, "rejections"));

/** A WebSocket of `what`. Cookies come along also where another site's page opens one: so only our own pages may. */
async function watch(c: Context<PagesEnv>, what: "signals" | "rejections"): Promise<Response> {
  if (c.req.header("upgrade")?.toLowerCase() !== "websocket") return c.text("This is for the live page's script.", 426);
  if (c.req.header("origin") !== new URL(c.req.url).origin) return c.text("Not from this page.", 403);
  const { status, webSocket } = await watchWorkspace(c.env, c.get("workspace").id, what, c.get("user").email);
  if (webSocket === null) {
    if (status === 429) return c.text("You are watching in too many tabs.", 429);
    return c.text("Too many people are watching.", status === 503 ? 503 : 502);
  }
  return new Response(null, { status: 101, webSocket });
}
