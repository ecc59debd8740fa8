/** What no handler answered: an unknown path, a bug, or a platform fault. */
import type { ErrorHandler, NotFoundHandler } from "hono";
import type { AppEnv } from "../env.ts";
import { RETRY_MIN_SECONDS } from "../limits.ts";
import { logEvent } from "./log.ts";
import { problem, refusalProblem } from "./problem.ts";

export const onNotFound: NotFoundHandler<AppEnv> = (c) =>
  problem(c, {
    status: 404,
    code: "not_found",
    title: "Not found",
    detail: "There is nothing at this address. The endpoints are described at /docs.",
  });

/** 503 with Retry-After: senders repeat the request, and a fault delays a signal instead of losing it. */
export const onError: ErrorHandler<AppEnv> = (error, c) => {
  logEvent("error", {
    request_id: c.get("requestId"),
    error: `${error.name}: ${error.message}`,
    stack: error.stack ?? "",
  });
  return problem(c, refusalProblem({ code: "unavailable", retryAfterMs: RETRY_MIN_SECONDS * 1_000 }));
};
