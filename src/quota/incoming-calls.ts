/** Decides calls: deactivated key, request rate, quota. Concurrent calls share a commit (design §6, §7, §14). */
import type { Rejection } from "../domain/keys/refusal.ts";
import { addVerdicts, decideQuotaRun, ordinalsTaken, overageOfRun, quotaCeiling } from "../domain/quota/quota.ts";
import type { RateState } from "../domain/quota/request-rate.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { STORE_PROBE_MS } from "./drain.ts";
import type { CallsByDay, RequestBuckets, RevokedKeys } from "./keys.ts";
import type { LedgerState, Ledger } from "./ledger.ts";
import { type Outbox, RowPacker } from "./outbox.ts";
import type { AdmitCall, AdmitResult, PeriodState, RefusedCall, RefusedResult } from "./protocol.ts";
import { reasonOf, refusedCall, type Refusals } from "./refusals.ts";

interface Parts {
  revoked: RevokedKeys;
  rates: RequestBuckets;
  calls: CallsByDay;
  refusals: Refusals;
  ledger: LedgerState;
  outbox: Outbox;
}

interface CountedCall {
  call: AdmitCall;
  rate: RateState;
}

type RateLimited = AdmitResult & { outcome: "rate_limited" };

const DEACTIVATED = reasonOf({ code: "unauthorized", cause: "key_deactivated" });

/** A retry is suggested after the next probe of the store. */
const OUTBOX_FULL = {
  code: "unavailable",
  detail: "Too many signals are waiting to be stored.",
} as const;

/** A larger call does not share a commit: small calls neither wait for it nor fail with it, and it does not wait in memory. */
export const LARGE_CALL_BYTES = 1_000_000;

export class IncomingCalls {
  readonly #workspaceId: string;
  readonly #parts: Parts;
  readonly #commits: SharedCommits<CountedCall, AdmitResult>;

  constructor(ctx: DurableObjectState, parts: Parts) {
    this.#workspaceId = ctx.id.name ?? "";
    this.#parts = parts;
    this.#commits = new SharedCommits(
      (calls) => this.#commit(calls),
      () => ctx.storage.sync(),
    );
  }

  /** @throws if the commit fails; then none of its calls was counted. */
  admit(call: AdmitCall, nowMs: number): Promise<AdmitResult> | AdmitResult {
    const { ledger, revoked } = this.#parts;
    if (ledger.current === null) return { outcome: "unconfigured" };
    if (revoked.has(call.keyId)) return this.#refuseDeactivated(call, nowMs);
    const { rate, refusal } = this.#takeRequest(call, call.sizes.length, nowMs);
    if (refusal !== null) return refusal;
    const isLarge = call.signals.byteLength > LARGE_CALL_BYTES;
    return isLarge ? this.#commits.submitAlone({ call, rate }) : this.#commits.submit({ call, rate });
  }

  refused(call: RefusedCall, nowMs: number): RefusedResult {
    const { revoked, refusals } = this.#parts;
    if (revoked.has(call.keyId)) return this.#refuseDeactivated(call, nowMs);
    const { rate, refusal } = this.#takeRequest(call, call.signals, nowMs);
    if (refusal !== null) return refusal;
    const { code, detail } = call;
    refusals.add([refusedCall(call, { code, detail }, call.signals, nowMs)], nowMs);
    return { outcome: "noted", rate, period: this.#period(nowMs) };
  }

  #takeRequest(
    call: Pick<AdmitCall, "keyId" | "requestId" | "requests">,
    signals: number,
    nowMs: number,
  ): { rate: RateState; refusal: RateLimited | null } {
    const { rates, calls, refusals } = this.#parts;
    calls.used(call.keyId, nowMs);
    refusals.countCalls(call.keyId, 1, nowMs);
    const { allowed, retryAfterMs, remaining, resetMs } = rates.take(call.keyId, nowMs, call.requests);
    const rate = { remaining, resetMs };
    if (allowed) return { rate, refusal: null };
    const reason = reasonOf({ code: "rate_limited", retryAfterMs });
    refusals.add([refusedCall(call, reason, signals, nowMs)], nowMs);
    return { rate, refusal: { outcome: "rate_limited", retryAfterMs, rate, period: this.#period(nowMs) } };
  }

  #refuseDeactivated(call: Pick<AdmitCall, "keyId" | "requestId">, nowMs: number): { outcome: "key_deactivated" } {
    const { refusals } = this.#parts;
    refusals.countCalls(call.keyId, 1, nowMs);
    refusals.add([refusedCall(call, DEACTIVATED, 1, nowMs)], nowMs);
    return { outcome: "key_deactivated" };
  }

  #commit(counted: readonly CountedCall[]): AdmitResult[] {
    const { ledger, calls, refusals, outbox } = this.#parts;
    const nowMs = Date.now();
    let results: AdmitResult[] = [];
    const refused: Rejection[] = [];
    try {
      ledger.update(nowMs, (changed) => {
        const packer = new RowPacker(
          {
            at: nowMs,
            period_start: changed.periodStartMs,
            period_end: changed.periodEndMs,
            limit: changed.signalLimit,
          },
          changed.nextRow,
          ordinalsTaken(changed),
        );
        const { isFull } = outbox;
        results = counted.map((call) => this.#decide(call, { ledger: changed, packer, refused, isFull, nowMs }));
        return { rows: packer.rows() };
      });
    } catch (error) {
      logEvent("commit_failed", { workspace: this.#workspaceId, calls: counted.length, error: errorText(error) });
      throw error;
    }
    for (const [index, { call }] of counted.entries()) {
      const result = results[index];
      if (result?.outcome !== "counted" || ordinalsTaken(result) === 0) continue;
      calls.accepted(call.keyId, nowMs);
    }
    refusals.add(refused, nowMs);
    return results;
  }

  /** Changes the ledger's counts, and adds rows and refusals to the commit. */
  #decide({ call, rate }: CountedCall, { ledger, packer, refused, isFull, nowMs }: Commit): AdmitResult {
    if (this.#parts.revoked.has(call.keyId)) {
      refused.push(refusedCall(call, DEACTIVATED, 1, nowMs));
      return { outcome: "key_deactivated" };
    }
    const signals = call.sizes.length;
    if (isFull) {
      refused.push(refusedCall(call, OUTBOX_FULL, signals, nowMs));
      return { outcome: "full", retryAfterMs: STORE_PROBE_MS, rate, period: periodState(ledger) };
    }
    for (const { signals: invalid, ...reason } of call.invalid) refused.push(refusedCall(call, reason, invalid, nowMs));
    const used = ordinalsTaken(ledger);
    const run = decideQuotaRun(used, signals, ledger);
    packer.add(call, run);
    addVerdicts(ledger, run);
    ledger.admitted += ordinalsTaken(run);
    ledger.overage += overageOfRun(used, run.accepted, ledger);
    const refusal = run.refusal && { code: run.refusal, retryAfterMs: ledger.periodEndMs - nowMs };
    if (refusal) refused.push(refusedCall(call, reasonOf(refusal), run.rejected, nowMs));
    const { configVersion } = ledger;
    return { outcome: "counted", ...run, refusal, rate, period: periodState(ledger), configVersion };
  }

  #period(nowMs: number): PeriodState | null {
    const ledger = this.#parts.ledger.upToDate(nowMs);
    return ledger && periodState(ledger);
  }
}

interface Commit {
  ledger: Ledger;
  packer: RowPacker;
  refused: Rejection[];
  isFull: boolean;
  nowMs: number;
}

function periodState(ledger: Ledger): PeriodState {
  const ceiling = quotaCeiling(ledger);
  const used = ordinalsTaken(ledger);
  return { ceiling, remaining: ceiling === null ? null : Math.max(0, ceiling - used), periodEndMs: ledger.periodEndMs };
}

/** Short compared with the way from a sender, and a commit costs a row. */
export const COMMIT_INTERVAL_MS = 8;
/** Time for which calls share commits after two calls have overlapped. */
export const SHARE_MS = 100;

interface WaitingCall<Call, Result> {
  call: Call;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}

/**
 * A sender that waits for each answer gets a commit at once. If a call arrives before another is durable, there are
 * several senders: for SHARE_MS, calls within COMMIT_INTERVAL_MS of a commit share the next one.
 */
export class SharedCommits<Call, Result> {
  readonly #commit: (calls: Call[]) => Result[];
  readonly #durable: () => Promise<unknown>;
  #waiting: WaitingCall<Call, Result>[] = [];
  #isScheduled = false;
  #lastCommitMs = 0;
  /** Commits that are not durable yet. */
  #inProgress = 0;
  #overlapMs = Number.NEGATIVE_INFINITY;

  /**
   * @param commit if it throws, all of these calls fail. @param durable resolves when all earlier writes are durable.
   */
  constructor(commit: (calls: Call[]) => Result[], durable: () => Promise<unknown>) {
    this.#commit = commit;
    this.#durable = durable;
  }

  submit(call: Call): Promise<Result> {
    return new Promise((resolve, reject) => {
      const nowMs = Date.now();
      if (this.#inProgress > 0 || this.#waiting.length > 0) this.#overlapMs = nowMs;
      this.#waiting.push({ call, resolve, reject });
      if (this.#isScheduled) return;
      const sinceLastMs = nowMs - this.#lastCommitMs;
      // Negative: the clock was set back.
      const isShared = nowMs - this.#overlapMs < SHARE_MS && sinceLastMs >= 0 && sinceLastMs < COMMIT_INTERVAL_MS;
      if (!isShared) return this.#commitWaiting();
      this.#isScheduled = true;
      setTimeout(() => this.#commitWaiting(), COMMIT_INTERVAL_MS - sinceLastMs);
    });
  }

  /** Commits at once. Waiting calls go on waiting for their own commit. */
  submitAlone(call: Call): Promise<Result> {
    return new Promise((resolve, reject) => {
      if (this.#inProgress > 0 || this.#waiting.length > 0) this.#overlapMs = Date.now();
      this.#commitCalls([{ call, resolve, reject }]);
    });
  }

  #commitWaiting(): void {
    const calls = this.#waiting;
    this.#waiting = [];
    this.#isScheduled = false;
    this.#commitCalls(calls);
  }

  #commitCalls(calls: WaitingCall<Call, Result>[]): void {
    this.#lastCommitMs = Date.now();
    try {
      const results = this.#commit(calls.map(({ call }) => call));
      calls.forEach(({ resolve }, index) => resolve(results[index] as Result));
      void this.#untilDurable();
    } catch (error) {
      for (const { reject } of calls) reject(error);
    }
  }

  async #untilDurable(): Promise<void> {
    this.#inProgress++;
    // A failed write ends the object, so its error needs no handling here.
    await this.#durable().catch(() => undefined);
    this.#inProgress--;
  }
}
