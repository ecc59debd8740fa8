/**
 * Table of contents: middlewares, routes, queue consumers and Durable Objects. No logic. What takes in signals is here when
 * the Worker starts; what only some isolates need is loaded when it is first asked for.
 */
import { HonoBase } from "hono/hono-base";
import { RegExpRouter } from "hono/router/reg-exp-router";
import type { AppEnv } from "./env.ts";
import { onError, onNotFound } from "./http/errors.ts";
import { onlyFromHere } from "./http/loopback.ts";
import { requestLog } from "./http/request-log.ts";
import { ingestRoutes } from "./ingest/routes.ts";

export { QuotaCounter } from "./quota/quota-counter.ts";
export { SignalStore } from "./store/signal-store.ts";

const ingest = new HonoBase<AppEnv>({ strict: false, router: new RegExpRouter() })
  .use(requestLog)
  .use(onlyFromHere)
  .route("/api", ingestRoutes)
  .notFound(onNotFound)
  .onError(onError);

/** Whether the path begins with `/api/`, without taking the URL apart. */
function isIngest(url: string): boolean {
  return url.startsWith("/api/", url.indexOf("/", "https://".length));
}

export default {
  async fetch(request: Request, env: Env, ctx: ExecutionContext) {
    if (isIngest(request.url)) return ingest.fetch(request, env, ctx);
    const { others } = await import("./other-routes.ts");
    return others.fetch(request, env, ctx);
  },
  async queue(batch, env) {
    const { consume } = await import("./queue/consumer.ts");
    await consume(batch, env);
  },
} satisfies ExportedHandler<Env, string>;
