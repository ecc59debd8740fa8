/**
 * From checked signals to verdicts: composes the outbox records, calls the workspace's Quota Counter, and gives each
 * signal its outcome. One call for all but large bodies, which go in slices, in order.
 */
import { normalise } from "../domain/signal/normalise.ts";
import type { LimitRefusal, Refusal, SignalRefusal, Unavailable } from "../domain/keys/refusal.ts";
import type { RateState } from "../domain/quota/request-rate.ts";
import type { JsonObject } from "../domain/json/json-object.ts";
import { ordinalsTaken, verdictInRun } from "../domain/quota/quota.ts";
import type { Verdict } from "../domain/signal/signal.ts";
import type { BodySignal } from "../domain/signal/signal-body.ts";
import { newId } from "../platform/ids.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import { CALL_TIMEOUT_MS, MESSAGE_MAX_BYTES, RETRY_MIN_SECONDS } from "../limits.ts";
import type { AdmitCall, AdmitChunk, AdmitResult, InvalidSignals, PeriodState } from "../quota/protocol.ts";
import { signalWriter } from "../wire/message.ts";
import type { Envelope } from "../wire/admission.ts";
import type { Utf8Text } from "../platform/utf8-text.ts";
import type { KnownKey } from "./key-cache.ts";
import { pushConfiguration } from "./push-configuration.ts";
import { tooFast } from "./shedding.ts";

/**
 * Bytes that one `admit` call carries at most, as they are written: a Durable Object stays responsive between slices, and what
 * is made of one of them is let go of before the next.
 */
export const ADMIT_SLICE_MAX_BYTES = 500_000;

/** Why the rest of a body was not admitted, although signals before it were. */
type BrokenOff = Unavailable | { code: "unauthorized"; cause: "key_deactivated" };

export type Outcome =
  | { status: Verdict; id: string }
  | { status: "rejected"; refusal: SignalRefusal | LimitRefusal | BrokenOff };

interface Limits {
  rate: RateState | null;
  period: PeriodState | null;
  /** Version of the configuration that the counter has decided with; infinity: the counter has not said. */
  configVersion: number;
}

/** Outcomes in the order of the signals, or what refuses the call as a whole. */
export type CallOutcome = Limits &
  (
    | {
        ok: true;
        outcomes: Outcome[];
        /** Why the last signals were not admitted, where the reason is one that passes. */
        brokenOff: Unavailable | null;
        /** Whether the whole call may be sent again where it broke off: nothing of it would be stored twice. */
        repeat: boolean;
      }
    | { ok: false; refusal: Refusal }
  );

export interface Admittance {
  key: KnownKey;
  requestId: string;
  source: string | undefined;
  idempotencyKey: string | undefined;
  signals: BodySignal[];
  /** How many requests the body counts as. */
  requests: number;
  /** The body's text, of which the signals are slices. */
  text: Utf8Text;
}

const UNAVAILABLE = { code: "unavailable", retryAfterMs: RETRY_MIN_SECONDS * 1_000 } as const;
const DEACTIVATED = { code: "unauthorized", cause: "key_deactivated" } as const;

/** As long as each id of a signal: `sig_` and a UUID. */
const LONGEST_ID = "sig_".padEnd(40, "0");

/** Attempts to reach the Quota Counter before the sender is asked to come again. */
const ATTEMPTS = 3;

/** Slices are admitted in order; each is durable or not at all. Where one fails, so do those behind it (design §7a). */
export async function admit(env: Env, call: Admittance): Promise<CallOutcome> {
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
      return { ok: true, outcomes, brokenOff: UNAVAILABLE, repeat: isHarmlessAgain(call, outcomes), ...limits };
    }
    const { result, ids } = answer;
    limits = { rate: result.rate, period: result.period, configVersion: Infinity };
    if (result.outcome !== "counted") {
      // The counter says this of a body's first slice only: nothing of the body has been admitted.
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

/** Whether all that was admitted is found to be a duplicate when it comes again, or changes nothing then. */
function isHarmlessAgain({ key, idempotencyKey, signals, text }: Admittance, outcomes: Outcome[]): boolean {
  if (key.endpointType === "product_org" || idempotencyKey !== undefined) return true;
  return signals.every(({ start, end }, index) => {
    if (outcomes[index]?.status === "rejected") return true;
    return normalise(JSON.parse(text.slice(start, end)) as JsonObject, undefined).hasOwnId;
  });
}

type Answer = Exclude<AdmitResult, { outcome: "unconfigured" | "closed" }>;

/** Admits a slice; null when the Quota Counter cannot be reached. Each attempt gives the signals new ids, see within. */
async function admitSlice(
  env: Env,
  call: Admittance,
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
    // A new stub each time: after an error the old one stays broken.
    const counter = env.QUOTA_COUNTER.getByName(key.workspaceId);
    try {
      // oxlint-disable-next-line no-await-in-loop
      const result = await within<AdmitResult>(CALL_TIMEOUT_MS, counter.admit(request));
      if (result.outcome === "closed") return null;
      if (result.outcome !== "unconfigured") return { result, ids };
      // oxlint-disable-next-line no-await-in-loop
      await within(CALL_TIMEOUT_MS, pushConfiguration(env, key.workspaceId));
    } catch (error) {
      const { retryable, overloaded } = error as { retryable?: boolean; overloaded?: boolean };
      logEvent("admit_failed", { workspace: key.workspaceId, attempt, error: errorText(error) });
      // The lost call may have been counted all the same. With new ids the second one is a signal of its own, which the
      // consumer removes as a duplicate: the books stay balanced, and nothing is lost.
      if (retryable !== true || overloaded === true) return null;
    }
  }
  return null;
}

/** A slice has at least one signal. Refused signals count too, although they are not written. */
function endOfSlice(signals: BodySignal[], from: number, envelopeBytes: number): number {
  let bytes = 0;
  let until = from;
  for (; until < signals.length; until++) {
    bytes += envelopeBytes + (signals[until]?.bytes ?? 0);
    if (bytes > ADMIT_SLICE_MAX_BYTES && until > from) break;
  }
  return until;
}

/** The refused signals, by code. Most calls have none, and cost no allocation but the array's. */
function invalidSignals(signals: BodySignal[]): InvalidSignals[] {
  const byCode: InvalidSignals[] = [];
  for (const { refusal } of signals) {
    if (refusal === null) continue;
    const known = byCode.find((one) => one.code === refusal.code);
    if (known === undefined) byCode.push({ code: refusal.code, detail: refusal.detail, signals: 1 });
    else known.signals++;
  }
  return byCode;
}

/** Index and new id of each of the slice's signals that is to be admitted. */
function newIds(signals: BodySignal[], from: number, until: number): [number, string][] {
  const nowMs = Date.now();
  const ids: [number, string][] = [];
  for (let index = from; index < until; index++) {
    if (signals[index]?.refusal === null) ids.push([index, newId("sig", nowMs)]);
  }
  return ids;
}

/** Writes the records of a call's signals. */
class RecordWriter {
  /** Bytes of a record without its payload, at most. */
  readonly envelopeMaxBytes: number;
  /** UTF-8 bytes of a record beyond its length: all but the path's source is ASCII. */
  readonly #sourceExtraBytes: number;
  readonly #write: ReturnType<typeof signalWriter>;
  readonly #idempotencyKey: string | undefined;

  constructor({ key, source, idempotencyKey, signals }: Admittance) {
    const common: Omit<Envelope, "id" | "idem"> = { key: key.keyId };
    if (key.endpointType === "product_org") common.endpoint = "product_org";
    if (source !== undefined) common.source = source;
    this.#write = signalWriter(common);
    this.#idempotencyKey = idempotencyKey;
    this.#sourceExtraBytes = source === undefined ? 0 : Buffer.byteLength(source) - source.length;
    this.envelopeMaxBytes = this.write(LONGEST_ID, signals.length, "", 0).bytes;
  }

  /** @param payloadBytes UTF-8 length of the payload. */
  write(id: string, index: number, payload: string, payloadBytes: number): { text: string; bytes: number } {
    const idem = this.#idempotencyKey === undefined ? undefined : `${this.#idempotencyKey}:${index}`;
    const text = this.#write(id, idem, payload);
    return { text, bytes: text.length - payload.length + payloadBytes + this.#sourceExtraBytes };
  }
}

/** These signals as outbox records. */
function composeChunks(call: Admittance, records: RecordWriter, ids: readonly [number, string][]): AdmitChunk[] {
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
