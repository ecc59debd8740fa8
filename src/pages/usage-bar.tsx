/** The bar that tells on every page how much of the signal limit is used (spec §8.2–§8.4), until it is dismissed. */
import type { Context } from "hono";
import { getCookie, setCookie } from "hono/cookie";
import { errorText, logEvent } from "../http/log.ts";
import type { Usage } from "../quota/protocol.ts";
import { usageOf } from "../workspace/quota.ts";
import type { PagesEnv } from "./environment.ts";
import { usageNotice, usageNoticeName } from "./usage-copy.ts";
import { UsageBar } from "./views/usage-bar.tsx";

const COOKIE = "usage_seen";

/** Nothing below 80 %, nothing that this browser has dismissed, and nothing where the usage cannot be read: no page waits for it. */
export async function usageBar(c: Context<PagesEnv>) {
  const usage = await readUsage(c);
  if (usage === null) return <></>;
  const [notice, name] = [usageNotice(usage), usageNoticeName(usage)];
  if (notice === null || name === null || getCookie(c, COOKIE) === name) return <></>;
  const home = `/w/${c.get("workspace").slug}`;
  return <UsageBar home={home} notice={notice} name={name} back={c.req.path} />;
}

/** @param name what was dismissed: the level and the period. It is told again when either changes. */
export function dismissUsageBar(c: Context<PagesEnv>, name: string): void {
  const { protocol } = new URL(c.req.url);
  setCookie(c, COOKIE, name, {
    path: `/w/${c.get("workspace").slug}`,
    httpOnly: true,
    sameSite: "Lax",
    secure: protocol === "https:",
    maxAge: DISMISSED_S,
  });
}

/** A period and a little more. */
const DISMISSED_S = 32 * 24 * 3_600;

async function readUsage(c: Context<PagesEnv>): Promise<Usage | null> {
  try {
    return await usageOf(c.env, c.get("db"), c.get("workspace").id);
  } catch (error) {
    logEvent("error", { request_id: c.get("requestId"), error: errorText(error) });
    return null;
  }
}
