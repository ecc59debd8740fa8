/**
 * Assigns request ids. Logs faults, and a few rejections a second, individually; summarizes the rest once a second and
 * isolate, because a log line costs more than most calls. LOG_REQUESTS = "all" logs every request, with the route's
 * template and never the path.
 */
import type { Context, MiddlewareHandler } from "hono";
import { routePath } from "hono/route";
import type { AppEnv } from "../env.ts";
import { onError } from "./problem.ts";
import { newId } from "../platform/ids.ts";
import { logEvent } from "../platform/log.ts";

const SUMMARY_MS = 1_000;
/** Rejections with a line of their own: the first few show the problem. */
export const REJECTED_LOG_LINES_PER_SECOND = 5;

/** Requests of this isolate share it, so it is plain data without promises. */
interface Summary {
  sinceMs: number;
  calls: number;
  signals: number;
  slowestMs: number;
  slowestRequestId: string;
  rejectedLines: number;
  rejected: Record<string, number>;
}

let summary: Summary | null = null;

export function logged(handler: (c: Context<AppEnv>) => Response | Promise<Response>) {
  return async (c: Context<AppEnv>): Promise<Response> => {
    const startedMs = begin(c);
    let response: Response;
    try {
      response = await handler(c);
    } catch (error) {
      response = await onError(error as Error, c);
    }
    end(c, response.status, startedMs);
    return response;
  };
}

export const requestLog: MiddlewareHandler<AppEnv> = async (c, next) => {
  const startedMs = begin(c);
  await next();
  c.res.headers.set("x-request-id", c.get("requestId"));
  end(c, c.res.status, startedMs);
};

function begin(c: Context<AppEnv>): number {
  const startedMs = Date.now();
  c.set("requestId", newId("req", startedMs));
  c.set("logFields", {});
  return startedMs;
}

function end(c: Context<AppEnv>, status: number, startedMs: number): void {
  const nowMs = Date.now();
  const ms = nowMs - startedMs;
  if (c.env.LOG_REQUESTS === "all" || status >= 500) {
    logCall(c, status, ms);
    return;
  }
  const current = currentSummary(c, nowMs);
  const fields = c.get("logFields");
  if (status >= 400) {
    const code = String(fields["code"] ?? status);
    if (current.rejectedLines++ < REJECTED_LOG_LINES_PER_SECOND) logCall(c, status, ms);
    else current.rejected[code] = (current.rejected[code] ?? 0) + 1;
    return;
  }
  current.calls++;
  current.signals += Number(fields["signals"] ?? 0);
  if (ms < current.slowestMs) return;
  current.slowestMs = ms;
  current.slowestRequestId = c.get("requestId");
}

function logCall(c: Context<AppEnv>, status: number, ms: number): void {
  const { requestId, logFields } = c.var;
  logEvent("request", {
    request_id: requestId,
    method: c.req.method,
    route: routePath(c, -1),
    status,
    ms,
    ...logFields,
  });
}

/** The request that starts a summary also logs it, or, if that request ends early, a later one. */
function currentSummary(c: Context<AppEnv>, nowMs: number): Summary {
  if (summary !== null && nowMs - summary.sinceMs < SUMMARY_MS) return summary;
  if (summary !== null) logSummary(summary);
  const begun: Summary = {
    sinceMs: nowMs,
    calls: 0,
    signals: 0,
    slowestMs: 0,
    slowestRequestId: "",
    rejectedLines: 0,
    rejected: {},
  };
  summary = begun;
  c.executionCtx.waitUntil(logSoon(begun));
  return begun;
}

async function logSoon(begun: Summary): Promise<void> {
  await scheduler.wait(SUMMARY_MS);
  if (summary !== begun) return;
  summary = null;
  logSummary(begun);
}

function logSummary({ sinceMs, calls, signals, slowestMs, slowestRequestId, rejected }: Summary): void {
  const unlogged = Object.keys(rejected).length > 0;
  if (calls === 0 && !unlogged) return;
  const slowest = calls === 0 ? {} : { slowest_ms: slowestMs, slowest_request_id: slowestRequestId };
  logEvent("requests", { since_ms: sinceMs, calls, signals, ...slowest, ...(unlogged ? { rejected } : {}) });
}
