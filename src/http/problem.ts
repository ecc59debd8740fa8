/**
 * Error responses: RFC 9457 problem details, and the one place that turns a refusal into a status (spec §7). A problem
 * never names the path: it holds the key.
 */
import { cut } from "../domain/cut.ts";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { AppEnv } from "../env.ts";
import { toSender } from "../domain/keys/echo.ts";
import type { Refusal } from "../domain/keys/refusal.ts";
import { refusalEntry } from "./refusal-table.ts";

export interface Problem {
  status: ContentfulStatusCode;
  /** Names the problem for programs, and never changes. */
  code: string;
  /** The same for every problem of this code. */
  title: string;
  /** What was wrong with this request, and what to do. */
  detail: string;
  headers?: Record<string, string>;
  /** Further members of the problem's body. */
  more?: Record<string, unknown>;
}

/** What a problem needs of a request: any context of the Worker has it. */
interface ProblemContext {
  get(key: "requestId"): string;
  get(key: "logFields"): AppEnv["Variables"]["logFields"];
}

export function problem(c: ProblemContext, described: Problem): Response {
  const { status, code, headers } = described;
  const requestId = c.get("requestId");
  c.get("logFields")["code"] = code;
  const fixed = { "content-type": "application/problem+json", "x-request-id": requestId };
  return new Response(problemBody(described, requestId), { status, headers: { ...fixed, ...headers } });
}

export function problemBody({ status, code, title, detail, more }: Problem, requestId: string): string {
  return JSON.stringify({ type: `/docs#${code}`, title, status, detail, code, request_id: requestId, ...more });
}

/** Answers 405: the path is known, the method is not. */
export function methodNotAllowed(c: ProblemContext, allow: string): Response {
  const detail = `This path takes ${allow}.`;
  return problem(c, {
    status: 405,
    code: "method_not_allowed",
    title: "Method not allowed",
    detail,
    headers: { allow },
  });
}

/** The Retry-After header, in seconds, at least one. */
export function retryAfter(ms: number): Record<string, string> {
  return { "retry-after": String(Math.max(1, Math.ceil(ms / 1_000))) };
}

/** What the sender of a refused call is answered; refusal-table.ts has what is the same for all calls. */
export function refusalProblem(refusal: Refusal): Problem {
  const { status, title, detail, headers } = refusalEntry(refusal.code);
  const wait = "retryAfterMs" in refusal ? retryAfter(refusal.retryAfterMs) : {};
  const told = "detail" in refusal ? toSender(refusal) : (detail ?? title);
  return { status, code: refusal.code, title, detail: told, headers: { ...headers, ...wait } };
}

/** Maximum length of a stored detail: the refusals of a workspace are stored in one row. */
const STORED_DETAIL_MAX_LENGTH = 1_500;

/** The detail as it may be stored and shown to everybody: what the sender is told, without the sender's own text. */
export function storedDetail(refusal: Refusal): string {
  const detail = "detail" in refusal ? refusal.detail : refusalProblem(refusal).detail;
  return cut(detail, STORED_DETAIL_MAX_LENGTH);
}
