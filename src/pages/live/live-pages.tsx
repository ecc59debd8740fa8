/** Live: the latest signals and refused calls, and the connections on which the page's script hears of more. */
import type { Context } from "hono";
import { keyNames, newestKeyNames } from "../../control/stored-keys.ts";
import { canManageKeys } from "../../domain/keys/role.ts";
import { quotaCounter, signalStore, watchWorkspace } from "../../workspace/objects.ts";
import { KEYS_OFFERED } from "../key-filter.ts";
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
    const [signals, rejections] = await Promise.all([
      signalStore(c.env, id).latest(LIVE_FIRST_ROWS),
      quotaCounter(c.env, id).rejections(LIVE_FIRST_ROWS),
    ]);
    const { status = "", text = "" } = c.req.query();
    const filter = { status, text };
    const refused = rejections.map(({ keyId }) => keyId);
    const named = await namesOfKeys(c, refused);
    const items = [...signals.map(signalItem), ...rejections.map((one) => rejectionItem(one, named))]
      .sort((a, b) => b.atMs - a.atMs)
      .filter((item) => isShown(item, filter))
      .slice(0, LIVE_FIRST_ROWS);
    const data = { path: workspacePath(c), items, filter, keyNames: named, nowMs: Date.now() };
    return page(c, { title: "Live", section: "live" }, <LiveView {...data} />);
  })
  .get("/signals", (c) => watch(c, "signals"))
  .get("/rejections", (c) => watch(c, "rejections"));

/**
 * Names by id of the keys of the first rows, and of the newest, calls of which may be refused next. None for whoever may not
 * see keys (spec §1).
 */
async function namesOfKeys(c: Context<PagesEnv>, shown: readonly string[]): Promise<Record<string, string>> {
  if (!canManageKeys(c.get("role"))) return {};
  const [db, { id }] = [c.get("db"), c.get("workspace")];
  const names = await Promise.all([newestKeyNames(db, id, "", KEYS_OFFERED), keyNames(db, id, shown)]);
  return Object.fromEntries(names.flatMap((some) => [...some]));
}

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
