/** What no handler answered: an unknown path, a bug, or a platform fault. */
import type { ErrorHandler, NotFoundHandler } from "hono";
import type { AppEnv } from "../env.ts";
import { RETRY_MIN_SECONDS } from "../limits.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { problem, refusalProblem } from "./problem.ts";

export const onNotFound: NotFoundHandler<AppEnv> = (c) =>
  problem(c, {
    status: 404,
    code: "not_found",
    title: "Not found",
    detail: c.req.path.startsWith("/api/")
      ? "There is nothing at this address. Use the webhook URL that was shown with the key: the key stands in its path. The endpoints are described at /docs."
      : "There is nothing at this address. The endpoints are described at /docs.",
  });

/** Answers 503 with Retry-After: senders repeat the request, and a fault delays a signal instead of losing it. */
export const onError: ErrorHandler<AppEnv> = (error, c) => {
  // Only the stack's frames are logged: its first lines repeat the message, which may hold a query's parameters.
  const frames = (error.stack ?? "").split("\n").filter((line) => line.trimStart().startsWith("at "));
  logEvent("error", { request_id: c.get("requestId"), error: errorText(error), stack: frames.join("\n") });
  const unavailable = refusalProblem({ code: "unavailable", retryAfterMs: RETRY_MIN_SECONDS * 1_000 });
  const detail = "The request could not be completed. Send it again after Retry-After seconds.";
  return problem(c, { ...unavailable, detail });
};
