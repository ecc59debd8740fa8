/**
 * Gives each request its id and writes its one log line: the route's template, never the path. A flood from strangers is
 * the exception: lines for calls that no workspace stands behind are summed up beyond a few a second, because each costs
 * more time than refusing the call does, and money.
 */
import type { MiddlewareHandler } from "hono";
import { routePath } from "hono/route";
import type { AppEnv } from "../env.ts";
import { STRANGER_LOG_LINES_PER_SECOND } from "../limits.ts";
import { newId } from "./ids.ts";
import { logEvent } from "./log.ts";

/** This isolate's lines for strangers in the current second, and calls that got none. Plain counts, no promises. */
const strangers = { secondMs: 0, lines: 0, unlogged: 0 };

export const requestLog: MiddlewareHandler<AppEnv> = async (c, next) => {
  const startedMs = Date.now();
  const requestId = newId("req", startedMs);
  c.set("requestId", requestId);
  c.set("logFields", {});
  await next();
  c.res.headers.set("x-request-id", requestId);
  const fields = c.get("logFields");
  const status = c.res.status;
  if (status >= 400 && status < 500 && fields["workspace"] === undefined && !strangerMayLog(startedMs)) return;
  const route = routePath(c, -1);
  logEvent("request", {
    request_id: requestId,
    method: c.req.method,
    route,
    status,
    ms: Date.now() - startedMs,
    ...fields,
  });
};

function strangerMayLog(nowMs: number): boolean {
  if (nowMs - strangers.secondMs >= 1_000) {
    if (strangers.unlogged > 0)
      logEvent("requests_unlogged", { since_ms: strangers.secondMs, count: strangers.unlogged });
    Object.assign(strangers, { secondMs: nowMs, lines: 0, unlogged: 0 });
  }
  if (strangers.lines++ < STRANGER_LOG_LINES_PER_SECOND) return true;
  strangers.unlogged++;
  return false;
}
