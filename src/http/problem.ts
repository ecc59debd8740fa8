/**
 * RFC 9457 problem details, and the single place that maps a rejection to a status (spec §7). A problem never contains
 * the path, because that contains the key.
 */
import type { Context, ErrorHandler, NotFoundHandler } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { cut } from "../domain/text.ts";
import { detailForSender, type Rejection } from "../domain/keys/rejection.ts";
import { isLoopback } from "../domain/loopback.ts";
import { type AppEnv, JurisdictionError } from "../env.ts";
import { isRejectionCode, REJECTIONS } from "./rejection-table.ts";
import { RETRY_MIN_SECONDS } from "../limits.ts";
import { errorText, logEvent } from "../platform/log.ts";

interface Problem {
  status: ContentfulStatusCode;
  /** Stable, for programs. */
  code: string;
  /** The same for every problem of this code. */
  title: string;
  /** The error of this request and the remedy. */
  detail: string;
  headers?: Record<string, string>;
  more?: Record<string, unknown>;
}

export function problem(c: Pick<Context<AppEnv>, "var" | "req">, described: Problem): Response {
  const { status, code, headers } = described;
  const { requestId, logFields } = c.var;
  logFields["code"] = code;
  const fixed = { "content-type": "application/problem+json", "x-request-id": requestId };
  const isOfOperator = c.req.path.startsWith("/operator/");
  return new Response(problemBody(described, requestId, isOfOperator), { status, headers: { ...fixed, ...headers } });
}

export function problemBody(
  { status, code, title, detail, more }: Problem,
  requestId: string,
  isOfOperator = false,
): string {
  const type = explanationOf(code, isOfOperator);
  return JSON.stringify({ type, title, status, detail, code, request_id: requestId, ...more });
}

export const SENDER_CODES_PATH = "/docs/senders/codes";
export const API_CODES_PATH = "/docs/api/codes";

/** The codes that a sender and a caller of the operator API can meet. */
const SHARED_CODES: readonly string[] = [
  "not_found",
  "method_not_allowed",
  "body_not_json",
  "body_unreadable",
  "body_too_large",
  "content_encoding_unsupported",
  "rate_limited",
  "unavailable",
];

/**
 * Where the documentation explains a code.
 *
 * @param isOfOperator whether the operator API answers with it. Only for shared codes that makes a difference.
 */
export function explanationOf(code: string, isOfOperator = false): string {
  const isForSenders = SHARED_CODES.includes(code) ? !isOfOperator : isRejectionCode(code);
  return `${isForSenders ? SENDER_CODES_PATH : API_CODES_PATH}#${code}`;
}

export function methodNotAllowed(c: Pick<Context<AppEnv>, "var" | "req">, allow: string): Response {
  const detail = `This path takes ${allow}.`;
  return problem(c, {
    status: 405,
    code: "method_not_allowed",
    title: "Method not allowed",
    detail,
    headers: { allow },
  });
}

export function retryAfter(ms: number): Record<string, string> {
  return { "retry-after": String(Math.max(1, Math.ceil(ms / 1_000))) };
}

export function rejectionProblem(rejection: Rejection): Problem {
  const { status, title, detail, headers } = REJECTIONS[rejection.code];
  const wait = "retryAfterMs" in rejection ? retryAfter(rejection.retryAfterMs) : {};
  const text = "detail" in rejection ? detailForSender(rejection) : (detail ?? title);
  return { status, code: rejection.code, title, detail: text, headers: { ...headers, ...wait } };
}

const STORED_DETAIL_MAX_LENGTH = 1_500;

/** The sender's error text without quotes from the body, for storage and pages. */
export function storedDetail(rejection: Rejection): string {
  const detail = "detail" in rejection ? rejection.detail : rejectionProblem(rejection).detail;
  return cut(detail, STORED_DETAIL_MAX_LENGTH);
}

export const onNotFound: NotFoundHandler<AppEnv> = (c) =>
  problem(c, {
    status: 404,
    code: "not_found",
    title: "Not found",
    detail: c.req.path.startsWith("/api/")
      ? "There is nothing at this address. Use the webhook URL that was shown with the key: the key stands in its path. The endpoints are described at /docs/senders."
      : "There is nothing at this address. The endpoints are described at /docs.",
  });

/** The answer to a developer who started `wrangler dev` alone in a fresh clone. */
const UNPREPARED = "The local database has no tables yet. Stop this service, and start it with `npm run dev`.";

function isUnprepared(error: Error, c: Context<AppEnv>): boolean {
  return isLoopback(c.req.url) && errorText(error).includes("no such table");
}

/** 503 with Retry-After, so that senders repeat the request: a fault delays a signal and loses nothing. */
export const onError: ErrorHandler<AppEnv> = (error, c) => {
  // Logs only the frames of the stack, because its first lines repeat the message, which may contain parameters of a
  // query.
  const frames = (error.stack ?? "").split("\n").filter((line) => line.trimStart().startsWith("at "));
  logEvent("error", { request_id: c.get("requestId"), error: errorText(error), stack: frames.join("\n") });
  const unavailable = rejectionProblem({ code: "unavailable", retryAfterMs: RETRY_MIN_SECONDS * 1_000 });
  const why = error instanceof JurisdictionError ? error.message : "The request could not be completed.";
  const detail = isUnprepared(error, c) ? UNPREPARED : `${why} Send it again after Retry-After seconds.`;
  return problem(c, { ...unavailable, detail });
};
