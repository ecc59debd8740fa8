/** Admits the checked signals of a body: one call of the workspace's Quota Counter, all or nothing. */
import type { LimitRefusal, Refusal, SignalRefusal } from "../domain/keys/refusal.ts";
import type { RateState } from "../domain/quota/request-rate.ts";
import { verdictInRun, type AdmittedVerdict } from "../domain/quota/quota.ts";
import type { BodySignal } from "../domain/signal/signal-body.ts";
import { newId } from "../platform/ids.ts";
import { tooFast } from "../http/workspace-share.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import { CALL_TIMEOUT_MS, RETRY_MIN_SECONDS } from "../limits.ts";
import type { AdmitCall, AdmitResult, InvalidSignals, PeriodState } from "../quota/protocol.ts";
import { writeCall, type WrittenCall } from "../wire/message.ts";
import type { CallHead, SignalHead } from "../wire/admission.ts";
import type { KnownKey } from "./authenticate.ts";
import type { Context } from "hono";
import type { AppEnv } from "../env.ts";

export type Outcome =
  | { status: AdmittedVerdict; id: string }
  | { status: "rejected"; refusal: SignalRefusal | LimitRefusal };

interface Limits {
  rate: RateState | null;
  period: PeriodState | null;
  /** Version of the configuration that the counter used; infinity: unknown. */
  configVersion: number;
}

type CallOutcome = Limits & ({ ok: true; outcomes: Outcome[] } | { ok: false; refusal: Refusal });

interface AdmitInput {
  key: KnownKey;
  requestId: string;
  source: string | undefined;
  idempotencyKey: string | undefined;
  signals: BodySignal[];
  requests: number;
  /** The body, with positions of the signals. */
  bytes: Uint8Array;
}

const UNAVAILABLE = { code: "unavailable", retryAfterMs: RETRY_MIN_SECONDS * 1_000 } as const;
const DEACTIVATED = { code: "unauthorized", cause: "key_deactivated" } as const;

/** Calls of the Quota Counter before the sender gets a 503. */
const ATTEMPTS = 3;

/** Returns an outcome for each signal, or one refusal for all. */
export async function admit(env: Env, call: AdmitInput): Promise<CallOutcome> {
  const answer = await callCounter(env, call);
  if (answer === null || answer.result.outcome === "key_deactivated") {
    const refusal = answer === null ? UNAVAILABLE : DEACTIVATED;
    return { ok: false, refusal, rate: null, period: null, configVersion: Infinity };
  }
  const { result, ids } = answer;
  const { rate, period } = result;
  if (result.outcome !== "counted") {
    const { outcome, retryAfterMs } = result;
    const refusal: Refusal =
      outcome === "full" ? { code: "unavailable", retryAfterMs } : tooFast(retryAfterMs, call.requests);
    return { ok: false, refusal, rate, period, configVersion: Infinity };
  }
  let nth = 0;
  const outcomes = call.signals.map((signal, index): Outcome => {
    if (signal.refusal !== null) return { status: "rejected", refusal: signal.refusal };
    const status = verdictInRun(nth++, result);
    return status === "rejected"
      ? { status, refusal: result.refusal ?? missing() }
      : { status, id: ids[index] ?? missing() };
  });
  return { ok: true, outcomes, rate, period, configVersion: result.configVersion };
}

type Answer = Exclude<AdmitResult, { outcome: "unconfigured" }>;

/** Null: the Quota Counter cannot be reached. Each attempt gives the signals new ids. */
async function callCounter(env: Env, call: AdmitInput): Promise<{ result: Answer; ids: (string | null)[] } | null> {
  const { key, requestId, signals } = call;
  const invalid = invalidSignals(signals);
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const ids = newIds(signals);
    const request: AdmitCall = { keyId: key.keyId, requestId, invalid, ...written(call, ids) };
    if (call.requests > 1) request.requests = call.requests;
    // After an error a stub stays broken, so each attempt creates a new one.
    const counter = env.QUOTA_COUNTER.getByName(key.workspaceId);
    try {
      // oxlint-disable-next-line no-await-in-loop
      const result = await within<AdmitResult>(CALL_TIMEOUT_MS, counter.admit(request));
      if (result.outcome !== "unconfigured") return { result, ids };
      // oxlint-disable-next-line no-await-in-loop
      await within(CALL_TIMEOUT_MS, pushConfiguration(env, key.workspaceId));
    } catch (error) {
      const { retryable, overloaded } = error as { retryable?: boolean; overloaded?: boolean };
      logEvent("admit_failed", { workspace: key.workspaceId, attempt, error: errorText(error) });
      // The failed call may have been counted. With new ids the signals are counted again and found as duplicates, so
      // the books balance.
      if (retryable !== true || overloaded === true) return null;
    }
  }
  return null;
}

/** Most calls have none and allocate only the array. */
function invalidSignals(signals: BodySignal[]): InvalidSignals[] {
  const byCode: InvalidSignals[] = [];
  for (const { refusal } of signals) {
    if (refusal === null) continue;
    const known = byCode.find((entry) => entry.code === refusal.code);
    if (known === undefined) byCode.push({ code: refusal.code, detail: refusal.detail, signals: 1 });
    else known.signals++;
  }
  return byCode;
}

/** A new id for each valid signal; null for the others. */
function newIds(signals: BodySignal[]): (string | null)[] {
  const nowMs = Date.now();
  return signals.map(({ refusal }) => (refusal === null ? newId("sig", nowMs) : null));
}

function written({ key, source, idempotencyKey, signals, bytes }: AdmitInput, ids: (string | null)[]): WrittenCall {
  const head: CallHead = { key: key.keyId };
  if (key.endpointType === "product_org") head.endpoint = "product_org";
  if (source !== undefined) head.source = source;
  if (idempotencyKey !== undefined) head.idem = idempotencyKey;
  const valid: (SignalHead & { payload: Uint8Array })[] = [];
  for (const [index, { start, end }] of signals.entries()) {
    const id = ids[index] ?? null;
    if (id === null) continue;
    const payload = bytes.subarray(start, end);
    valid.push(idempotencyKey === undefined ? { id, payload } : { id, index, payload });
  }
  return writeCall(head, valid);
}

function missing(): never {
  throw new Error("the Quota Counter did not decide a signal");
}

// Pushes the configuration of D1 to a Quota Counter (design §6): before the call if it has none, after the answer if it
// used an older one. Loads the control plane only then.

const PUSH_PAUSE_MS = 5_000;

/** @returns the pushed version; null: the workspace does not exist in D1. */
async function pushConfiguration(env: Env, workspaceId: string): Promise<number | null> {
  const { controlDatabase } = await import("../control/database.ts");
  const { workspaceConfig } = await import("../control/workspaces.ts");
  const config = await workspaceConfig(controlDatabase(env.DB.withSession("first-primary")), workspaceId);
  if (config === null) return null;
  await env.QUOTA_COUNTER.getByName(workspaceId).configure(config.quota);
  return config.quota.configVersion;
}

/** Does nothing while a push for the key is pending or has just failed. */
export function pushAfterAnswer(c: Context<AppEnv>, key: KnownKey): void {
  const nowMs = Date.now();
  if (nowMs < key.configPushFromMs) return;
  key.configPushFromMs = nowMs + CALL_TIMEOUT_MS;
  c.executionCtx.waitUntil(push(c.env, key));
}

async function push(env: Env, key: KnownKey): Promise<void> {
  try {
    const version = await within(CALL_TIMEOUT_MS, pushConfiguration(env, key.workspaceId));
    // The look-up may have cached a version from before D1 was restored.
    if (version !== null) key.configVersion = version;
  } catch (error) {
    logEvent("configure_failed", { workspace: key.workspaceId, error: errorText(error) });
    key.configPushFromMs = Date.now() + PUSH_PAUSE_MS;
  }
}
