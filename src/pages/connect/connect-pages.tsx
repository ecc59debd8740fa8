/** Connect: setting up a sender (spec §4). Members who may not manage keys see the steps and nothing of the keys (§5.6). */
import type { Context } from "hono";
import { findKey, listActiveKeys } from "../../control/api-keys.ts";
import { keyStatus } from "../../domain/keys/api-key.ts";
import { canManageKeys } from "../../domain/keys/role.ts";
import { PAGE_ROWS } from "../../limits.ts";
import { quotaCounter } from "../../workspace/objects.ts";
import { pages, type PagesEnv, workspacePath } from "../pages-env.ts";
import { notFoundPage, page } from "../page.tsx";
import { ManagersConnectView, MembersConnectView } from "./connect-view.tsx";

const TEXT = { title: "Connect", section: "connect" } as const;

export const connectPages = pages.createApp().get("/", (c) => {
  const query = c.req.query();
  const composed = { status: query["status"] ?? "Registered", program: query["program"] ?? "Spring Webinar" };
  const { origin } = new URL(c.req.url);
  if (canManageKeys(c.get("role"))) return managersPage(c, origin, composed);
  const { name } = c.get("workspace");
  return page(c, TEXT, <MembersConnectView origin={origin} workspaceName={name} composed={composed} />);
});

async function managersPage(c: Context<PagesEnv>, origin: string, composed: { status: string; program: string }) {
  const { id } = c.get("workspace");
  const { key: keyId, cursor } = c.req.query();
  const nowMs = Date.now();
  const [active, asked] = await Promise.all([
    listActiveKeys(c.get("db"), id, nowMs, { cursor: cursor ?? null, limit: PAGE_ROWS }),
    keyId === undefined ? null : findKey(c.get("db"), id, keyId),
  ]);
  if (keyId !== undefined && asked === null) return notFoundPage(c, "key");
  if (asked !== null && keyStatus(asked, nowMs) === "Inactive") return c.redirect(`${workspacePath(c)}/connect`, 303);
  const selected = asked ?? active.items[0] ?? null;
  const calls = selected === null ? null : await quotaCounter(c.env, id).keyCalls(selected.id);
  const query: Record<string, string> = cursor === undefined ? {} : { cursor };
  return page(
    c,
    TEXT,
    <ManagersConnectView home={workspacePath(c)} {...{ origin, query, active, selected, calls, composed, nowMs }} />,
  );
}
