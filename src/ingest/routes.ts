/** The five ingestion endpoints (spec §4). Each request is authenticated, read, checked, admitted and answered. */
import type { Context } from "hono";
import { HonoBase } from "hono/hono-base";
import { RegExpRouter } from "hono/router/reg-exp-router";
import {
  mapAccount,
  REQUEST_MAX_STEPS,
  type StepBudget,
  templateRefusal,
} from "../domain/accounts/payload-template.ts";
import { isJsonObject } from "../domain/json/dot-path.ts";
import { holdsKey } from "../domain/keys/api-key.ts";
import { holdsCredential } from "../domain/keys/echo.ts";
import type { Refusal, SignalRefusal } from "../domain/keys/refusal.ts";
import { requestsOfBody, type RateState, type RequestRate } from "../domain/quota/request-rate.ts";
import { ok, refuse, type Result } from "../domain/result.ts";
import { readSignals } from "../domain/signal/signal-body.ts";
import type { EndpointType } from "../domain/signal/signal.ts";
import { controlCharacterIn, fitsName, validateSignal } from "../domain/signal/validate-signal.ts";
import { type AppEnv, configuredRate } from "../env.ts";
import { readBody } from "../http/body.ts";
import { onNotFound, methodNotAllowed, storedDetail, problem, problemBody, refusalProblem } from "../http/problem.ts";
import { refuseIfRemote } from "../http/loopback.ts";
import { logged } from "../http/request-log.ts";
import { chargeBody, pauseOfRefusal, tooFast } from "../http/workspace-share.ts";
import { BODY_MAX_BYTES, BODY_MAX_SIGNALS, CALL_TIMEOUT_MS, IDEMPOTENCY_KEY_MAX_LENGTH } from "../limits.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import type { RefusedResult, PeriodState } from "../quota/protocol.ts";
import { admit, pushAfterAnswer, type Outcome } from "./admit.ts";
import { authenticate, type Credentials, failDeactivated, type KnownKey } from "./authenticate.ts";
import { SHED_ASK_MS, shedCall } from "./shedding.ts";
import { NO_VERDICTS, ordinalsTaken } from "../domain/quota/quota.ts";

interface Endpoint {
  type: EndpointType;
  /** Newline-delimited JSON is accepted. */
  lines: boolean;
  check: (payload: unknown, key: KnownKey, request: StepBudget) => Result<unknown, SignalRefusal>;
}

const SIGNALS: Endpoint = {
  type: "signal_staging",
  lines: false,
  check: validateSignal,
};
const BULK: Endpoint = { ...SIGNALS, lines: true };
const ACCOUNTS: Endpoint = { ...SIGNALS, type: "product_org", check: checkAccount };

/** The batch and source paths share a pattern, because Hono's fast router does not support overlapping ones. */
export const ingestApp = new HonoBase<AppEnv>({ strict: false, router: new RegExpRouter() })
  .post(
    "/api/signal-staging/webhook/:apiKey",
    handler((c) => ingest(c, SIGNALS, param(c, "apiKey"))),
  )
  .post("/api/signal-staging/webhook/:sourceOrKey/:keyOrBatch", handler(ingestWithSource))
  .post(
    "/api/signal-staging/bulk/:apiKey",
    handler((c) => ingest(c, BULK, param(c, "apiKey"))),
  )
  .post(
    "/api/product-orgs/webhook/:apiKey",
    handler((c) => ingest(c, ACCOUNTS, param(c, "apiKey"))),
  );

ingestApp.notFound(handler(async (c) => (isEndpoint(c.req.path) ? methodNotAllowed(c, "POST") : await onNotFound(c))));

/** No middleware, which would cost as much as a refusal. */
function handler(handle: (c: Context<AppEnv>) => Response | Promise<Response>) {
  return logged((c) => refuseIfRemote(c) ?? handle(c));
}

function ingestWithSource(c: Context<AppEnv>): Promise<Response> {
  const [first, second] = [param(c, "sourceOrKey"), param(c, "keyOrBatch")];
  const isBatch = second === "batch" && first.startsWith("sk_");
  return isBatch ? ingest(c, SIGNALS, first) : ingest(c, SIGNALS, second, first);
}

/** The endpoints accept only POST. */
function isEndpoint(path: string): boolean {
  return ingestApp.router.match("POST", path)[0].length > 0;
}

function param(c: Context<AppEnv>, name: string): string {
  return c.req.param(name) ?? "";
}

async function ingest(c: Context<AppEnv>, endpoint: Endpoint, apiKey: string, source?: string): Promise<Response> {
  const nowMs = Date.now();
  const credentials = {
    apiKey,
    secret: c.req.header("x-api-secret"),
    address: c.req.header("cf-connecting-ip"),
  };
  const authentication = await authenticate(c.env, credentials, nowMs);
  if (authentication.key !== null) c.get("logFields")["workspace"] = authentication.key.workspaceId;
  if (!authentication.ok) {
    if (authentication.key !== null) sumUpRefused(c, authentication.key, authentication.refusal, nowMs);
    return refuseCall(c, authentication.refusal);
  }
  const { key } = authentication;

  const rate = configuredRate(c.env);
  const refuseKnown = (refusal: Refusal, requests = 1) => refuseAuthenticated(c, credentials, key, refusal, requests);
  const refuseShed = async (refusal: Refusal) => {
    await pauseOfRefusal(key.workspaceId);
    // A deactivated key gets 401 at any rate (design §5), so some of the calls ask the counter.
    if (nowMs >= key.shedAskAtMs) {
      key.shedAskAtMs = nowMs + SHED_ASK_MS;
      return refuseKnown(refusal);
    }
    sumUpRefused(c, key, refusal, nowMs);
    return refuseCall(c, refusal);
  };
  const shed = shedCall(key.calls, nowMs, rate);
  if (!shed.allowed) return refuseShed(tooFast(shed.retryAfterMs, 1));

  if (key.endpointType !== endpoint.type) return refuseKnown({ code: "endpoint_mismatch" });
  const options = readOptions(c, source);
  if (!options.ok) return refuseKnown(options.refusal);
  const { keyId, workspaceId: holder } = key;
  const body = await readBody(c.req.raw, { maxBytes: BODY_MAX_BYTES, holder, rate, key: keyId });
  const requests = requestsOfBody(body.ok ? body.bytes.length : body.bytes);
  if (!body.ok) {
    const isOfThisIsolate = body.refusal.code === "rate_limited" || body.refusal.code === "unavailable";
    return isOfThisIsolate ? refuseShed(body.refusal) : refuseKnown(body.refusal, requests);
  }
  try {
    const budget = { stepsLeft: REQUEST_MAX_STEPS };
    const check = (payload: unknown) => endpoint.check(payload, key, budget);
    const read = readSignals(body.bytes, { maxSignals: BODY_MAX_SIGNALS, lines: endpoint.lines, check });
    if (!read.ok) return refuseKnown(mislabelled(c, read.refusal), requests);
    const { signals, isList } = read.value;
    const invalid = signals.find((signal) => signal.refusal !== null);
    if (invalid?.refusal && !isList) return refuseKnown(invalid.refusal, requests);

    const counted = requestsOfBody(body.bytes.length, signals.length);
    chargeBody(holder, counted - requests, Date.now(), rate);
    const call = { key, requestId: c.get("requestId"), signals, requests: counted, bytes: body.bytes };
    const admission = await admit(c.env, { ...call, ...options.value });
    if (admission.configVersion < key.configVersion) pushAfterAnswer(c, key);
    const headers = limitHeaders(admission, rate, nowMs);
    if (!admission.ok) {
      const isDeactivated = admission.refusal.code === "unauthorized";
      const refusal = isDeactivated ? await failDeactivated(c.env, credentials, key, nowMs) : admission.refusal;
      return refuseCall(c, refusal, headers);
    }
    const [only] = admission.outcomes;
    if (!isList && only !== undefined) return answerOne(c, only, headers);
    return answerSeveral(c, admission.outcomes, headers);
  } finally {
    body.release();
  }
}

/** The payload must fit the key's payload template (design §8.7). The consumer maps it again. */
function checkAccount(
  payload: unknown,
  { keyId, template }: KnownKey,
  request: StepBudget,
): Result<unknown, SignalRefusal> {
  if (!isJsonObject(payload))
    return refuse({ code: "signal_not_object", detail: "An account update is a JSON object." });
  if (template === null) throw new Error(`${keyId} is for account updates and has no payload template`);
  const mapped = mapAccount(template, payload, request);
  return mapped.ok ? mapped : refuse(templateRefusal(mapped.refusal));
}

interface Options {
  source: string | undefined;
  idempotencyKey: string | undefined;
}

function readOptions(c: Context<AppEnv>, source: string | undefined): Result<Options, Refusal> {
  const idempotencyKey = c.req.header("idempotency-key");
  const sourceProblem = source === undefined ? null : problemOfSource(source);
  if (sourceProblem !== null) return refuse({ code: "source_invalid", detail: sourceProblem });
  const keyProblem = idempotencyKey === undefined ? null : problemOfIdempotencyKey(idempotencyKey);
  if (keyProblem !== null) return refuse({ code: "idempotency_key_invalid", detail: keyProblem });
  return ok({ source, idempotencyKey });
}

/** The source is stored and shown, and so would be an API key in it. */
function problemOfSource(source: string): string | null {
  if (source.trim() === "" || !fitsName(source))
    return "The source in the path is empty or longer than 255 characters.";
  if (holdsCredential(source)) return "An API key or a secret stands in the path where the source's name belongs.";
  const control = controlCharacterIn(source);
  return control === null ? null : `The source in the path has ${control}. Remove it.`;
}

function problemOfIdempotencyKey(key: string): string | null {
  if (key.length > IDEMPOTENCY_KEY_MAX_LENGTH) {
    return `The Idempotency-Key is longer than ${IDEMPOTENCY_KEY_MAX_LENGTH} characters.`;
  }
  if (!/^[\x20-\x7e]+$/.test(key)) return "The Idempotency-Key is empty or not printable ASCII.";
  return holdsKey(key) ? "The Idempotency-Key holds an API key. Use a value that is new for each request." : null;
}

/** The label matters only if the body is not JSON: then the answer is 415 if the label says so too. */
function mislabelled(c: Context<AppEnv>, refusal: Refusal): Refusal {
  const type = c.req.header("content-type");
  if (refusal.code !== "body_not_json" || type === undefined || /json|text\/plain|octet-stream/i.test(type))
    return refusal;
  return { code: "media_type_unsupported", detail: refusal.detail };
}

/** The Quota Counter charges and records the refused call. If the key is deactivated, the answer is 401. */
async function refuseAuthenticated(
  c: Context<AppEnv>,
  credentials: Credentials,
  key: KnownKey,
  refusal: Refusal,
  requests: number,
): Promise<Response> {
  const counter = c.env.QUOTA_COUNTER.getByName(key.workspaceId);
  const reason = { keyId: key.keyId, code: refusal.code, detail: storedDetail(refusal) };
  const call = { ...reason, requestId: c.get("requestId"), signals: 1, requests };
  const noted = await within<RefusedResult>(CALL_TIMEOUT_MS, counter.refused(call));
  if (noted.outcome === "key_deactivated")
    return refuseCall(c, await failDeactivated(c.env, credentials, key, Date.now()));
  const answered: Refusal = noted.outcome === "noted" ? refusal : tooFast(noted.retryAfterMs, requests);
  return refuseCall(c, answered, limitHeaders(noted, configuredRate(c.env), Date.now()));
}

// Failed authentications with a known key, summed up for the rejections list. A flood costs the counter one call a
// second and isolate, or one a minute with a deactivated key.

const UNAUTHENTICATED_SUM_MS = 1_000;
/** Interval of reports about a deactivated key, after the first. */
const DEACTIVATED_SUM_MS = 60_000;
/** The platform ends work 30 seconds after the answer. */
const WAIT_AFTER_ANSWER_MS = 25_000;

export function sumUpRefused(c: Context<AppEnv>, key: KnownKey, refusal: Refusal, nowMs: number): void {
  const cause = "cause" in refusal ? refusal.cause : null;
  const known = key.refused.find((entry) => entry.code === refusal.code && entry.cause === cause);
  if (known === undefined) {
    const reason = { code: refusal.code, cause, detail: storedDetail(refusal) };
    const first = { requestId: c.get("requestId"), calls: 1, signals: 1, firstAtMs: nowMs, lastAtMs: nowMs };
    key.refused.push({ keyId: key.keyId, ...reason, ...first });
  } else {
    known.calls++;
    known.signals++;
    known.lastAtMs = nowMs;
  }
  // The first of these calls waits for later ones after its own answer and reports all. If it ends early, a later call
  // reports.
  if (nowMs < key.refusedReportMs) return;
  const waitMs = Math.max(UNAUTHENTICATED_SUM_MS, key.refusedPauseMs - nowMs);
  if (waitMs > WAIT_AFTER_ANSWER_MS) return;
  key.refusedReportMs = nowMs + waitMs + 9 * UNAUTHENTICATED_SUM_MS;
  c.executionCtx.waitUntil(reportSoon(c.env, key, waitMs));
}

async function reportSoon(env: Env, key: KnownKey, waitMs: number): Promise<void> {
  await scheduler.wait(waitMs);
  const { refused } = key;
  if (key.isDeactivated) key.refusedPauseMs = Date.now() + DEACTIVATED_SUM_MS;
  key.refused = [];
  key.refusedReportMs = 0;
  try {
    await within(CALL_TIMEOUT_MS, env.QUOTA_COUNTER.getByName(key.workspaceId).countRefused(refused));
  } catch (error) {
    logEvent("refused_calls_lost", { workspace: key.workspaceId, calls: refused.length, error: errorText(error) });
  }
}

// Answers (design §9): a short body, results per item, and the current limits.

interface LimitState {
  rate: RateState | null;
  period: PeriodState | null;
}

type Headers = Record<string, string>;

const UNAUTHORIZED = refusalProblem({ code: "unauthorized", cause: "key_unknown" });
/** The body of a 401 up to the request id. */
const UNAUTHORIZED_BODY = problemBody(UNAUTHORIZED, "").slice(0, -2);

/** draft-ietf-httpapi-ratelimit-headers, for the request rate and the billing period. */
function limitHeaders({ rate, period }: LimitState, configured: RequestRate, nowMs: number): Headers {
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

function refuseCall(c: Context<AppEnv>, refusal: Refusal, headers: Headers = {}): Response {
  if (refusal.code === "unauthorized") return unauthorized(c);
  const described = refusalProblem(refusal);
  return problem(c, { ...described, headers: { ...described.headers, ...headers } });
}

/** Composed from a constant, because floods of 401 must be cheap. */
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

function answerOne(c: Context<AppEnv>, outcome: Outcome, headers: Headers): Response {
  if (outcome.status === "rejected") return refuseCall(c, outcome.refusal, headers);
  c.get("logFields")["signals"] = 1;
  return accepted202(c, `{"status":"${outcome.status}","id":"${outcome.id}"}`, headers);
}

/** Maximum length of all details together, for answers of at most 1 MB. Later items have only a code. */
const DETAILS_MAX_CHARACTERS = 100_000;

interface ItemResult {
  index: number;
  status: Outcome["status"];
  id?: string;
  code?: string;
  detail?: string;
}

/**
 * 202 if at least one signal was kept. Otherwise 429 if any was refused for quota (a retry may help), or the first
 * signal's problem. Each answer includes the results.
 */
function answerSeveral(c: Context<AppEnv>, outcomes: Outcome[], headers: Headers): Response {
  const counts = { ...NO_VERDICTS };
  let decisive: Refusal | null = null;
  let detailsLeft = DETAILS_MAX_CHARACTERS;
  const results = outcomes.map((outcome, index): ItemResult => {
    counts[outcome.status]++;
    if (outcome.status !== "rejected") return { index, status: outcome.status, id: outcome.id };
    const { refusal } = outcome;
    if (decisive === null || ("retryAfterMs" in refusal && !("retryAfterMs" in decisive))) decisive = refusal;
    const { detail } = refusalProblem(refusal);
    detailsLeft -= detail?.length ?? 0;
    return { index, status: "rejected", code: refusal.code, ...(detailsLeft >= 0 && { detail }) };
  });
  Object.assign(c.get("logFields"), counts, { signals: ordinalsTaken(counts) });
  const more = { ...counts, results };
  if (decisive !== null && counts.rejected === outcomes.length) {
    const described = refusalProblem(decisive);
    return problem(c, { ...described, headers: { ...described.headers, ...headers }, more });
  }
  const status = counts.rejected === 0 ? "accepted" : "partial";
  return accepted202(c, JSON.stringify({ status, ...more }), headers);
}

function accepted202(c: Context<AppEnv>, body: string, headers: Headers): Response {
  const fixed = { "content-type": "application/json", "x-request-id": c.get("requestId") };
  return new Response(body, { status: 202, headers: { ...fixed, ...headers } });
}
