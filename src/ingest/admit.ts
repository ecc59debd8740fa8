/** Admits checked signals: one call of the workspace's Quota Counter, or one for each slice of a large body. */
import { normalise } from "../domain/signal/normalise.ts";
import type { LimitRefusal, Refusal, SignalRefusal, Unavailable } from "../domain/keys/refusal.ts";
import type { RateState } from "../domain/quota/request-rate.ts";
import type { JsonObject } from "../domain/json/json-value.ts";
import { ordinalsTaken, verdictInRun, type AdmittedVerdict } from "../domain/quota/quota.ts";
import type { BodySignal, BodyText } from "../domain/signal/signal-body.ts";
import { newId } from "../platform/ids.ts";
import { tooFast } from "../http/workspace-share.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import { CALL_TIMEOUT_MS, MESSAGE_MAX_BYTES, RETRY_MIN_SECONDS } from "../limits.ts";
import type { AdmitCall, AdmitChunk, AdmitResult, InvalidSignals, PeriodState } from "../quota/protocol.ts";
import { writeSignal } from "../wire/message.ts";
import type { Envelope } from "../wire/admission.ts";
import type { KnownKey } from "./authenticate.ts";
import type { Context } from "hono";
import type { AppEnv } from "../env.ts";

/** The object stays responsive between slices, and a slice's memory is freed before the next. */
export const ADMIT_SLICE_MAX_BYTES = 500_000;

type BrokenOff = Unavailable | { code: "unauthorized"; cause: "key_deactivated" };

export type Outcome =
  | { status: AdmittedVerdict; id: string }
  | { status: "rejected"; refusal: SignalRefusal | LimitRefusal | BrokenOff };

interface Limits {
  rate: RateState | null;
  period: PeriodState | null;
  /** Version of the configuration that the counter used; infinity: unknown. */
  configVersion: number;
}

export type CallOutcome = Limits &
  (
    | {
        ok: true;
        outcomes: Outcome[];
        /** A temporary reason why the last signals were not admitted. */
        brokenOff: Unavailable | null;
        /** Whether the sender may repeat the whole call, because nothing of it would be stored twice. */
        repeat: boolean;
      }
    | { ok: false; refusal: Refusal }
  );

interface AdmitInput {
  key: KnownKey;
  requestId: string;
  source: string | undefined;
  idempotencyKey: string | undefined;
  signals: BodySignal[];
  requests: number;
  /** Text of the body, with positions of the signals. */
  text: BodyText;
}

const UNAVAILABLE = { code: "unavailable", retryAfterMs: RETRY_MIN_SECONDS * 1_000 } as const;
const DEACTIVATED = { code: "unauthorized", cause: "key_deactivated" } as const;

const LONGEST_ID = "sig_".padEnd(40, "0");

/** Calls of the Quota Counter before the sender gets a 503. */
const ATTEMPTS = 3;

/** Each slice is admitted durably or not at all. After a failed slice the following ones fail too (design §7a). */
export async function admit(env: Env, call: AdmitInput): Promise<CallOutcome> {
  const outcomes: Outcome[] = [];
  for (const { refusal } of call.signals) outcomes.push({ status: "rejected", refusal: refusal ?? UNAVAILABLE });
  let limits: Limits = { rate: null, period: null, configVersion: Infinity };
  let kept = 0;
  const records = new RecordWriter(call);
  for (let from = 0; from < call.signals.length;) {
    const until = endOfSlice(call.signals, from, records.envelopeMaxBytes);
    // oxlint-disable-next-line no-await-in-loop
    const answer = await admitSlice(env, call, records, [from, until]);
    if (answer === null || answer.result.outcome === "key_deactivated") {
      const why = answer === null ? UNAVAILABLE : DEACTIVATED;
      if (kept === 0) return { ok: false, refusal: why, ...limits };
      breakOff(outcomes, call.signals, from, why);
      if (answer !== null) return { ok: true, outcomes, brokenOff: null, repeat: false, ...limits };
      return { ok: true, outcomes, brokenOff: UNAVAILABLE, repeat: isHarmlessToRepeat(call, outcomes), ...limits };
    }
    const { result, ids } = answer;
    limits = { rate: result.rate, period: result.period, configVersion: Infinity };
    if (result.outcome !== "counted") {
      const { outcome, retryAfterMs } = result;
      const refusal: Refusal =
        outcome === "full" ? { code: "unavailable", retryAfterMs } : tooFast(retryAfterMs, call.requests);
      return { ok: false, refusal, ...limits };
    }
    limits.configVersion = result.configVersion;
    let nth = 0;
    for (const [index, id] of ids) {
      const status = verdictInRun(nth++, result);
      if (status !== "rejected") outcomes[index] = { status, id };
      else if (result.refusal !== null) outcomes[index] = { status, refusal: result.refusal };
    }
    kept += ordinalsTaken(result);
    from = until;
  }
  return { ok: true, outcomes, brokenOff: null, repeat: false, ...limits };
}

function breakOff(outcomes: Outcome[], signals: BodySignal[], from: number, refusal: BrokenOff): void {
  for (let index = from; index < signals.length; index++) {
    if (signals[index]?.refusal === null) outcomes[index] = { status: "rejected", refusal };
  }
}

/** Whether a repetition of each admitted signal is a duplicate or changes nothing. */
function isHarmlessToRepeat({ key, idempotencyKey, signals, text }: AdmitInput, outcomes: Outcome[]): boolean {
  if (key.endpointType === "product_org" || idempotencyKey !== undefined) return true;
  return signals.every(({ start, end }, index) => {
    if (outcomes[index]?.status === "rejected") return true;
    return normalise(JSON.parse(text.slice(start, end)) as JsonObject, undefined).hasOwnId;
  });
}

type Answer = Exclude<AdmitResult, { outcome: "unconfigured" }>;

/** Null: the Quota Counter cannot be reached. Each attempt gives the signals new ids. */
async function admitSlice(
  env: Env,
  call: AdmitInput,
  records: RecordWriter,
  [from, until]: readonly [number, number],
): Promise<{ result: Answer; ids: [number, string][] } | null> {
  const firstSlice = from === 0;
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const ids = newIds(call.signals, from, until);
    const chunks = composeChunks(call, records, ids);
    const { key, requestId } = call;
    const invalid = firstSlice ? invalidSignals(call.signals) : [];
    const request: AdmitCall = { keyId: key.keyId, chunks, requestId, firstSlice, invalid };
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

/** Takes at least one signal. Refused signals count too, although they are not written. */
function endOfSlice(signals: BodySignal[], from: number, envelopeBytes: number): number {
  let bytes = 0;
  let until = from;
  for (; until < signals.length; until++) {
    bytes += envelopeBytes + (signals[until]?.bytes ?? 0);
    if (bytes > ADMIT_SLICE_MAX_BYTES && until > from) break;
  }
  return until;
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

/** Index and new id of each valid signal of the slice. */
function newIds(signals: BodySignal[], from: number, until: number): [number, string][] {
  const nowMs = Date.now();
  const ids: [number, string][] = [];
  for (let index = from; index < until; index++) {
    if (signals[index]?.refusal === null) ids.push([index, newId("sig", nowMs)]);
  }
  return ids;
}

class RecordWriter {
  readonly envelopeMaxBytes: number;
  /** Only the path's source may contain other characters than ASCII. */
  readonly #sourceExtraBytes: number;
  readonly #common: Omit<Envelope, "id" | "idem">;
  readonly #idempotencyKey: string | undefined;

  constructor({ key, source, idempotencyKey, signals }: AdmitInput) {
    this.#common = { key: key.keyId };
    if (key.endpointType === "product_org") this.#common.endpoint = "product_org";
    if (source !== undefined) this.#common.source = source;
    this.#idempotencyKey = idempotencyKey;
    this.#sourceExtraBytes = source === undefined ? 0 : Buffer.byteLength(source) - source.length;
    this.envelopeMaxBytes = this.write(LONGEST_ID, signals.length, "", 0).bytes;
  }

  write(id: string, index: number, payload: string, payloadBytes: number): { text: string; bytes: number } {
    const envelope: Envelope = { id, ...this.#common };
    if (this.#idempotencyKey !== undefined) envelope.idem = `${this.#idempotencyKey}:${index}`;
    const text = writeSignal(envelope, payload);
    return { text, bytes: text.length - payload.length + payloadBytes + this.#sourceExtraBytes };
  }
}

function composeChunks(call: AdmitInput, records: RecordWriter, ids: readonly [number, string][]): AdmitChunk[] {
  const chunks: AdmitChunk[] = [];
  let chunk: AdmitChunk | undefined;
  for (const [index, id] of ids) {
    const signal = call.signals[index];
    if (signal === undefined) continue;
    const payload = call.text.slice(signal.start, signal.end);
    const { text, bytes } = records.write(id, index, payload, signal.bytes);
    if (chunk === undefined || chunk.bytes + bytes > MESSAGE_MAX_BYTES)
      chunks.push((chunk = { text, count: 1, bytes }));
    else {
      chunk.text += text;
      chunk.count++;
      chunk.bytes += bytes;
    }
  }
  return chunks;
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
