/**
 * What one commit decides of the calls that share it, in order of arrival (design §6, §7): their verdicts, the outbox rows
 * of what is admitted, and what is to be listed as refused. Nothing is stored here.
 */
import { decideQuotaRun, ordinalsTaken, overageOfRun, quotaCeiling } from "../domain/quota/quota.ts";
import type { Refusal } from "../domain/keys/refusal.ts";
import type { RefusedCalls } from "../domain/keys/rejection.ts";
import type { RateState } from "../domain/quota/request-rate.ts";
import { storedDetail } from "../http/problem.ts";
import type { AcceptedCall } from "./call-counts.ts";
import type { Ledger } from "./ledger.ts";
import { RowPacker } from "./pack.ts";
import type { PackedRow } from "./pack.ts";
import type { AdmitCall, AdmitResult, PeriodState } from "./protocol.ts";

/** While the Signal Store is full: how often one message is sent, to find out whether it has room again. */
export const STORE_PROBE_MS = 60_000;

/** The refusal while the outbox is full. A retry may succeed once the Signal Store is known to have room again. */
const OUTBOX_FULL = {
  code: "unavailable",
  cause: null,
  detail: "As many signals as there is room for wait to be stored.",
  retryAfterMs: STORE_PROBE_MS,
} as const;

/** A call that is within its key's request rate, and where that rate stands. */
export interface CountedCall {
  call: AdmitCall;
  rate: RateState;
}

export interface CommitDecisions {
  /** What each call is answered, in the order of the calls. */
  results: AdmitResult[];
  rows: PackedRow[];
  refused: RefusedCalls[];
  /** The calls of which something was kept. */
  accepted: AcceptedCall[];
}

export interface AdmissionTime {
  nowMs: number;
  /** Ids of deactivated keys. */
  revoked: ReadonlySet<string>;
  /** Whether the outbox is full. The later slices of a body whose first slice was admitted are admitted all the same. */
  full: boolean;
}

/**
 * Decides the calls of one commit.
 *
 * @param ledger its counts are changed.
 */
export function decideAdmissions(
  ledger: Ledger,
  calls: readonly CountedCall[],
  { nowMs, revoked, full }: AdmissionTime,
): CommitDecisions {
  const results: AdmitResult[] = [];
  const refused: RefusedCalls[] = [];
  const accepted: AcceptedCall[] = [];
  const packer = new RowPacker(
    { at: nowMs, period_start: ledger.periodStartMs, period_end: ledger.periodEndMs, limit: ledger.signalLimit },
    ledger.nextRow,
    ordinalsTaken(ledger),
  );
  for (const { call, rate } of calls) {
    if (revoked.has(call.keyId)) {
      refused.push(refusedCall(call, { code: "unauthorized", cause: "key_deactivated" }, 1, nowMs));
      results.push({ outcome: "key_deactivated" });
      continue;
    }
    const signals = countSignals(call);
    if (full && call.firstSlice) {
      const { retryAfterMs, ...told } = OUTBOX_FULL;
      refused.push(refusedFor(call, told, signals, nowMs));
      results.push({ outcome: "full", retryAfterMs, rate, period: periodState(ledger) });
      continue;
    }
    for (const { signals: invalid, ...told } of call.invalid) {
      refused.push(refusedFor(call, { ...told, cause: null }, invalid, nowMs));
    }
    const used = ordinalsTaken(ledger);
    const run = decideQuotaRun(used, signals, ledger);
    packer.add(call.chunks, run.accepted, run.held);
    const kept = ordinalsTaken(run);
    if (kept > 0) accepted.push({ keyId: call.keyId, calls: call.firstSlice ? 1 : 0 });
    ledger.accepted += run.accepted;
    ledger.held += run.held;
    ledger.rejected += run.rejected;
    ledger.admitted += kept;
    ledger.overage += overageOfRun(used, run.accepted, ledger);
    const refusal = run.refusal && { code: run.refusal, retryAfterMs: ledger.periodEndMs - nowMs };
    if (refusal) refused.push(refusedCall(call, refusal, run.rejected, nowMs));
    const { configVersion } = ledger;
    results.push({ outcome: "counted", ...run, refusal, rate, period: periodState(ledger), configVersion });
  }
  return { results, rows: packer.rows(), refused, accepted };
}

export function countSignals(call: AdmitCall): number {
  return call.chunks.reduce((sum, chunk) => sum + chunk.count, 0);
}

export function periodState(ledger: Ledger): PeriodState {
  const ceiling = quotaCeiling(ledger);
  const used = ordinalsTaken(ledger);
  return { ceiling, remaining: ceiling === null ? null : Math.max(0, ceiling - used), periodEndMs: ledger.periodEndMs };
}

type Caller = Pick<AdmitCall, "keyId" | "requestId">;

/** An entry for the rejections list: a call of which `signals` are refused for `refusal`. */
export function refusedCall(caller: Caller, refusal: Refusal, signals: number, atMs: number): RefusedCalls {
  const cause = "cause" in refusal ? refusal.cause : null;
  return refusedFor(caller, { code: refusal.code, cause, detail: storedDetail(refusal) }, signals, atMs);
}

export function refusedFor(
  { keyId, requestId }: Caller,
  { code, cause, detail }: Pick<RefusedCalls, "code" | "cause" | "detail">,
  signals: number,
  atMs: number,
): RefusedCalls {
  return { keyId, requestId, code, cause, detail, calls: 1, signals, firstAtMs: atMs, lastAtMs: atMs };
}
