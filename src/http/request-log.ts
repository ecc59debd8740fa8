/**
 * Gives each request its id, and the log what is worth its price: faults and, up to a few a second, refusals have a line
 * each; everything else is summed up, one line a second and isolate. A line costs more time than most of these calls, and
 * money. With LOG_REQUESTS = "all" each has its own: route's template, never the path.
 */
import type { Context, MiddlewareHandler } from "hono";
import { routePath } from "hono/route";
import type { AppEnv } from "../env.ts";
import { onError } from "./errors.ts";
import { newId } from "../platform/ids.ts";
import { logEvent } from "../platform/log.ts";

/** How long an isolate sums up its requests before it logs them in one line. */
const REQUESTS_SUM_MS = 1_000;
/** Refused calls a second and isolate that have a log line of their own: what is wrong shows in the first few. */
export const REFUSED_LOG_LINES_PER_SECOND = 5;

/** This isolate's calls since a moment, of which no line has told yet. Plain counts, no promises. */
interface Sum {
  sinceMs: number;
  calls: number;
  signals: number;
  slowestMs: number;
  slowestRequestId: string;
  /** Refusals with a line of their own. */
  refusedLines: number;
  /** Refusals without a line of their own, by code. */
  refused: Record<string, number>;
}

let sum: Sum | null = null;

/** A handler whose errors are answered, and whose calls are logged: for routes that have no middleware. */
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

/** Logs the calls of all routes of an app; their errors are answered by the app itself. */
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
  const current = currentSum(c, nowMs);
  const fields = c.get("logFields");
  if (status >= 400) {
    const code = String(fields["code"] ?? status);
    if (current.refusedLines++ < REFUSED_LOG_LINES_PER_SECOND) logCall(c, status, ms);
    else current.refused[code] = (current.refused[code] ?? 0) + 1;
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

/** Whoever begins a sum sees to it that it is logged; should its own call have ended before that, a later one does. */
function currentSum(c: Context<AppEnv>, nowMs: number): Sum {
  if (sum !== null && nowMs - sum.sinceMs < REQUESTS_SUM_MS) return sum;
  if (sum !== null) logSum(sum);
  const begun: Sum = {
    sinceMs: nowMs,
    calls: 0,
    signals: 0,
    slowestMs: 0,
    slowestRequestId: "",
    refusedLines: 0,
    refused: {},
  };
  sum = begun;
  c.executionCtx.waitUntil(logSoon(begun));
  return begun;
}

async function logSoon(begun: Sum): Promise<void> {
  await scheduler.wait(REQUESTS_SUM_MS);
  if (sum !== begun) return;
  sum = null;
  logSum(begun);
}

function logSum({ sinceMs, calls, signals, slowestMs, slowestRequestId, refused }: Sum): void {
  const unlogged = Object.keys(refused).length > 0;
  if (calls === 0 && !unlogged) return;
  const slowest = calls === 0 ? {} : { slowest_ms: slowestMs, slowest_request_id: slowestRequestId };
  logEvent("requests", { since_ms: sinceMs, calls, signals, ...slowest, ...(unlogged ? { refused } : {}) });
}
