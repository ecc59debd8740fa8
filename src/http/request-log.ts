/** Gives each request its id and writes its one log line: the route's template, never the path. */
import { routePath } from "hono/route";
import { factory } from "../env.ts";
import { newId } from "./ids.ts";
import { logEvent } from "./log.ts";

export const requestLog = factory.createMiddleware(async function requestLog(c, next) {
  const startedMs = Date.now();
  const requestId = newId("req", startedMs);
  c.set("requestId", requestId);
  c.set("logFields", {});
  await next();
  c.res.headers.set("x-request-id", requestId);
  logEvent("request", {
    request_id: requestId,
    method: c.req.method,
    route: routePath(c, -1),
    status: c.res.status,
    ms: Date.now() - startedMs,
    ...c.get("logFields"),
  });
});
