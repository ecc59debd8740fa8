/** A bound to how long a page, or a call of the operator's, takes to answer, whatever it is waiting for. */
import type { MiddlewareHandler } from "hono";
import type { AppEnv } from "../env.ts";
import { within } from "../platform/time-limit.ts";

/** Whoever waits longer has gone. A preview of a rule over some ten million signals takes about as long. */
const ANSWER_MS = 30_000;
/** Ask many objects, each of which has a limit of its own, so that those that do not answer are named. */
const OWN_LIMITS = new Set(["/operator/health", "/operator/metrics"]);

/** Fails what takes too long, as a fault of the platform does: onError answers it with 503. */
export const answerInTime: MiddlewareHandler<AppEnv> = async (c, next) => {
  if (OWN_LIMITS.has(c.req.path)) return next();
  await within(ANSWER_MS, next());
};
