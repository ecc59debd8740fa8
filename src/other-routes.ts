/** What people and their systems ask for besides sending signals. Loaded with the first such request, see index.ts. */
import { Hono } from "hono";
import type { AppEnv } from "./env.ts";
import { answerInTime } from "./http/answer-in-time.ts";
import { onError, onNotFound } from "./http/errors.ts";
import { onlyFromHere } from "./http/loopback.ts";
import { requestLog } from "./http/request-log.ts";
import { documentRoutes, operatorRoutes } from "./operator/operator-api.ts";
import { pageRoutes } from "./pages/page-routes.tsx";

export const others = new Hono<AppEnv>({ strict: false })
  .use(requestLog)
  .use(onlyFromHere)
  .use(answerInTime)
  .route("/operator", operatorRoutes)
  .route("/", documentRoutes)
  .route("/", pageRoutes)
  .notFound(onNotFound)
  .onError(onError);
