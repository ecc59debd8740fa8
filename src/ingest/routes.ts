/** The five ingestion endpoints (spec §4), and handshakes of senders. Each request is authenticated, read, checked, admitted and answered. */
import type { Context } from "hono";
import { HonoBase } from "hono/hono-base";
import { RegExpRouter } from "hono/router/reg-exp-router";
import {
  mapAccount,
  REQUEST_MAX_STEPS,
  type StepBudget,
  templateRejection,
} from "../domain/accounts/payload-template.ts";
import { isBefore } from "../domain/duration.ts";
import { isJsonObject } from "../domain/json/json-value.ts";
import { browserOrigin } from "../domain/keys/browser-origin.ts";
import { holdsCredential, problemOfIdempotencyKey } from "../domain/keys/api-key.ts";
import type { BodyRejection, Rejection, SignalRejection } from "../domain/keys/rejection.ts";
import { requestsOfBody, type RateState, type RequestRate } from "../domain/quota/request-rate.ts";
import { ok, reject, type Result } from "../domain/result.ts";
import { readSignals } from "../domain/signal/signal-body.ts";
import type { EndpointType } from "../domain/signal/signal.ts";
import { handshakeAnswer, type HandshakeAnswer } from "../domain/template/handshake.ts";
import type { SuccessStatus } from "../domain/template/key-template.ts";
import { controlCharacterIn, fitsName, validateSignal } from "../domain/signal/validate-signal.ts";
import { type AppEnv, configuredRate, isLocal } from "../env.ts";
import { readBody } from "../http/body.ts";
import { onNotFound, methodNotAllowed, storedDetail, problem, problemBody, rejectionProblem } from "../http/problem.ts";
import { rejectIfRemote } from "../http/loopback.ts";
import { logged } from "../http/request-log.ts";
import { chargeBody, pauseOfRejection, tooFast, SHED_ASK_MS, shedCall } from "../http/workspace-share.ts";
import { BODY_MAX_BYTES, BODY_MAX_SIGNALS, CALL_TIMEOUT_MS, NAME_MAX_CODE_POINTS } from "../limits.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import type { KeyState, RejectedResult, PeriodState } from "../quota/protocol.ts";
import { admit, type AdmitInput, type CallOutcome, pushAfterAnswer, type Outcome } from "./admit.ts";
import {
  authenticate,
  type Authentication,
  CLOSED,
  type Credentials,
  failDeactivated,
  failEnded,
  followKey,
  isCopy,
  type KnownKey,
} from "./authenticate.ts";
import { readMappedBody, type MappedBodyRules, type MappedSignalBody } from "./mapped-body.ts";
import { NO_VERDICTS, ordinalsTaken } from "../domain/quota/quota.ts";

/** A challenge has at most 256 characters. */
const HANDSHAKE_MAX_BYTES = 2_048;
/** After the answer that too many wait, a key rejects misfits for this long. Then one call asks again. */
const MISFITS_FULL_MS = 60_000;

interface Endpoint {
  type: EndpointType;
  /** Newline-delimited JSON is accepted. */
  lines: boolean;
  check: (payload: unknown, key: KnownKey, request: StepBudget) => Result<unknown, SignalRejection>;
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
  .get(
    "/api/signal-staging/webhook/:apiKey",
    handler((c) => askedByGet(c, param(c, "apiKey"))),
  )
  .get("/api/signal-staging/webhook/:sourceOrKey/:keyOrBatch", handler(askedWithSource))
  .post(
    "/api/signal-staging/bulk/:apiKey",
    handler((c) => ingest(c, BULK, param(c, "apiKey"))),
  )
  .post(
    "/api/product-orgs/webhook/:apiKey",
    handler((c) => ingest(c, ACCOUNTS, param(c, "apiKey"))),
  );

ingestApp.notFound(handler(async (c) => (isEndpoint(c.req.path) ? methodNotAllowed(c, "POST") : await onNotFound(c))));

/** No middleware, which would cost as much as a rejection. */
function handler(handle: (c: Context<AppEnv>) => Response | Promise<Response>) {
  return logged((c) => (isLocal(c.env) ? rejectIfRemote(c) : null) ?? handle(c));
}

function ingestWithSource(c: Context<AppEnv>): Promise<Response> {
  const { apiKey, source } = sourceAndKey(c);
  return ingest(c, SIGNALS, apiKey, source);
}

function askedWithSource(c: Context<AppEnv>): Promise<Response> {
  return askedByGet(c, sourceAndKey(c).apiKey);
}

function sourceAndKey(c: Context<AppEnv>): { apiKey: string; source?: string } {
  const [first, second] = [param(c, "sourceOrKey"), param(c, "keyOrBatch")];
  const isBatch = second === "batch" && first.startsWith("sk_");
  return isBatch ? { apiKey: first } : { apiKey: second, source: first };
}

/** The endpoints accept only POST. */
function isEndpoint(path: string): boolean {
  return ingestApp.router.match("POST", path)[0].length > 0;
}

function param(c: Context<AppEnv>, name: string): string {
  return c.req.param(name) ?? "";
}

interface Caller {
  credentials: Credentials;
  key: KnownKey;
  nowMs: number;
}

/** The caller of a call with a valid key and the right secret, or the answer to any other call. */
async function callerOf(c: Context<AppEnv>, apiKey: string): Promise<Caller | Response> {
  const nowMs = Date.now();
  const credentials = {
    apiKey,
    secret: c.req.header("x-api-secret"),
    address: c.req.header("cf-connecting-ip"),
  };
  const authentication = await authenticate(c.env, credentials, nowMs, c.executionCtx);
  if (authentication.key !== null) c.get("logFields")["workspace"] = authentication.key.workspaceId;
  if (authentication.ok) return { credentials, key: authentication.key, nowMs };
  if (authentication.key !== null) sumUpRejected(c, authentication.key, authentication.rejection, nowMs);
  return answerRejection(c, authentication.rejection);
}

/** A sender asks whether the address is ours, before it delivers (domain/template/handshake.ts). */
async function askedByGet(c: Context<AppEnv>, apiKey: string): Promise<Response> {
  const caller = await callerOf(c, apiKey);
  if (caller instanceof Response) return caller;
  const { key, nowMs } = caller;
  const shed = shedCall(key.calls, nowMs, configuredRate(c.env));
  if (!shed.allowed) return answerRejection(c, tooFast(shed.retryAfterMs, 1));
  if (!key.template?.signals) return methodNotAllowed(c, "POST");
  const answer = handshakeAnswer({ method: c.req.method, query: c.req.query() });
  return answer === null ? methodNotAllowed(c, "POST") : answerHandshake(c, caller, answer);
}

/** A handshake by POST is short, and its body names a challenge. Null: the body is a signal. */
function handshakeOf({ template }: KnownKey, body: Uint8Array): HandshakeAnswer | null {
  if (!template?.signals || body.length > HANDSHAKE_MAX_BYTES || !Buffer.from(body).includes("challenge")) return null;
  try {
    return handshakeAnswer({ method: "POST", body: JSON.parse(new TextDecoder().decode(body)) });
  } catch {
    return null;
  }
}

/** Never counted, so the counter is only asked whether calls with the key are accepted. */
async function answerHandshake(
  c: Context<AppEnv>,
  { credentials, key, nowMs }: Caller,
  { body, headers }: HandshakeAnswer,
): Promise<Response> {
  const counter = c.env.QUOTA_COUNTER.getByName(key.workspaceId);
  const { outcome } = await within<KeyState>(CALL_TIMEOUT_MS, counter.stateOfKey(key.keyId, isCopy(key, nowMs)));
  if (outcome === "key_deactivated") return answerRejection(c, await failDeactivated(c.env, credentials, key, nowMs));
  if (outcome === "key_ended") return answerRejection(c, await failEnded(c.env, credentials, key, nowMs));
  if (outcome !== "active") {
    const followed = await follow(c, credentials, key, outcome);
    if (!followed.ok) return answerRejection(c, followed.rejection);
  }
  return new Response(body, { headers: { ...headers, "x-request-id": c.get("requestId") } });
}

async function ingest(c: Context<AppEnv>, endpoint: Endpoint, apiKey: string, source?: string): Promise<Response> {
  const caller = await callerOf(c, apiKey);
  if (caller instanceof Response) return caller;
  const { credentials, key, nowMs } = caller;
  const origin = originOf(c);

  const rate = configuredRate(c.env);
  const countAndAnswer = (rejection: Rejection, requests = 1) =>
    countRejection(c, credentials, key, rejection, { requests, origin });
  const answerShed = async (rejection: Rejection) => {
    await pauseOfRejection(key.workspaceId);
    // A deactivated key gets 401 at any rate (design §5), so some of the calls ask the counter.
    if (!isBefore(key.shedAskAtMs, nowMs, SHED_ASK_MS)) {
      key.shedAskAtMs = nowMs + SHED_ASK_MS;
      return countAndAnswer(rejection);
    }
    sumUpRejected(c, key, rejection, nowMs);
    return answerRejection(c, rejection);
  };
  const shed = shedCall(key.calls, nowMs, rate);
  if (!shed.allowed) return answerShed(tooFast(shed.retryAfterMs, 1));

  if (key.endpointType !== endpoint.type) return countAndAnswer({ code: "endpoint_mismatch" });
  const options = readOptions(c, source);
  if (!options.ok) return countAndAnswer(options.rejection);
  const { keyId, workspaceId: holder } = key;
  const body = await readBody(c.req.raw, { maxBytes: BODY_MAX_BYTES, holder, rate, key: keyId });
  const requests = requestsOfBody(body.ok ? body.bytes.length : body.bytes);
  if (!body.ok) {
    const isOfThisIsolate = body.rejection.code === "rate_limited" || body.rejection.code === "unavailable";
    return isOfThisIsolate ? answerShed(body.rejection) : countAndAnswer(body.rejection, requests);
  }
  try {
    const handshake = handshakeOf(key, body.bytes);
    if (handshake !== null) return await answerHandshake(c, caller, handshake);
    const read = readSignalsOf(c, { endpoint, key, source, bytes: body.bytes });
    const template = key.template?.version ?? null;
    if (!read.ok) return countAndAnswer(mislabelled(c, read.rejection), requests);
    const { signals, isList, bytes, headers: named } = read.value;
    const invalid = signals.find((signal) => signal.rejection !== null);
    if (invalid?.rejection && !isList) return countAndAnswer(invalid.rejection, requests);

    const counted = requestsOfBody(body.bytes.length, signals.length);
    chargeBody(holder, counted - requests, Date.now(), rate);
    const call = { key, requestId: c.get("requestId"), signals, requests: counted, origin, bytes, named, template };
    const admission = await admitOrFollow(c, credentials, { ...call, ...options.value });
    if ("code" in admission) return answerRejection(c, admission);
    if (admission.configVersion < key.configVersion) pushAfterAnswer(c, key, admission.configVersion);
    const headers = limitHeaders(admission, rate, nowMs);
    if (admission.ok) key.misfitsFullUntilMs = admission.misfitsFull ? Date.now() + MISFITS_FULL_MS : 0;
    if (!admission.ok) {
      return answerRejection(c, await afterAdmission(c.env, credentials, key, admission.rejection, nowMs), headers);
    }
    const [only] = admission.outcomes;
    // Where the specification leaves the status open (spec §4), the key says it.
    const status = source === undefined ? 202 : key.answer;
    if (!isList && only !== undefined) return answerOne(c, only, { headers, status });
    return answerSeveral(c, admission.outcomes, { headers, status });
  } finally {
    body.release();
  }
}

/** The counter knows more of the key than the edge. Then the call counts as a failed authentication. */
async function afterAdmission(
  env: Env,
  credentials: Credentials,
  key: KnownKey,
  rejection: Rejection,
  nowMs: number,
): Promise<Rejection> {
  if (rejection.code !== "unauthorized") return rejection;
  const isEnded = rejection.cause === "key_expired";
  return isEnded ? failEnded(env, credentials, key, nowMs) : failDeactivated(env, credentials, key, nowMs);
}

/** Null: no browser made the call. */
function originOf(c: Context<AppEnv>): string | null {
  const [origin, mode, site] = ["origin", "sec-fetch-mode", "sec-fetch-site"].map((name) => c.req.header(name));
  return browserOrigin({ origin, mode, site }, () => new URL(c.req.url).origin);
}

/** A key that has moved to another workspace counts there. Returns a rejection if its workspace has ended or is closed. */
async function admitOrFollow(
  c: Context<AppEnv>,
  credentials: Credentials,
  call: AdmitInput,
): Promise<CallOutcome | Rejection> {
  const admission = await admit(c.env, call);
  if (admission !== "gone" && admission !== "closed") return admission;
  const moved = await follow(c, credentials, call.key, admission);
  if (!moved.ok) return moved.rejection;
  const followed = await admit(c.env, { ...call, key: moved.key });
  return followed === "gone" || followed === "closed" ? CLOSED : followed;
}

/** The key in the workspace that it has moved to. @param answer of the counter of its earlier workspace. */
async function follow(
  c: Context<AppEnv>,
  credentials: Credentials,
  key: KnownKey,
  answer: "gone" | "closed",
): Promise<Authentication> {
  return followKey(c.env, credentials, { key, answer }, Date.now(), c.executionCtx);
}

/** Splits and checks a body, with the template of the key if it has one. */
function readSignalsOf(
  c: Context<AppEnv>,
  {
    endpoint,
    key,
    source,
    bytes,
  }: { endpoint: Endpoint; key: KnownKey; source: string | undefined; bytes: Uint8Array },
): Result<MappedSignalBody, BodyRejection> {
  const rules = { maxSignals: BODY_MAX_SIGNALS, lines: endpoint.lines };
  const template = key.template?.signals ?? null;
  if (template !== null) {
    const sent = template.headers.map((name) => [name, c.req.header(name)] as const);
    const headers = Object.fromEntries(sent.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
    const receivedAtMs = Date.now();
    const misfits = misfitHandling(key, receivedAtMs);
    return readMappedBody(bytes, template, { source, headers, receivedAtMs }, { ...rules, misfits });
  }
  const budget = { stepsLeft: REQUEST_MAX_STEPS };
  const check = (payload: unknown) => endpoint.check(payload, key, budget);
  const read = readSignals(bytes, { ...rules, check });
  return read.ok ? ok({ ...read.value, bytes, headers: undefined }) : read;
}

function misfitHandling({ keepsMisfits, misfitsFullUntilMs }: KnownKey, nowMs: number): MappedBodyRules["misfits"] {
  if (!keepsMisfits) return "reject";
  return isBefore(misfitsFullUntilMs, nowMs, MISFITS_FULL_MS) ? "full" : "keep";
}

/** The payload must fit the key's payload template, else the sender gets 400. The consumer maps it again. */
function checkAccount(
  payload: unknown,
  { keyId, template }: KnownKey,
  request: StepBudget,
): Result<unknown, SignalRejection> {
  if (!isJsonObject(payload))
    return reject({ code: "signal_not_object", detail: "An account update is a JSON object." });
  if (!template?.accounts) throw new Error(`${keyId} is for account updates and has no payload template`);
  const mapped = mapAccount(template.accounts, payload, request);
  return mapped.ok ? mapped : reject(templateRejection(mapped.rejection));
}

interface Options {
  source: string | undefined;
  idempotencyKey: string | undefined;
}

function readOptions(c: Context<AppEnv>, source: string | undefined): Result<Options, Rejection> {
  const idempotencyKey = c.req.header("idempotency-key");
  const sourceProblem = source === undefined ? null : problemOfSource(source);
  if (sourceProblem !== null) return reject({ code: "source_invalid", detail: sourceProblem });
  const keyProblem = idempotencyKey === undefined ? null : problemOfIdempotencyKey(idempotencyKey);
  if (keyProblem !== null) return reject({ code: "idempotency_key_invalid", detail: keyProblem });
  return ok({ source, idempotencyKey });
}

/** The source is stored and shown, and so would be an API key in it. */
function problemOfSource(source: string): string | null {
  if (source.trim() === "" || !fitsName(source))
    return `The source in the path is empty or longer than ${NAME_MAX_CODE_POINTS} characters.`;
  if (holdsCredential(source)) return "An API key or a secret stands in the path where the source's name belongs.";
  const control = controlCharacterIn(source);
  return control === null ? null : `The source in the path has ${control}. Remove it.`;
}

/** The label matters only if the body is not JSON: then the answer is 415 if the label says so too. */
function mislabelled(c: Context<AppEnv>, rejection: Rejection): Rejection {
  const type = c.req.header("content-type");
  if (rejection.code !== "body_not_json" || type === undefined || /json|text\/plain|octet-stream/i.test(type))
    return rejection;
  return { code: "media_type_unsupported", detail: rejection.detail };
}

/** The Quota Counter charges and records the rejected call. If the key is deactivated, the answer is 401. */
async function countRejection(
  c: Context<AppEnv>,
  credentials: Credentials,
  key: KnownKey,
  rejection: Rejection,
  { requests, origin }: { requests: number; origin: string | null },
): Promise<Response> {
  const counter = c.env.QUOTA_COUNTER.getByName(key.workspaceId);
  const reason = { keyId: key.keyId, code: rejection.code, detail: storedDetail(rejection) };
  const call = { ...reason, requestId: c.get("requestId"), signals: 1, requests, ...(origin !== null && { origin }) };
  const noted = await within<RejectedResult>(CALL_TIMEOUT_MS, counter.rejected(call));
  if (noted.outcome === "key_deactivated")
    return answerRejection(c, await failDeactivated(c.env, credentials, key, Date.now()));
  if (noted.outcome === "gone" || noted.outcome === "closed") {
    // The next calls of a key that has moved are counted in its new workspace.
    const moved = await follow(c, credentials, key, noted.outcome);
    return answerRejection(c, moved.ok ? rejection : moved.rejection);
  }
  const answered: Rejection = noted.outcome === "noted" ? rejection : tooFast(noted.retryAfterMs, requests);
  return answerRejection(c, answered, limitHeaders(noted, configuredRate(c.env), Date.now()));
}

// Failed authentications with a known key, summed up for the rejections list. A flood costs the counter one call a
// second and isolate, or one in 25 seconds with a deactivated key.

const UNAUTHENTICATED_SUM_MS = 1_000;
/** Interval of reports about a deactivated key, after the first. The platform ends work 30 seconds after the answer. */
const DEACTIVATED_SUM_MS = 25_000;
/** A report that is later than this has ended early. */
const REPORT_LATE_MS = 9_000;

export function sumUpRejected(c: Context<AppEnv>, key: KnownKey, rejection: Rejection, nowMs: number): void {
  const cause = "cause" in rejection ? rejection.cause : null;
  const known = key.rejected.find((entry) => entry.code === rejection.code && entry.cause === cause);
  if (known === undefined) {
    const reason = { code: rejection.code, cause, detail: storedDetail(rejection) };
    const first = { requestId: c.get("requestId"), calls: 1, signals: 1, firstAtMs: nowMs, lastAtMs: nowMs };
    key.rejected.push({ keyId: key.keyId, ...reason, ...first });
  } else {
    known.calls++;
    known.signals++;
    known.lastAtMs = nowMs;
  }
  // The first of these calls waits for later ones after its own answer and reports all. If it ends early, a later call
  // reports.
  if (isBefore(key.rejectedReportMs, nowMs, DEACTIVATED_SUM_MS + REPORT_LATE_MS)) return;
  // If the clock was set back, the pause is longer than it can be.
  const waitMs = Math.min(DEACTIVATED_SUM_MS, Math.max(UNAUTHENTICATED_SUM_MS, key.rejectedPauseMs - nowMs));
  key.rejectedReportMs = nowMs + waitMs + REPORT_LATE_MS;
  c.executionCtx.waitUntil(reportSoon(c.env, key, waitMs));
}

async function reportSoon(env: Env, key: KnownKey, waitMs: number): Promise<void> {
  await scheduler.wait(waitMs);
  const { rejected } = key;
  if (key.isDeactivated) key.rejectedPauseMs = Date.now() + DEACTIVATED_SUM_MS;
  key.rejected = [];
  key.rejectedReportMs = 0;
  try {
    await within(CALL_TIMEOUT_MS, env.QUOTA_COUNTER.getByName(key.workspaceId).countRejected(rejected));
  } catch (error) {
    logEvent("rejected_calls_lost", { workspace: key.workspaceId, calls: rejected.length, error: errorText(error) });
  }
}

// Answers (design §9): a short body, results per item, and the current limits.

interface LimitState {
  rate: RateState | null;
  period: PeriodState | null;
}

type Headers = Record<string, string>;

const UNAUTHORIZED = rejectionProblem({ code: "unauthorized", cause: "key_unknown" });
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

function answerRejection(c: Context<AppEnv>, rejection: Rejection, headers: Headers = {}): Response {
  if (rejection.code === "unauthorized") return unauthorized(c);
  const described = rejectionProblem(rejection);
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

interface Success {
  headers: Headers;
  status: SuccessStatus;
}

function answerOne(c: Context<AppEnv>, outcome: Outcome, success: Success): Response {
  if (outcome.status === "rejected") return answerRejection(c, outcome.rejection, success.headers);
  c.get("logFields")["signals"] = 1;
  const misfit = outcome.isMisfit ? ',"misfit":true' : "";
  return accepted(c, `{"status":"${outcome.status}","id":"${outcome.id}"${misfit}}`, success);
}

/** Maximum length of all details together, for answers of at most 1 MB. Later items have only a code. */
const DETAILS_MAX_CHARACTERS = 100_000;

interface ItemResult {
  index: number;
  status: Outcome["status"];
  id?: string;
  misfit?: true;
  code?: string;
  detail?: string;
}

/**
 * 202 if at least one signal was kept. Otherwise 429 if any was rejected for quota (a retry may help), or the first
 * signal's problem. Each answer includes the results.
 */
function answerSeveral(c: Context<AppEnv>, outcomes: Outcome[], success: Success): Response {
  const counts = { ...NO_VERDICTS };
  let decisive: Rejection | null = null;
  let detailsLeft = DETAILS_MAX_CHARACTERS;
  const results = outcomes.map((outcome, index): ItemResult => {
    counts[outcome.status]++;
    if (outcome.status !== "rejected") {
      return { index, status: outcome.status, id: outcome.id, ...(outcome.isMisfit && { misfit: true }) };
    }
    const { rejection } = outcome;
    if (decisive === null || ("retryAfterMs" in rejection && !("retryAfterMs" in decisive))) decisive = rejection;
    const { detail } = rejectionProblem(rejection);
    detailsLeft -= detail?.length ?? 0;
    return { index, status: "rejected", code: rejection.code, ...(detailsLeft >= 0 && { detail }) };
  });
  Object.assign(c.get("logFields"), counts, { signals: ordinalsTaken(counts) });
  const more = { ...counts, results };
  if (decisive !== null && counts.rejected === outcomes.length) {
    const described = rejectionProblem(decisive);
    return problem(c, { ...described, headers: { ...described.headers, ...success.headers }, more });
  }
  const status = counts.rejected === 0 ? "accepted" : "partial";
  return accepted(c, JSON.stringify({ status, ...more }), success);
}

function accepted(c: Context<AppEnv>, body: string, { headers, status }: Success): Response {
  const fixed = { "content-type": "application/json", "x-request-id": c.get("requestId") };
  return new Response(body, { status, headers: { ...fixed, ...headers } });
}
