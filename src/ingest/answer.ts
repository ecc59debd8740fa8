/** Answers of the ingestion endpoints (design §9): a short body, results per item, and the current limits. */
import type { Context } from "hono";
import type { AppEnv } from "../env.ts";
import type { Refusal } from "../domain/keys/refusal.ts";
import { problem, problemBody, refusalProblem } from "../http/problem.ts";
import { NO_VERDICTS, ordinalsTaken } from "../domain/quota/quota.ts";
import type { PeriodState } from "../quota/protocol.ts";
import type { RateState, RequestRate } from "../domain/quota/request-rate.ts";
import type { CallOutcome, Outcome } from "./admit.ts";

export interface LimitState {
  rate: RateState | null;
  period: PeriodState | null;
}

type Headers = Record<string, string>;

const UNAUTHORIZED = refusalProblem({ code: "unauthorized", cause: "key_unknown" });
/** Body of every 401 up to the request id. */
const UNAUTHORIZED_BODY = problemBody(UNAUTHORIZED, "").slice(0, -2);

/** Headers of draft-ietf-httpapi-ratelimit-headers: limit and remainder of the request rate and of the billing period. */
export function limitHeaders({ rate, period }: LimitState, configured: RequestRate, nowMs: number): Headers {
  if (rate === null || period === null) return {};
  const windowS = Math.max(1, Math.ceil(configured.burst / configured.perSecond));
  let policy = `"request-rate";q=${configured.burst};w=${windowS}`;
  let state = `"request-rate";r=${rate.remaining};t=${Math.ceil(rate.resetMs / 1_000)}`;
  if (period.ceiling !== null) {
    policy += `, "billing-period";q=${period.ceiling}`;
    state += `, "billing-period";r=${period.remaining};t=${Math.ceil((period.periodEndMs - nowMs) / 1_000)}`;
  }
  return { "ratelimit-policy": policy, ratelimit: state };
}

export function refuseCall(c: Context<AppEnv>, refusal: Refusal, headers: Headers = {}): Response {
  if (refusal.code === "unauthorized") return unauthorized(c);
  const described = refusalProblem(refusal);
  return problem(c, { ...described, headers: { ...described.headers, ...headers } });
}

/** A 401 built from a constant body, because floods of them must be cheap. */
function unauthorized(c: Context<AppEnv>): Response {
  const requestId = c.get("requestId");
  c.get("logFields")["code"] = UNAUTHORIZED.code;
  return new Response(`${UNAUTHORIZED_BODY}${requestId}"}`, {
    status: UNAUTHORIZED.status,
    headers: {
      "content-type": "application/problem+json",
      "x-request-id": requestId,
      "www-authenticate": UNAUTHORIZED.headers?.["www-authenticate"] ?? "",
    },
  });
}

export function answerOne(c: Context<AppEnv>, outcome: Outcome, headers: Headers): Response {
  if (outcome.status === "rejected") return refuseCall(c, outcome.refusal, headers);
  c.get("logFields")["signals"] = 1;
  return accepted202(c, `{"status":"${outcome.status}","id":"${outcome.id}"}`, headers);
}

const ITEM_NOT_STORED = "This signal was not stored, for a reason that passes. Send it again.";
const REPEAT =
  "Not all of the signals could be stored. Send the same request again after Retry-After seconds: those that were stored " +
  "are told apart then, and are not stored twice.";

/** Maximum length of all details in an answer, so that the answer has at most 1 MB. Later items have only a code. */
const DETAILS_MAX_CHARACTERS = 100_000;

interface ItemResult {
  index: number;
  status: Outcome["status"];
  id?: string;
  code?: string;
  detail?: string;
}

/**
 * Answers a call with several signals: 202 if at least one was kept. Otherwise 429 if any was refused for quota (a retry may
 * help), or the first signal's problem. The results are included in each case. If a fault interrupted the body and repeating
 * all of it is harmless, the answer is 503, because SDKs treat any 202 as done.
 */
export function answerSeveral(
  c: Context<AppEnv>,
  { outcomes, brokenOff, repeat }: CallOutcome & { ok: true },
  headers: Headers,
): Response {
  const counts = { ...NO_VERDICTS };
  let decisive: Refusal | null = null;
  let detailsLeft = DETAILS_MAX_CHARACTERS;
  const results = outcomes.map((outcome, index): ItemResult => {
    counts[outcome.status]++;
    if (outcome.status !== "rejected") return { index, status: outcome.status, id: outcome.id };
    const { refusal } = outcome;
    if (decisive === null || ("retryAfterMs" in refusal && !("retryAfterMs" in decisive))) decisive = refusal;
    const detail = refusal.code === "unavailable" ? ITEM_NOT_STORED : refusalProblem(refusal).detail;
    detailsLeft -= detail?.length ?? 0;
    return { index, status: "rejected", code: refusal.code, ...(detailsLeft >= 0 && { detail }) };
  });
  Object.assign(c.get("logFields"), counts, { signals: ordinalsTaken(counts) });
  const more = { ...counts, results };
  const again = brokenOff === null ? null : refusalProblem(brokenOff);
  if (again !== null && repeat) {
    return problem(c, { ...again, detail: REPEAT, headers: { ...again.headers, ...headers }, more });
  }
  if (decisive !== null && counts.rejected === outcomes.length) {
    const described = refusalProblem(decisive);
    return problem(c, { ...described, headers: { ...described.headers, ...headers }, more });
  }
  const status = counts.rejected === 0 ? "accepted" : "partial";
  return accepted202(c, JSON.stringify({ status, ...more }), { ...again?.headers, ...headers });
}

function accepted202(c: Context<AppEnv>, body: string, headers: Headers): Response {
  const fixed = { "content-type": "application/json", "x-request-id": c.get("requestId") };
  return new Response(body, { status: 202, headers: { ...fixed, ...headers } });
}
