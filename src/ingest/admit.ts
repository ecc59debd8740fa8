/** Admits the checked signals of a body: one call of the workspace's Quota Counter, all or nothing. */
import type { LimitRejection, Rejection, SignalRejection } from "../domain/keys/rejection.ts";
import { isBefore } from "../domain/duration.ts";
import type { RateState } from "../domain/quota/request-rate.ts";
import { verdictInRun, type AdmittedVerdict } from "../domain/quota/quota.ts";
import type { BodySignal } from "../domain/signal/signal-body.ts";
import { newId } from "../platform/ids.ts";
import { tooFast } from "../http/workspace-share.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { isRetryable } from "../platform/retried-reads.ts";
import { within } from "../platform/time-limit.ts";
import { CALL_TIMEOUT_MS, RETRY_MIN_SECONDS } from "../limits.ts";
import type { AdmitCall, AdmitResult, InvalidSignals, PeriodState } from "../quota/protocol.ts";
import { writeCall, type WrittenCall, type CallHead, type SignalHead } from "../wire/message.ts";
import type { MappedSignalBody } from "./mapped-body.ts";
import { isCopy, type KnownKey } from "./authenticate.ts";
import type { Context } from "hono";
import type { AppEnv } from "../env.ts";

export type Outcome =
  | { status: AdmittedVerdict; id: string; isMisfit?: true }
  | { status: "rejected"; rejection: SignalRejection | LimitRejection };

interface Limits {
  rate: RateState | null;
  period: PeriodState | null;
  /** Version of the configuration that the counter used; infinity: unknown. */
  configVersion: number;
}

/** `misfitsFull`: the key must reject misfits for a while. */
export type CallOutcome = Limits &
  ({ ok: true; outcomes: Outcome[]; misfitsFull: boolean } | { ok: false; rejection: Rejection });

export interface AdmitInput {
  key: KnownKey;
  requestId: string;
  source: string | undefined;
  idempotencyKey: string | undefined;
  signals: MappedSignalBody["signals"];
  requests: number;
  /** Null: no browser made the call. */
  origin: string | null;
  /** The texts at the positions of the signals. */
  bytes: Uint8Array;
  /** The headers that the template of the key reads. */
  named: MappedSignalBody["headers"];
  /** The version of the template that has checked the signals: the key may get another one meanwhile. Null: none. */
  template: number | null;
}

const UNAVAILABLE = { code: "unavailable", retryAfterMs: RETRY_MIN_SECONDS * 1_000 } as const;
const DEACTIVATED = { code: "unauthorized", cause: "key_deactivated" } as const;
const ENDED = { code: "unauthorized", cause: "key_expired" } as const;

/** Calls of the Quota Counter before the sender gets a 503. */
const ATTEMPTS = 3;

/** Returns an outcome for each signal, or one rejection for all. `gone`, `closed`: as AdmitResult; nothing was counted. */
export async function admit(env: Env, call: AdmitInput): Promise<CallOutcome | "gone" | "closed"> {
  const answer = await callCounter(env, call);
  if (answer === "gone" || answer === "closed") return answer;
  const failed = (rejection: Rejection): CallOutcome => {
    return { ok: false, rejection, rate: null, period: null, configVersion: Infinity };
  };
  if (answer === null) return failed(UNAVAILABLE);
  const { result, ids } = answer;
  if (result.outcome === "key_deactivated") return failed(DEACTIVATED);
  if (result.outcome === "key_ended") return failed(ENDED);
  const { rate, period } = result;
  if (result.outcome !== "counted") {
    const { outcome, retryAfterMs } = result;
    const rejection: Rejection =
      outcome === "full" ? { code: "unavailable", retryAfterMs } : tooFast(retryAfterMs, call.requests);
    return { ok: false, rejection, rate, period, configVersion: Infinity };
  }
  let nth = 0;
  const outcomes = call.signals.map((signal, index): Outcome => {
    if (signal.rejection !== null) return { status: "rejected", rejection: signal.rejection };
    const status = verdictInRun(nth++, result);
    return status === "rejected"
      ? { status, rejection: result.rejection ?? missing() }
      : { status, id: ids[index] ?? missing(), ...(signal.isMisfit && { isMisfit: true }) };
  });
  const { configVersion, misfitsFull = false } = result;
  return { ok: true, outcomes, rate, period, configVersion, misfitsFull };
}

type Answer = Exclude<AdmitResult, { outcome: "unconfigured" | "gone" | "closed" }>;

/** Null: the Quota Counter cannot be reached. Each attempt gives the signals new ids. */
async function callCounter(
  env: Env,
  call: AdmitInput,
): Promise<{ result: Answer; ids: (string | null)[] } | "gone" | "closed" | null> {
  const { key, requestId, signals } = call;
  const invalid = invalidSignals(signals);
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const ids = newIds(signals);
    const request: AdmitCall = { keyId: key.keyId, requestId, invalid, ...written(call, ids) };
    if (key.firstKeyId !== key.keyId) request.firstKeyId = key.firstKeyId;
    if (call.origin !== null) request.origin = call.origin;
    if (call.requests > 1) request.requests = call.requests;
    if (isCopy(key, Date.now())) request.isCopy = true;
    // After an error a stub stays broken, so each attempt creates a new one.
    const counter = env.QUOTA_COUNTER.getByName(key.workspaceId);
    try {
      // oxlint-disable-next-line no-await-in-loop
      const result = await within<AdmitResult>(CALL_TIMEOUT_MS, counter.admit(request));
      if (result.outcome === "gone" || result.outcome === "closed") return result.outcome;
      if (result.outcome !== "unconfigured") return { result, ids };
      // oxlint-disable-next-line no-await-in-loop
      const version = await within(CALL_TIMEOUT_MS, pushConfiguration(env, key.workspaceId, 0));
      if (version === null) return "gone";
    } catch (error) {
      logEvent("admit_failed", { workspace: key.workspaceId, attempt, error: errorText(error) });
      // The failed call may have been counted. With new ids the signals are counted again and found as duplicates, so
      // the books balance.
      if (!isRetryable(error)) return null;
    }
  }
  return null;
}

/** Most calls have none and allocate only the array. */
function invalidSignals(signals: BodySignal[]): InvalidSignals[] {
  const byCode: InvalidSignals[] = [];
  for (const { rejection } of signals) {
    if (rejection === null) continue;
    const known = byCode.find((entry) => entry.code === rejection.code);
    if (known === undefined) byCode.push({ code: rejection.code, detail: rejection.detail, signals: 1 });
    else known.signals++;
  }
  return byCode;
}

/** A new id for each valid signal; null for the others. */
function newIds(signals: BodySignal[]): (string | null)[] {
  const nowMs = Date.now();
  return signals.map(({ rejection }) => (rejection === null ? newId("sig", nowMs) : null));
}

function written(
  { key, source, idempotencyKey, signals, bytes, named, template }: AdmitInput,
  ids: (string | null)[],
): WrittenCall {
  const head: CallHead = { key: key.keyId };
  if (key.endpointType === "product_org") head.endpoint = "product_org";
  if (source !== undefined) head.source = source;
  if (template !== null) head.template = template;
  if (idempotencyKey !== undefined) head.idem = idempotencyKey;
  if (named !== undefined) head.headers = named;
  const valid: (SignalHead & { payload: Uint8Array })[] = [];
  for (const [index, { start, end, around }] of signals.entries()) {
    const id = ids[index] ?? null;
    if (id === null) continue;
    const payload = bytes.subarray(start, end);
    const signal: SignalHead & { payload: Uint8Array } = { id, payload };
    if (idempotencyKey !== undefined) signal.index = index;
    if (around !== undefined) signal.around = JSON.stringify(around);
    valid.push(signal);
  }
  return writeCall(head, valid);
}

function missing(): never {
  throw new Error("the Quota Counter did not decide a signal");
}

// Pushes the configuration of D1 to a Quota Counter (design §6): before the call if it has none, after the answer if it
// used an older one. Loads the control plane only then.

const PUSH_PAUSE_MS = 5_000;

/** @param since the counter's version; 0: none. @returns D1's version; null: D1 does not have the workspace, or it has ended. */
async function pushConfiguration(env: Env, workspaceId: string, since: number): Promise<number | null> {
  const { controlDatabase } = await import("../d1/database.ts");
  const { workspaceConfig } = await import("../d1/workspaces.ts");
  const config = await workspaceConfig(controlDatabase(env.DB.withSession("first-primary")), workspaceId, since);
  if (config === null) return null;
  await env.QUOTA_COUNTER.getByName(workspaceId).configure(config.versions, config.budgets);
  return config.configVersion;
}

/** Does nothing while a push for the key is pending or has just failed. */
export function pushAfterAnswer(c: Context<AppEnv>, key: KnownKey, since: number): void {
  const nowMs = Date.now();
  if (isBefore(key.configPushFromMs, nowMs, CALL_TIMEOUT_MS)) return;
  key.configPushFromMs = nowMs + CALL_TIMEOUT_MS;
  c.executionCtx.waitUntil(push(c.env, key, since));
}

async function push(env: Env, key: KnownKey, since: number): Promise<void> {
  try {
    const version = await within(CALL_TIMEOUT_MS, pushConfiguration(env, key.workspaceId, since));
    // The look-up may have cached a version from before D1 was restored.
    if (version !== null) key.configVersion = version;
  } catch (error) {
    logEvent("configure_failed", { workspace: key.workspaceId, error: errorText(error) });
    key.configPushFromMs = Date.now() + PUSH_PAUSE_MS;
  }
}
