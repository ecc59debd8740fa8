/**
 * Error responses: RFC 9457 problem details, and the one place that turns a refusal into a status (spec §7). A problem
 * never names the path: it holds the key.
 */
import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { AppEnv } from "../env.ts";
import { toSender } from "../domain/keys/echo.ts";
import type { Refusal, RefusalCode } from "../domain/keys/refusal.ts";

export interface Problem {
  status: ContentfulStatusCode;
  /** Stable, for programs. */
  code: string;
  /** The same for every problem of this code. */
  title: string;
  /** What was wrong with this request, and what to do. */
  detail: string;
  headers?: Record<string, string>;
  /** Further members of the body. */
  more?: Record<string, unknown>;
}

export function problem(c: Context<AppEnv>, described: Problem): Response {
  const { status, code, headers } = described;
  const requestId = c.get("requestId");
  c.get("logFields")["code"] = code;
  const fixed = { "content-type": "application/problem+json", "x-request-id": requestId };
  return new Response(problemBody(described, requestId), { status, headers: { ...fixed, ...headers } });
}

export function problemBody({ status, code, title, detail, more }: Problem, requestId: string): string {
  return JSON.stringify({ type: `/docs#${code}`, title, status, detail, code, request_id: requestId, ...more });
}

/** Seconds, at least one. */
export function retryAfter(ms: number): Record<string, string> {
  return { "retry-after": String(Math.max(1, Math.ceil(ms / 1_000))) };
}

/** Status, title and detail of every refusal of the ingestion endpoints. */
export function refusalProblem(refusal: Refusal): Problem {
  const code = refusal.code;
  switch (code) {
    case "unauthorized":
      return {
        status: 401,
        code,
        title: "Unauthorized",
        // One text for every cause: it tells a stranger nothing.
        detail:
          "The API key is not valid, or the X-Api-Secret header that it requires is missing or wrong. Create a key " +
          "under Settings > API Keys and use its full webhook URL.",
        headers: { "www-authenticate": 'ApiKey realm="signal ingestion"' },
      };
    case "endpoint_mismatch":
      return {
        status: 403,
        code,
        title: "Wrong endpoint for this key",
        detail:
          "Signal Staging keys post to /api/signal-staging/…, Product Org Updates keys to /api/product-orgs/…. Use " +
          "the webhook URL that was shown with the key.",
      };
    case "body_empty":
    case "body_not_json":
    case "body_unreadable":
      return { status: 400, code, title: "The body is not JSON", detail: toSender(refusal) };
    case "idempotency_key_invalid":
      return { status: 400, code, title: "Invalid Idempotency-Key", detail: toSender(refusal) };
    case "media_type_unsupported":
      return { status: 415, code, title: "Unsupported media type", detail: toSender(refusal) };
    case "content_encoding_unsupported":
      return {
        status: 415,
        code,
        title: "Unsupported Content-Encoding",
        detail: toSender(refusal),
        headers: { "accept-encoding": "gzip" },
      };
    case "body_too_large":
    case "batch_too_long":
    case "signal_too_large":
      return { status: 413, code, title: "Too large", detail: toSender(refusal) };
    case "batch_empty":
    case "signal_not_json":
    case "signal_not_object":
    case "signal_too_deep":
    case "event_missing":
    case "event_invalid":
    case "email_invalid":
    case "source_invalid":
    case "properties_invalid":
    case "template_mismatch":
      return { status: 422, code, title: "Not a valid signal", detail: toSender(refusal) };
    case "rate_limited":
      return {
        status: 429,
        code,
        title: "Too many requests",
        detail: "Requests came faster than the request rate allows. Send again after Retry-After seconds.",
        headers: retryAfter(refusal.retryAfterMs),
      };
    case "allowance_exceeded":
      return {
        status: 429,
        code,
        title: "Signal limit reached",
        detail:
          "The plan's signal limit is used up and this workspace has no extra room any more. Enable overages or " +
          "upgrade the plan, or send again in the next billing period.",
        headers: retryAfter(refusal.retryAfterMs),
      };
    case "extra_room_exceeded":
      return {
        status: 429,
        code,
        title: "Twice the signal limit reached",
        detail:
          "The plan's signal limit and the extra room beyond it are used up. Enable overages or upgrade the plan, or " +
          "send again in the next billing period.",
        headers: retryAfter(refusal.retryAfterMs),
      };
    case "unavailable":
      return {
        status: 503,
        code,
        title: "Temporarily unavailable",
        detail: "Nothing was stored. Send the same request again after Retry-After seconds.",
        headers: retryAfter(refusal.retryAfterMs),
      };
  }
}

/** The detail as it may be stored and shown to everybody: what the sender is told, without the sender's own text. */
export function storedDetail(refusal: Refusal): string {
  return "detail" in refusal ? refusal.detail : refusalProblem(refusal).detail;
}

/** Status of a refusal on the ingestion endpoints. */
export function statusOf(code: RefusalCode): number {
  return refusalProblem({ code, cause: "key_unknown", detail: "", retryAfterMs: 0 } as Refusal).status;
}
