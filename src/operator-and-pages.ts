/** The operator API and the pages. index.ts loads this module with the first such request. */
import { Hono } from "hono";
import { type AppEnv, isLocal } from "./env.ts";
import { onError, onNotFound } from "./http/problem.ts";
import { rejectIfRemote } from "./http/loopback.ts";
import { requestLog } from "./http/request-log.ts";
import { delayStranger } from "./http/workspace-share.ts";
import { documentRoutes, operatorRoutes } from "./operator/operator-api.ts";
import { pageRoutes } from "./pages/page-routes.tsx";
import { withRetriedReads } from "./platform/retried-reads.ts";
import { within } from "./platform/time-limit.ts";

/** An export's first part of a large store takes about as long; no client waits longer. */
const READ_MS = 30_000;
/** A call of the platform that never answers. A key that a change makes can be made again for longer (`KEY_REPEATED_MS`). */
const CHANGE_MS = 60_000;
const READS: readonly string[] = ["GET", "HEAD"];

export const otherRoutes = new Hono<AppEnv>({ strict: false })
  .use(requestLog)
  .use(async (c, next) => (isLocal(c.env) ? rejectIfRemote(c) : null) ?? (await next()))
  // After the time limit, onError answers 503, as for a fault of the platform. A change gets more time, because it would go on after a
  // 503: a new key would exist, but the caller would not get its value.
  .use((c, next) => {
    if (!READS.includes(c.req.method)) return within(CHANGE_MS, next());
    c.env = withRetriedReads(c.env);
    return within(READ_MS, next());
  })
  .use(async (c, next) => {
    await next();
    if (c.get("isKnown") !== true) await delayStranger();
  })
  .route("/operator", operatorRoutes)
  .route("/", documentRoutes)
  .route("/", pageRoutes)
  .notFound(onNotFound)
  .onError(onError);
