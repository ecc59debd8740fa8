/** A bound to how long a page, or a call of the operator's, takes to answer, whatever it is waiting for. */
import type { MiddlewareHandler } from "hono";
import type { AppEnv } from "../env.ts";
import { within } from "../platform/time-limit.ts";

/** Whoever waits longer has gone. A preview of a rule over some ten million signals takes about as long. */
const ANSWER_MS = 30_000;

/** Fails what takes too long, as a fault of the platform does: onError answers it with 503. */
export const answerInTime: MiddlewareHandler<AppEnv> = (_, next) => within(ANSWER_MS, next());
