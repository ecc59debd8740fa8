/** The operator API and the pages. index.ts loads this module with the first such request. */
import { Hono } from "hono";
import type { AppEnv } from "./env.ts";
import { onError, onNotFound } from "./http/problem.ts";
import { onlyFromThisMachine } from "./http/loopback.ts";
import { requestLog } from "./http/request-log.ts";
import { delayStranger } from "./http/workspace-share.ts";
import { documentRoutes, operatorRoutes } from "./operator/operator-api.ts";
import { pageRoutes } from "./pages/page-routes.tsx";
import { within } from "./platform/time-limit.ts";

/** A preview over some ten million signals takes about as long; no client waits longer. */
const ANSWER_MS = 30_000;

export const otherRoutes = new Hono<AppEnv>({ strict: false })
  .use(requestLog)
  .use(onlyFromThisMachine)
  // A request that takes too long fails like a fault of the platform: onError answers 503.
  .use((_, next) => within(ANSWER_MS, next()))
  .use(async (c, next) => {
    await next();
    if (c.get("isKnown") !== true) await delayStranger();
  })
  .route("/operator", operatorRoutes)
  .route("/", documentRoutes)
  .route("/", pageRoutes)
  .notFound(onNotFound)
  .onError(onError);
